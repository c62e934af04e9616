"""What a program may rely on: a POST sent twice is done once, lists come in pages, an order that was seen is kept."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.api.once import KEPT_S
from headway.api.pages import OrderMark, page
from headway.core.commands import AddJob, MoveJob, Reply, SetMode
from headway.core.model import Device
from headway.errors import StoreFailed
from headway.ports import Kept
from headway.store.store import SqliteStore
from tests.core.make import gib
from tests.parts.false_api import Served, serving, snapshot

pytestmark = pytest.mark.contract

ADD = "/api/v1/jobs"
TRAIN = {"recipe": "train", "priority": 60}
Answer = tuple[int, dict[str, str], Any]


@pytest.fixture
async def api(short_dir: Path) -> AsyncIterator[Served]:
    async with serving(short_dir) as served:
        yield served


async def admin(api: Served, name: str = "all") -> str:
    made = await api.post("/api/v1/tokens", {"name": name, "scopes": ["admin"]})
    return f"Bearer {made['token']}"


async def posted(
    api: Served, who: str, key: str, payload: Any = None, path: str = ADD, **headers: str
) -> Answer:
    status, found, body = await api.raw(
        "POST", path, payload, Authorization=who, Idempotency_Key=key, **headers
    )
    return status, found, json.loads(body)


# ---------------------------------------------------------------- Idempotency-Key


async def test_sent_again_it_is_done_once_and_answered_the_same(api: Served) -> None:
    who = await admin(api)
    first = await posted(api, who, "k1", TRAIN)
    api.inbox.reply = Reply(accepted=True, code="accepted", facts={}, holder="j10", rev=9)
    again = await posted(api, who, "k1", dict(reversed(TRAIN.items())))
    assert (first[0], first[2]["id"], again[0], again[2]) == (202, "j9", 202, first[2])
    assert again[1]["location"] == first[1]["location"] == "/api/v1/jobs/j9"
    assert ("idempotency-replayed" in first[1], again[1]["idempotency-replayed"]) == (False, "true")
    assert len(api.inbox.given) == 1
    assert (await posted(api, who, "k2", TRAIN))[2]["id"] == "j10"


OTHERS = {
    "another body": (ADD, {**TRAIN, "priority": 61}),
    "another path": ("/api/v1/mode", {"mode": "live"}),
}


@pytest.mark.parametrize(("path", "payload"), OTHERS.values(), ids=OTHERS.keys())
async def test_a_key_of_another_request_is_refused(api: Served, path: str, payload: dict[str, Any]) -> None:
    who = await admin(api)
    await posted(api, who, "k1", TRAIN)
    status, _, found = await posted(api, who, "k1", payload, path)
    assert (status, found["code"], len(api.inbox.given)) == (409, "key_used", 1)


async def test_two_callers_may_use_the_same_key(api: Served) -> None:
    one, two = await admin(api), await admin(api, "two")
    await posted(api, one, "k1", TRAIN)
    await posted(api, two, "k1", {**TRAIN, "priority": 61})
    assert len(api.inbox.given) == 2


async def test_answers_survive_the_daemon_and_are_kept_for_a_day(short_dir: Path) -> None:
    file = short_dir / "headway.db"
    store = SqliteStore(file)
    async with serving(short_dir, keeper=store) as api:
        who = await admin(api)
        first = await posted(api, who, "k1", TRAIN)
    await store.close()
    store = SqliteStore(file)
    async with serving(short_dir, keeper=store) as api:
        assert (await posted(api, who, "k1", TRAIN))[2] == first[2]
        assert api.inbox.given == []
        api.clock.wall += KEPT_S + 1
        await posted(api, who, "k1", TRAIN)
        await posted(api, who, "k2", TRAIN)
        assert len(api.inbox.given) == 2
        assert len([one for one in store.kept() if one.kind == "answer"]) == 2
    await store.close()


class Stopping:
    """Implements ports.Keeper; from the `n`th write on nothing is written, as if the daemon was killed there."""

    def __init__(self, writes: int) -> None:
        self.left = writes
        self.rows: dict[tuple[str, str], Kept] = {}

    def kept(self) -> Sequence[Kept]:
        return tuple(self.rows.values())

    async def keep(self, put: Sequence[Kept] = (), gone: Sequence[tuple[str, str]] = ()) -> None:
        self.left -= 1
        if self.left < 0:
            raise StoreFailed("the disk is full. Free some.")
        for one in gone:
            self.rows.pop(one, None)
        self.rows |= {(one.kind, one.key): one for one in put}


async def test_a_daemon_that_was_killed_in_between_does_it_never_twice(short_dir: Path) -> None:
    keeper = Stopping(writes=2)  # the token, and the word that it was begun
    async with serving(short_dir, keeper=keeper) as api:
        who = await admin(api)
        first = await posted(api, who, "k1", TRAIN)
        assert first[0] == 202
        assert (await posted(api, who, "k1", TRAIN))[2] == first[2], "this daemon knows it still"
    keeper.left = 10
    async with serving(short_dir, keeper=keeper) as api:
        status, _, found = await posted(api, who, "k1", TRAIN)
        assert (status, found["code"], api.inbox.given) == (409, "key_lost", [])


async def test_what_cannot_be_written_first_is_not_begun(short_dir: Path) -> None:
    keeper = Stopping(writes=1)
    async with serving(short_dir, keeper=keeper) as api:
        who = await admin(api)
        status, headers, found = await posted(api, who, "k1", TRAIN)
        assert (status, found["code"], api.inbox.given) == (503, "store_failed", [])
        assert headers["retry-after"] == "2" and found["retry_after_s"] == 2.0
        keeper.left = 10
        assert (await posted(api, who, "k1", TRAIN))[0] == 202


async def test_while_the_first_is_under_way_the_second_is_told_so(api: Served) -> None:
    who = await admin(api)
    gate: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    api.inbox.pending = gate
    first = asyncio.create_task(posted(api, who, "k1", TRAIN))
    while not api.inbox.given:
        await asyncio.sleep(0)
    status, headers, found = await posted(api, who, "k1", TRAIN)
    assert (status, found["code"], headers["retry-after"]) == (409, "key_running", "1")
    gate.set_result(Reply(accepted=True, code="accepted", facts={}, holder="j9", rev=8))
    assert (await first)[0] == 202
    assert len(api.inbox.given) == 1


async def test_a_refusal_frees_its_key(api: Served) -> None:
    who = await admin(api)
    for reply in (Reply(accepted=False, code="store_silent", facts={}), RuntimeError("boom")):
        api.inbox.reply = reply
        assert (await posted(api, who, "k1", TRAIN))[0] in (500, 503)
    assert (await posted(api, who, "k1", {"recipe": "nope"}))[0] == 404
    api.inbox.reply = Reply(accepted=True, code="accepted", facts={}, holder="j9", rev=8)
    assert (await posted(api, who, "k1", TRAIN))[0] == 202


async def test_keys_of_a_strange_form_and_answers_with_a_secret_are_refused(api: Served) -> None:
    who = await admin(api)
    for key in ("", "x" * 256, "a b", "\xe9"):
        assert (await posted(api, who, key, TRAIN))[2]["code"] == "invalid"
    made = await posted(api, who, "k1", {"name": "n", "scopes": ["read"]}, "/api/v1/tokens")
    assert (made[0], made[2]["code"]) == (422, "invalid")
    assert api.inbox.given == [] and len(api.access.tokens.rows()) == 1


# ---------------------------------------------------------------- pages


async def walked(api: Served, path: str) -> list[str]:
    """The ids of all pages, by their Link headers."""
    seen: list[str] = []
    while path:
        status, headers, body = await api.raw("GET", path)
        assert status == 200
        found = json.loads(body)
        seen += [str(row["id"]) for row in (found["jobs"] if isinstance(found, dict) else found)]
        path = headers.get("link", "").partition(">")[0].removeprefix("<")
        assert len(seen) < 4000
    return seen


DEVICES = tuple(f"local/gpu{n}" for n in range(5))
LISTS = {
    "jobs": ("/api/v1/jobs?limit=2", ["j1", "j2", "j3", "j4"]),
    "jobs by state": ("/api/v1/jobs?limit=1&state=queued", ["j2", "j3", "j4"]),
    "the queue": ("/api/v1/queue?limit=2", ["j2", "j3", "j4"]),
    "services": ("/api/v1/services?limit=1", ["chat"]),
    "devices": ("/api/v1/devices?limit=2", list(DEVICES)),
    "history": ("/api/v1/history?limit=1000&after=500", [str(n) for n in range(501, 3001)]),
    "requests": ("/api/v1/requests?limit=1000", ["1"]),
}


@pytest.mark.parametrize(("path", "ids"), LISTS.values(), ids=LISTS.keys())
async def test_every_list_is_walked_by_its_links(api: Served, path: str, ids: list[str]) -> None:
    devices = {
        one: Device(id=one, name=one[6:], index=n, total_bytes=gib(24)) for n, one in enumerate(DEVICES)
    }
    api.hub.publish(snapshot(8, devices=devices), {}, frozenset())
    assert await walked(api, path) == ids


def test_a_page_ends_where_the_next_begins() -> None:
    rows = list("abcde")
    assert page(rows, str, None, 2) == (("a", "b"), "b")
    assert page(rows, str, "b", 3) == (("c", "d", "e"), None)
    assert page(rows, str, "gone", 5) == (tuple(rows), None)
    assert page([], str, None, 2) == ((), None)


# ---------------------------------------------------------------- the order that was seen


async def test_a_move_in_an_order_that_has_changed_is_refused(api: Served) -> None:
    who = await admin(api)
    move = {"target": "j4", "where": "top"}
    _, headers, _ = await api.raw("GET", "/api/v1/queue")
    seen = headers["etag"]
    same = await api.raw("POST", "/api/v1/queue/move", move, Authorization=who, If_Match=f'"x", {seen}')
    line = api.hub.snapshot.queue["gpu"]
    assert same[0] == 202 and api.inbox.given == [
        MoveJob(target="j4", where="top", seen=line, by="token all")
    ]
    swapped = {"gpu": (line[1], line[0], line[2])}
    api.hub.publish(snapshot(8, queue=swapped), {}, frozenset())
    status, _, body = await api.raw("POST", "/api/v1/queue/move", move, Authorization=who, If_Match=seen)
    told = json.loads(body)
    assert (status, told["code"], len(api.inbox.given)) == (412, "order_changed", 1)
    now = (await api.raw("GET", "/api/v1/queue"))[1]["etag"]
    assert (told["facts"]["order"], told["facts"]["etag"]) == (["j3", "j2", "j4"], now)
    for mark in ("*", (await api.raw("GET", "/api/v1/queue"))[1]["etag"]):
        assert (await api.raw("POST", "/api/v1/queue/move", move, Authorization=who, If_Match=mark))[0] == 202
    weak = await api.raw("POST", "/api/v1/queue/move", move, Authorization=who, If_Match=f"W/{seen}")
    assert weak[0] == 412


async def test_of_two_that_move_at_the_same_time_the_later_is_told_the_new_order(api: Served) -> None:
    """Both saw the same order, and the loop has taken the other one first: it refuses, and the answer says more."""
    who = await admin(api)
    seen = (await api.raw("GET", "/api/v1/queue"))[1]["etag"]
    api.inbox.reply = Reply(accepted=False, code="order_changed", facts={"target": "j4"}, holder="j4")
    status, headers, body = await api.raw(
        "POST", "/api/v1/queue/move", {"target": "j4", "where": "top"}, Authorization=who, If_Match=seen
    )
    told = json.loads(body)
    assert (status, told["code"], told["facts"]["order"]) == (412, "order_changed", ["j2", "j3", "j4"])
    assert headers["etag"] == told["facts"]["etag"]


async def test_several_are_one_command_with_the_order_that_was_seen(api: Served) -> None:
    who = await admin(api)
    seen = (await api.raw("GET", "/api/v1/queue"))[1]["etag"]
    move = {"target": ["j4", "j1"], "where": "top"}
    assert (await api.raw("POST", "/api/v1/queue/move", move, Authorization=who, If_Match=seen))[0] == 202
    assert api.inbox.given == [
        MoveJob(target="j4", behind=("j1",), where="top", seen=api.hub.snapshot.queue["gpu"], by="token all")
    ]


def test_the_mark_of_an_order_changes_with_it_and_with_nothing_else() -> None:
    mark, base = OrderMark(), {"gpu": ((1.0, "j1"), (2.0, "j2")), "cpu": ((1.0, "j3"),)}
    first = mark.of(base)
    assert mark.of({**base, "held": ()}) == first
    assert mark.of({**base, "gpu": ((5.0, "j1"), (6.0, "j2"))}) == first == OrderMark().of(base)
    others = (
        {**base, "gpu": ((1.0, "j2"), (2.0, "j1"))},
        {**base, "gpu": ((1.0, "j1"),)},
        {"gpu": base["gpu"]},
        {**base, "held": ((1.0, "j4"),)},
        {"gpu": base["cpu"], "cpu": base["gpu"]},
    )
    assert len({first, *map(mark.of, others)}) == 6


async def test_accepted_and_done_are_told_apart(api: Served) -> None:
    who = await admin(api)
    for path, payload, location in (
        (ADD, TRAIN, "/api/v1/jobs/j9"),
        ("/api/v1/mode", {"mode": "live"}, "/api/v1/status"),
        ("/api/v1/jobs/j1/stop", {}, "/api/v1/jobs/j1"),
        ("/api/v1/services/chat/hold", {}, "/api/v1/services/chat"),
    ):
        status, headers, _ = await api.raw("POST", path, payload, Authorization=who)
        assert (status, headers["location"]) == (202, location)
    assert isinstance(api.inbox.given[0], AddJob)
    assert replace(api.inbox.given[0].spec, priority=0).name == "train"
    assert api.inbox.given[1] == SetMode(mode="live", by="token all")
