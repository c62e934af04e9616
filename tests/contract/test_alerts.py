"""Who is told, how often, and that it is over; and every way to tell."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from headway.alerts.alerts import CAUSES_MAX, CODES, ONCE_IN_S, OVER, QUEUED_MAX, Alerts
from headway.alerts.command import CommandWay
from headway.alerts.webhook import WebhookWay
from headway.core.model import Event
from headway.core.tellings import EVENTS
from headway.errors import AlertFailed
from headway.ports import AlertWay
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

FACTS = {
    "state": "trouble",
    "code": "service.failed",
    "holder": "chat",
    "message": "chat cannot start",
    "exit_code": 3,
}


def event(code: str = "service.failed", holder: str | None = "chat", **facts: Any) -> Event:
    return Event(code=code, holder=holder, at_s=1.0, facts=facts)


class Heard:
    """Implements ports.AlertWay: keeps what it is told, or fails."""

    name = "heard"

    def __init__(self, fails: bool = False) -> None:
        self.facts: list[Mapping[str, Any]] = []
        self.fails = fails

    async def tell(self, facts: Mapping[str, Any]) -> None:
        if self.fails:
            raise AlertFailed("nobody is there.")
        self.facts.append(facts)


class World:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.way = Heard()
        self.failed: list[tuple[str, str]] = []
        self.alerts = Alerts(lambda: self.now_s, lambda way, words: self.failed.append((way, words)))
        self.alerts.use([self.way])

    def note(self, *events: Event) -> None:
        for one in events:
            self.alerts.note(one, lambda: "words")

    async def heard(self) -> list[tuple[str, str, str | None]]:
        """(state, code, holder) of all that was told until now."""
        worker = asyncio.create_task(self.alerts.run())
        await wait_until(self.alerts._queue.empty, 10, "all are told")
        await asyncio.sleep(0)
        worker.cancel()
        return [(one["state"], one["code"], one["holder"]) for one in self.way.facts]


# ---------------------------------------------------------------- whom, how often


async def test_one_per_cause_and_hour_and_one_that_it_is_over() -> None:
    world = World()
    failed, other, up = event(), event(holder="other"), event("move.done", form="awake")
    world.note(
        failed, failed, other, event("move.done", form="stopped"), event("move.done", "x", form="awake")
    )
    world.note(up, up, failed)
    assert await world.heard() == [
        ("trouble", "service.failed", "chat"),
        ("trouble", "service.failed", "other"),
        ("recovered", "service.failed", "chat"),
    ]
    world.way.facts.clear()
    world.note(up)  # of a failure that nobody was told of
    world.now_s += ONCE_IN_S
    world.note(failed, up)
    assert await world.heard() == [
        ("trouble", "service.failed", "chat"),
        ("recovered", "service.failed", "chat"),
    ]


PAIRS = {
    "device": (event("device.trouble", None, device="gpu0"), event("device.seen", None, device="gpu0")),
    "meter": (event("meter.silent", None), event("meter.speaks", None)),
    "store": (event("store.silent", None), event("store.speaks", None)),
    "memory": (event("memory.not_released"), event("release.verified")),
    "a gate": (event("gate.stuck"), event("gate.closed")),
    "a server": (event("service.died"), event("move.done", form="awake")),
    "a job that is held": (event("job.held", "j1"), event("move.done", "j1", form="running")),
    "a job that failed": (event("job.failed", "j1"), event("job.done", "j1")),
}


@pytest.mark.parametrize(("begins", "ends"), PAIRS.values(), ids=PAIRS.keys())
async def test_what_ends_is_told_for_its_own_cause_only(begins: Event, ends: Event) -> None:
    world = World()
    elsewhere = Event(code=ends.code, holder="elsewhere", at_s=1.0, facts={**ends.facts, "device": "gpu7"})
    world.note(begins, *([elsewhere] if begins.holder or begins.facts else []), ends)
    states = [(state, code) for state, code, _ in await world.heard()]
    assert states == [("trouble", begins.code), ("recovered", begins.code)]


def test_every_code_is_one_of_the_audit() -> None:
    ended = {code for causes, _ in OVER.values() for code in causes}
    assert CODES | OVER.keys() <= EVENTS.keys()
    assert ended <= CODES


async def test_nothing_is_kept_for_nobody_and_no_crowd_fills_the_memory() -> None:
    world = World()
    world.alerts.use([])
    world.note(event())
    assert await world.heard() == [] and await world.alerts.test() == []
    world.alerts.use([world.way])
    for n in range(CAUSES_MAX + 10):
        world.note(event("job.failed", f"j{n}"))
    assert len(world.alerts._told) == CAUSES_MAX
    assert world.alerts.counts["queue", "failed"] == CAUSES_MAX + 10 - QUEUED_MAX


async def test_a_way_that_fails_is_said_and_the_others_are_told() -> None:
    world = World()
    world.alerts.use([Heard(fails=True), world.way])
    world.note(event())
    assert len(await world.heard()) == 1
    assert world.failed == [("heard", "nobody is there.")]
    assert [(one.sent, one.error) for one in await world.alerts.test()] == [
        (False, "nobody is there."),
        (True, None),
    ]
    assert world.alerts.counts == {("heard", "failed"): 2, ("heard", "sent"): 2}


# ---------------------------------------------------------------- every way


@asynccontextmanager
async def hooked(status: int = 204, silent: bool = False) -> AsyncIterator[tuple[str, list[Any]]]:
    """A server that keeps what is posted to it: its address, and (document, headers) of each."""
    got: list[Any] = []
    over = asyncio.Event()

    async def post(request: web.Request) -> web.Response:
        got.append((await request.json(), request.headers))
        if silent:
            await over.wait()
        return web.Response(status=status, headers={"Location": "/elsewhere"} if status == 302 else {})

    app = web.Application()
    app.router.add_post("/hook", post)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    try:
        yield f"http://127.0.0.1:{port}/hook?secret=s3", got
    finally:
        over.set()
        await runner.cleanup()


Case = Callable[[Path], Any]


@asynccontextmanager
async def command(tmp_path: Path, script: str, limit_s: float = 30.0) -> AsyncIterator[AlertWay]:
    yield CommandWay(("sh", "-c", script), limit_s)


@asynccontextmanager
async def webhook(status: int = 204, silent: bool = False, limit_s: float = 30.0) -> AsyncIterator[AlertWay]:
    async with hooked(status, silent) as (url, _), aiohttp.ClientSession() as http:
        yield WebhookWay(http, url, limit_s=limit_s)


@asynccontextmanager
async def nowhere(key_file: str | None = None) -> AsyncIterator[AlertWay]:
    async with aiohttp.ClientSession() as http:
        yield WebhookWay(http, "http://127.0.0.1:1/s3", key_file)


@asynccontextmanager
async def no_program(*argv: str) -> AsyncIterator[AlertWay]:
    yield CommandWay(argv)


FAILS: dict[str, Case] = {
    "no such program": lambda _: no_program("/no/such/program"),
    "a NUL in a word": lambda _: no_program("echo", "a\0b"),
    "another code than 0": lambda path: command(path, "exit 3"),
    "a command that hangs, and its child": lambda path: command(path, "sleep 600 & wait", 0.2),
    "nobody listens": lambda _: nowhere(),
    "a key that is not there": lambda path: nowhere(str(path / "none")),
    "refused": lambda _: webhook(500),
    "sent elsewhere": lambda _: webhook(302),
    "an answer that never comes": lambda _: webhook(silent=True, limit_s=0.2),
}


@pytest.mark.parametrize("made", FAILS.values(), ids=FAILS.keys())
async def test_what_was_not_told_is_an_error_in_words_without_a_secret(made: Case, tmp_path: Path) -> None:
    async with made(tmp_path) as way:
        with pytest.raises(AlertFailed) as error:
            await asyncio.wait_for(way.tell(FACTS), 20)
    assert str(error.value).endswith(".") and "s3" not in str(error.value)


async def test_a_command_gets_the_facts_twice(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = f'echo "$HEADWAY_STATE $HEADWAY_CODE $HEADWAY_HOLDER $HEADWAY_EXIT_CODE" > {out}; cat >> {out}'
    await CommandWay(("sh", "-c", script)).tell({**FACTS, "strange": object(), "none": None})
    first, rest = out.read_text().split("\n", 1)
    assert first == "trouble service.failed chat 3"
    assert {**json.loads(rest), **FACTS} == json.loads(rest)


async def test_a_webhook_gets_the_facts_and_the_key_of_now(tmp_path: Path) -> None:
    key = tmp_path / "key"
    async with hooked() as (url, got), aiohttp.ClientSession() as http:
        way = WebhookWay(http, url, str(key))
        for word in ("one\n", "two"):
            key.write_text(word)
            await way.tell({**FACTS, "strange": object()})
        await WebhookWay(http, url).tell(FACTS)
    assert [headers.get("Authorization") for _, headers in got] == ["Bearer one", "Bearer two", None]
    assert got[2][0] == FACTS and got[0][1]["Content-Type"] == "application/json"
