"""Kills in the middle of work: clients whose every word is checked, random moments, and what must be true at the end."""

import asyncio
import json
import random
import time
import uuid
from collections import Counter
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp

from demo.memory_watch import MemoryWatch
from demo.tiny_server import recorded
from tests.e2e.loads import CHAT, chat_body
from tests.e2e.stack import LIMIT_S, Row, Stack
from tests.parts.programs import GIB
from tests.waiting import wait_for

TOTAL_BYTES = 24 * GIB
CLOCK_S = 0.005  # the gate rounds its times


@dataclass(slots=True)
class Talk:
    """One streamed request to a tiny server, as its client sees it while it goes on."""

    model: str
    chunks: int
    id: str
    text: str = ""
    status: int = 0
    whole: bool = False
    error: str | None = None

    @property
    def right(self) -> bool:
        """Whether all of it came, and every word from the server and for the request that were meant."""
        words = "".join(f" word{number}" for number in range(1, self.chunks))
        return self.whole and self.error is None and self.text == f"{self.model} {self.id}{words}"

    @property
    def own(self) -> bool:
        """Whether nothing in it is another program's or another request's."""
        words = "".join(f" word{number}" for number in range(1, self.chunks))
        return f"{self.model} {self.id}{words}".startswith(self.text)

    @property
    def began(self) -> bool:
        """Whether the first word is there."""
        return bool(self.text)


async def converse(session: aiohttp.ClientSession, url: str, talk: Talk, pace_s: float) -> Talk:
    """Send the request and read its stream into `talk`; what the server does is never raised."""
    body = chat_body(talk.model, stream=True, chunks=talk.chunks, pace_s=pace_s)
    limit = aiohttp.ClientTimeout(total=LIMIT_S)
    try:
        async with session.post(
            url + CHAT, json=body, headers={"x-request-id": talk.id}, timeout=limit
        ) as reply:
            talk.status = reply.status
            if reply.status != 200:
                talk.error = (await reply.text())[:300]
                return talk
            async for line in reply.content:
                data = line.decode().removeprefix("data: ").strip()
                if data == "[DONE]":
                    talk.whole = True
                elif line.startswith(b"data: "):
                    event = json.loads(data)
                    if "error" in event:
                        talk.error = str(event["error"])
                    else:
                        talk.text += "".join(c["delta"].get("content", "") for c in event["choices"])
    except (aiohttp.ClientError, TimeoutError, OSError) as problem:
        talk.error = f"{type(problem).__name__}: {problem}"
    return talk


def talk(
    stack: Stack, model: str = "chat", chunks: int = 3, pace_s: float = 0.0, url: str | None = None
) -> tuple[Talk, Future[Talk]]:
    """Begin one streamed request in the background, over a connection of its own."""
    begun = Talk(model, chunks, uuid.uuid4().hex)

    async def one() -> Talk:
        async with aiohttp.ClientSession() as session:
            return await converse(session, url or stack.front, begun, pace_s)

    return begun, stack.asking.work(one())


class Load:
    """Clients that ask one request after the other until the end of the `with`. `talks` has all of them."""

    def __init__(
        self, stack: Stack, model: str = "chat", clients: int = 2, chunks: int = 3, pace_s: float = 0.03
    ) -> None:
        self.talks: list[Talk] = []
        self._stack, self._model, self._clients = stack, model, clients
        self._chunks, self._pace_s = chunks, pace_s
        self._ending = False

    def __enter__(self) -> Self:
        url = self._stack.front
        work: Coroutine[Any, Any, None] = self._all(url)
        self._over = self._stack.asking.work(work)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending = True
        self._over.result(LIMIT_S + 5)

    @property
    def whole(self) -> int:
        """Requests answered to their last word."""
        return sum(one.whole for one in list(self.talks))

    async def _all(self, url: str) -> None:
        async with aiohttp.ClientSession() as session:
            await asyncio.gather(*(self._one(session, url) for _ in range(self._clients)))

    async def _one(self, session: aiohttp.ClientSession, url: str) -> None:
        while not self._ending:
            asked = Talk(self._model, self._chunks, uuid.uuid4().hex)
            self.talks.append(asked)
            await converse(session, url, asked, self._pace_s)


def moment(chance: random.Random, longest_s: float) -> None:
    """Let a random time pass, so that the next thing happens at any point of what is under way."""
    until_s = time.monotonic() + chance.uniform(0.0, longest_s)
    wait_for(lambda: time.monotonic() >= until_s, longest_s + LIMIT_S, "a random moment")


def linked(stack: Stack, service: str) -> None:
    """Wait until the gate has the daemon's table, so that a request for the service is not refused."""
    stack.wait(lambda: stack.service(service)["active"] is not None, "the gate's first word")


def rendering(stack: Stack) -> tuple[str, int]:
    """Wait until the render job can be parked: it draws. Returns its run and pid."""
    stack.wait_job("render", "running")
    stack.wait((stack.home / "render" / "frame").exists, "the first frame")
    return process_of(stack, "render")


def line(stack: Stack) -> list[tuple[str, str]]:
    """Who waits, in order: (id, queued or held)."""
    rows = stack.jobs(ended=False)
    return [(row["id"], row["state"]) for row in rows if row["state"] in ("queued", "held")]


def process_of(stack: Stack, target: str) -> tuple[str, int]:
    """The present run and its pid."""
    row: Row = stack.api(f"/api/v1/holders/{target}")
    return row["run"], row["pid"]


class Witness:
    """From `with` to `check`: memory was never given twice, no job ran twice, no request was sent twice or aside."""

    def __init__(self, stack: Stack, *services: str) -> None:
        self._stack, self._services = stack, services
        self._memory = MemoryWatch(stack.reports)

    def __enter__(self) -> Self:
        self._memory.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._memory.__exit__(kind, error, trace)

    def check(self, talks: Sequence[Talk], jobs: Sequence[str] = (), log_cut: bool = False) -> None:
        """Assert it; the daemon has to be there.

        Args:
            talks: all that were ever sent.
            log_cut: a gate was killed, so the last lines of its log may be missing.
        """
        stack = self._stack
        assert self._memory.most_bytes() <= TOTAL_BYTES, "more was held than there is"
        for job in jobs:
            assert not (stack.home / job / "copies").exists(), f"a second copy of {job} was started"
        for service in self._services:
            sent = recorded(stack.home / f"{service}.record")
            assert len(set(sent)) == len(sent), f"sent twice: {Counter(sent).most_common(3)}"
            mine = [one for one in talks if one.model == service]
            assert {one.id for one in mine if one.whole} <= set(sent), "an answer that its server never gave"
            assert all(one.own for one in mine), "words of another program"
            self._check_log(service, set() if log_cut else {one.id for one in mine})
            assert_never_sent_aside(stack, service)

    def _check_log(self, service: str, ids: set[str]) -> None:
        def logged() -> Counter[str] | None:
            found = Counter(row["id"] for row in self._stack.requests(service))
            return found if ids <= found.keys() else None

        times = self._stack.wait(logged, "every request in the log") if ids else (logged() or Counter())
        assert [one for one in times if times[one] > 1] == [], "logged twice"


def assert_never_sent_aside(stack: Stack, service: str) -> None:
    """No request was passed on between the word that put the service aside and the one that started it again."""
    moves = stack.events("move.asked", holder=service)
    spans = [
        (move["wall_s"], after["wall_s"] if after else float("inf"))
        for move, after in zip(moves, [*moves[1:], None], strict=True)
        if move["facts"]["form"] == "stopped" and (after is None or after["facts"]["form"] == "awake")
    ]
    for row in stack.requests(service):
        if row["sent_after_s"] is None:
            continue
        sent_s = row["wall_s"] + row["sent_after_s"]
        inside = [span for span in spans if span[0] + CLOCK_S < sent_s < span[1] - CLOCK_S]
        assert not inside, f"{row['id']} was sent at {sent_s}, while {service} was aside: {inside}"
