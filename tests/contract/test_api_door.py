"""Who may do what over which socket, and the stream of changes."""

import asyncio
import inspect
import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from headway.api import events
from headway.api.app import ROUTERS
from headway.api.auth import peer_of
from headway.api.parts import Parts, parts_of
from headway.core.model import Job
from tests.parts.false_api import Served, serving, snapshot
from tests.waiting import wait_until

pytestmark = pytest.mark.contract


@pytest.fixture
async def api(short_dir: Path) -> AsyncIterator[Served]:
    async with serving(short_dir) as served:
        yield served


# ---------------------------------------------------------------- no threads

ROUTES = [route for module in ROUTERS for route in module.router.routes if isinstance(route, APIRoute)]


def asked_by(dependant: Dependant) -> Iterator[Any]:
    """Everything that is called for one request, dependencies of dependencies too."""
    yield dependant.call
    for needed in dependant.dependencies:
        yield from asked_by(needed)


@pytest.mark.parametrize("route", ROUTES, ids=[f"{min(r.methods or ())} {r.path}" for r in ROUTES])
def test_a_request_is_answered_without_a_thread(route: APIRoute) -> None:
    """A plain function would be called in one, each time: it costs, and its place in the line of turns is lost."""
    called = list(asked_by(route.dependant))
    assert route.endpoint in called
    assert [call for call in called if not inspect.iscoroutinefunction(call)] == []


def test_routes_were_looked_at_and_dependencies_too() -> None:
    called = {call for route in ROUTES for call in asked_by(route.dependant)}
    assert {parts_of, peer_of} <= called


# ---------------------------------------------------------------- who may

DOOR = {
    # name: (verb, path, headers, status, code)
    "reads on loopback": ("GET", "/api/v1/status", {}, 200, None),
    "by name": ("GET", "/api/v1/status", {"Host": "localhost:1"}, 200, None),
    "by IPv6": ("GET", "/api/v1/status", {"Host": "[::1]:1"}, 200, None),
    "rebound name": ("GET", "/api/v1/status", {"Host": "evil.example"}, 403, "foreign_host"),
    "a name that looks like ours": (
        "GET",
        "/api/v1/status",
        {"Host": "localhost.evil.example"},
        403,
        "foreign_host",
    ),
    "a name before ours": (
        "GET",
        "/api/v1/status",
        {"Host": "evil.example@127.0.0.1:1"},
        403,
        "foreign_host",
    ),
    "a path behind ours": ("GET", "/api/v1/status", {"Host": "127.0.0.1:1/x"}, 403, "foreign_host"),
    "a word for its port": ("GET", "/api/v1/status", {"Host": "127.0.0.1:x"}, 403, "foreign_host"),
    "in capitals": ("GET", "/api/v1/status", {"Host": "LOCALHOST:1"}, 200, None),
    "no name": ("GET", "/api/v1/status", {"Host": ""}, 403, "foreign_host"),
    "logs": ("GET", "/api/v1/jobs/j1/log", {}, 401, "token_missing"),
    "changes": ("POST", "/api/v1/jobs/j1/stop", {}, 401, "token_missing"),
    "foreign origin": (
        "POST",
        "/api/v1/jobs/j1/stop",
        {"Origin": "http://evil.example"},
        403,
        "foreign_origin",
    ),
    "foreign referer": (
        "POST",
        "/api/v1/jobs/j1/stop",
        {"Referer": "http://evil.example/x"},
        403,
        "foreign_origin",
    ),
    "another scheme": (
        "POST",
        "/api/v1/jobs/j1/stop",
        {"Host": "127.0.0.1:1", "Origin": "https://127.0.0.1:1"},
        403,
        "foreign_origin",
    ),
    "a referer of another scheme": (
        "POST",
        "/api/v1/jobs/j1/stop",
        {"Host": "127.0.0.1:1", "Referer": "https://127.0.0.1:1/x"},
        403,
        "foreign_origin",
    ),
    "our own page": (
        "POST",
        "/api/v1/jobs/j1/stop",
        {"Host": "127.0.0.1:1", "Origin": "http://127.0.0.1:1", "Referer": "http://127.0.0.1:1/x"},
        401,
        "token_missing",
    ),
    "cross site": ("POST", "/api/v1/jobs/j1/stop", {"Sec_Fetch_Site": "cross-site"}, 403, "foreign_origin"),
    "null origin": ("POST", "/api/v1/jobs/j1/stop", {"Origin": "null"}, 403, "foreign_origin"),
    "other verbs": ("DELETE", "/api/v1/jobs/j1", {}, 405, "no_such_method"),
}


@pytest.mark.parametrize(("verb", "path", "headers", "status", "code"), DOOR.values(), ids=DOOR.keys())
async def test_the_door(
    api: Served, verb: str, path: str, headers: dict[str, str], status: int, code: str | None
) -> None:
    found, _, body = await api.raw(verb, path, **headers)
    assert (found, json.loads(body).get("code")) == (status, code)
    assert not api.inbox.given


PEERS = {
    "the daemon's user": (os.getuid(), None),
    "root": (0, None),
    "somebody else": (os.getuid() + 4711, "other_user"),
    "nobody the kernel names": (None, "other_user"),
}


@pytest.mark.parametrize(("uid", "code"), PEERS.values(), ids=PEERS.keys())
async def test_who_comes_by_the_socket(short_dir: Path, uid: int | None, code: str | None) -> None:
    async with serving(short_dir, lambda sock: uid) as api:
        if code is None:
            await api.post("/api/v1/jobs/j1/stop")
            assert api.inbox.given
        else:
            assert (await api.refused("/api/v1/jobs/j1/stop")).code == code
            assert not api.inbox.given


# ---------------------------------------------------------------- the stream


def following(
    api: Served, after: str | None = None
) -> tuple[list[tuple[str, Any, str | None]], asyncio.Task[None]]:
    """Events as they come, and the task that reads them in a thread."""
    seen: list[tuple[str, Any, str | None]] = []

    def read() -> None:
        for event in api.local.events(after=after):
            seen.append((event.name, event.data, event.id))

    return seen, asyncio.create_task(asyncio.to_thread(read))


async def test_the_stream_begins_with_the_snapshot_and_goes_on_with_changes(api: Served) -> None:
    seen, task = following(api)
    await wait_until(lambda: seen, 10, "the snapshot")
    assert (seen[0][0], seen[0][2]) == ("snapshot", f"{api.server.parts.life}.7")
    assert [row["id"] for row in seen[0][1]["queued"]] == ["j2", "j3", "j4"]
    changed = snapshot(8)
    before = changed.holders["j1"]
    assert isinstance(before, Job)
    ended = replace(before, ended="done")
    api.hub.publish(replace(changed, holders={**changed.holders, "j1": ended}), {}, frozenset({"j1", "gone"}))
    await wait_until(lambda: len(seen) >= 4, 10, "the changes")
    names = [(name, revision) for name, _, revision in seen[1:]]
    assert names == [
        ("holder.gone", None),
        ("job.updated", None),
        ("board.updated", f"{api.server.parts.life}.8"),
    ]
    assert seen[1][1] == {"id": "gone"}
    assert (seen[2][1]["id"], seen[2][1]["state"]) == ("j1", "done")
    await api.server.stop()
    await asyncio.wait_for(task, 10)


async def test_what_viewers_of_the_same_revision_are_sent_is_made_once(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, changes = list[int](), events._changes

    def counted(parts: Parts, after: int) -> list[bytes] | None:
        made.append(after)
        return changes(parts, after)

    monkeypatch.setattr(events, "_changes", counted)
    for rev in (8, 9):
        api.hub.publish(snapshot(rev), {}, frozenset({f"j{rev - 7}"}))
    life = api.server.parts.life
    viewers = [following(api, after=f"{life}.{rev}") for rev in (7, 8, 8)]
    for seen, _ in viewers:
        await wait_until(lambda: seen and seen[-1][2] == f"{life}.9", 10, "the first batch")  # noqa: B023
    assert [[data["id"] for name, data, _ in seen if name == "job.updated"] for seen, _ in viewers] == [
        ["j1", "j2"],
        ["j2"],
        ["j2"],
    ]
    assert sorted(made) == [7, 8]
    made.clear()
    api.hub.publish(snapshot(10), {}, frozenset({"j3"}))
    for seen, _ in viewers:
        await wait_until(lambda: seen[-1][2] == f"{life}.10", 10, "the second batch")  # noqa: B023
        assert [data["id"] for name, data, _ in seen if name == "job.updated"][-1] == "j3"
    assert made == [9]
    await api.server.stop()
    await asyncio.wait_for(asyncio.gather(*(task for _, task in viewers)), 10)


LAST = {
    "knows the last revision": ("LIFE.8", ["job.updated", "board.updated"]),
    "knows one from too long ago": ("LIFE.2", ["snapshot"]),
    "knows one that is to come": ("LIFE.99", ["snapshot"]),
    "knows one from before a restart, with a number of this life": ("0a1b2c3d.8", ["snapshot"]),
    "knows a number alone": ("8", ["snapshot"]),
    "knows no number": ("LIFE.x", ["snapshot"]),
    "knows a digit of another script": ("LIFE.²", ["snapshot"]),
}


@pytest.mark.parametrize(("last_id", "names"), LAST.values(), ids=LAST.keys())
async def test_a_viewer_that_comes_back_gets_what_it_missed(
    api: Served, last_id: str, names: list[str]
) -> None:
    for rev in (8, 9):
        api.hub.publish(snapshot(rev), {}, frozenset({f"j{rev - 7}"}))
    life = api.server.parts.life
    seen, task = following(api, after=last_id.replace("LIFE", life))
    await wait_until(lambda: len(seen) >= len(names), 10, "the first batch")
    assert [name for name, _, _ in seen] == names
    assert seen[-1][2] == f"{life}.9"
    await api.server.stop()
    await asyncio.wait_for(task, 10)


async def test_a_viewer_that_left_leaves_nothing_behind(api: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await asyncio.wait_for(reader.readuntil(b"event: snapshot"), 10)
    await wait_until(lambda: api.hub._waiters, 10, "the viewer's wait")
    writer.close()
    await wait_until(lambda: not api.hub._waiters, 20, "the end of its wait")


async def test_a_silent_stream_is_kept_open_by_comments(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.api.events.LOOK_S", 0.02)
    monkeypatch.setattr("headway.api.events.PING_S", 0.04)
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    head = await asyncio.wait_for(reader.readuntil(b": ping\n\n"), 10)
    assert b"content-type: text/event-stream" in head.lower()
    assert b"cache-control: no-store" in head.lower()
    writer.close()


@pytest.mark.parametrize("reads", [False, True])
async def test_a_viewer_that_takes_nothing_is_cut_off(
    api: Served, monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    monkeypatch.setattr("headway.api.taking.TAKES_NOTHING_S", 0.5)
    monkeypatch.setattr("headway.api.events._news", lambda parts, seen: b": %s\n\n" % (b"x" * 2**20))
    viewers = api.server.parts.viewers
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port, limit=1024)
    writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await wait_until(lambda: viewers, 10, "the viewer")
    rev, until_s = 8, asyncio.get_running_loop().time() + 5.0

    def goes_on() -> bool:
        nonlocal rev
        rev += 1
        api.hub.publish(snapshot(rev), {}, frozenset({"j1"}))
        return not viewers or asyncio.get_running_loop().time() > until_s

    async def taken() -> None:
        while reads and await reader.read(4096):
            pass

    reading = asyncio.create_task(taken())
    await wait_until(goes_on, 60, "the end of the stream, or a time in which it is long over")
    assert bool(viewers) == reads
    reading.cancel()
    writer.close()
