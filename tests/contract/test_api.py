"""The API over real sockets: a uvicorn in this loop, a Unix socket and loopback TCP, a false inbox behind it."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from headway.api.parts import Parts
from headway.api.server import ApiServer
from headway.client import Address, Answered, Client
from headway.core.commands import AddJob, Command, MoveJob, Reply, SetMode, SetWish
from headway.core.model import Form, Job, JobSpec, Run, Service, ServiceSpec, Snapshot, Verdict
from headway.daemon.hub import StateHub
from headway.errors import StoreFailed
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

FORMS = (Form(name="running"), Form(name="parked"), Form(name="stopped"))
TRAIN = JobSpec(
    name="train", driver="restart", forms=FORMS, moves=(), argv=("train", "--all"), env={"SECRET": "x"}
)
CHAT = ServiceSpec(name="chat", driver="process", forms=(Form(name="awake"), Form(name="stopped")), moves=())


class Clock:
    def __init__(self) -> None:
        self.at_s = 1000.0

    def now_s(self) -> float:
        return self.at_s

    def wall_s(self) -> float:
        return 0.0


class Inbox:
    """Accepts everything, or answers `reply`."""

    def __init__(self) -> None:
        self.given: list[Command] = []
        self.reply: Reply | Exception = Reply(accepted=True, code="accepted", facts={}, holder="j9", rev=8)

    def submit(self, command: Command) -> Awaitable[Reply]:
        self.given.append(command)
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if isinstance(self.reply, Exception):
            future.set_exception(self.reply)
        else:
            future.set_result(self.reply)
        return future


class Reader:
    """A history of 3,000 lines; every hundredth is about chat."""

    async def events(self, holder: str | None, after: int, limit: int) -> list[dict[str, Any]]:
        rows = [
            {
                "id": n,
                "code": "job.done",
                "holder": "chat" if n % 100 == 0 else "j1",
                "facts": {"ran_s": 60.0},
            }
            for n in range(1, 3001)
        ]
        return [row for row in rows if row["id"] > after and holder in (None, row["holder"])][:limit]

    async def requests(self, service: str | None, after: int, limit: int) -> list[dict[str, Any]]:
        return [{"id": 1, "service": service}]


def snapshot(rev: int = 7, **fields: Any) -> Snapshot:
    holders: dict[str, Job | Service] = {
        "j1": Job(
            id="j1", spec=TRAIN, forms=FORMS, form="running", run=Run(id="j1.1", lock_held=True, pid=5)
        ),
        "j2": Job(id="j2", spec=replace(TRAIN, name="eval"), forms=FORMS, form="stopped", key=1.0),
        "j3": Job(id="j3", spec=replace(TRAIN, name="twin"), forms=FORMS, form="stopped", key=2.0),
        "j4": Job(id="j4", spec=replace(TRAIN, name="twin"), forms=FORMS, form="stopped", key=3.0),
        "chat": Service(id="chat", spec=CHAT, forms=CHAT.forms, form="stopped"),
    }
    queue = {"gpu": ((1.0, "j2"), (2.0, "j3"), (3.0, "j4"))}
    return Snapshot(
        **{
            "now_s": 1000.0,
            "rev": rev,
            "holders": holders,
            "queue": queue,
            "present": ("j1",),
            "services": ("chat",),
        }
        | fields
    )


@dataclass
class Served:
    """One running API and what is behind it."""

    socket_path: Path
    port: int
    hub: StateHub
    server: ApiServer
    inbox: Inbox = field(default_factory=Inbox)
    clock: Clock = field(default_factory=Clock)

    @property
    def local(self) -> Client:
        return Client(Address(path=self.socket_path))

    async def get(self, path: str, **query: Any) -> Any:
        return await asyncio.to_thread(self.local.get, path, **query)

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return await asyncio.to_thread(self.local.post, path, body)

    async def refused(self, path: str, body: Mapping[str, Any] | None = None) -> Answered:
        """What the daemon answers to a POST that it refuses."""
        with pytest.raises(Answered) as error:
            await self.post(path, body)
        return error.value

    async def raw(self, verb: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """One request over TCP with exactly these headers (`_` is `-`)."""
        given = {
            "Host": f"127.0.0.1:{self.port}",
            **{name.replace("_", "-"): v for name, v in headers.items()},
        }
        lines = [
            f"{verb} {path} HTTP/1.1",
            *(f"{name}: {v}" for name, v in given.items()),
            "Connection: close",
        ]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write("\r\n".join((*lines, "", "")).encode())
        head, _, body = (await asyncio.wait_for(reader.read(), 10)).partition(b"\r\n\r\n")
        writer.close()
        first, *rest = head.decode().split("\r\n")
        return (
            int(first.split()[1]),
            {k.lower(): v for k, _, v in (row.partition(": ") for row in rest)},
            body,
        )


def made(fields: Mapping[str, Any]) -> JobSpec:
    if fields.get("gpu") == "lots":
        raise ValueError('gpu: "lots" is no size: write it like "16GiB"')
    return JobSpec(name=fields["name"], driver="restart", forms=FORMS, moves=(), argv=tuple(fields["argv"]))


@asynccontextmanager
async def serving(
    directory: Path, peer_uid: Callable[[Any], int | None] = lambda sock: os.getuid()
) -> AsyncIterator[Served]:
    tcp = socket.create_server(("127.0.0.1", 0))
    local = socket.socket(socket.AF_UNIX)
    path = directory / "headway.sock"
    local.bind(str(path))
    local.listen()
    hub, inbox, clock = StateHub(snapshot()), Inbox(), Clock()
    hub.publish(snapshot(), {"j2": Verdict(code="slots", facts={"active": 1, "limit": 1})}, frozenset())
    log = directory / "log"
    log.write_text("one\ntwo\nthree\n")
    parts = Parts(
        inbox=inbox,
        hub=hub,
        reader=Reader(),
        clock=clock,
        recipes={"train": TRAIN},
        make_job=made,
        tail=lambda run, lines: log.read_text().splitlines()[-lines:],
        log_path=lambda run: str(log),
        version="1.2.3",
    )
    server = ApiServer(parts, peer_uid, lambda uid: "ada")
    await server.start(tcp, local)
    try:
        yield Served(path, tcp.getsockname()[1], hub, server, inbox, clock)
    finally:
        await server.stop()


@pytest.fixture
async def api(short_dir: Path) -> AsyncIterator[Served]:
    async with serving(short_dir) as served:
        yield served


# ---------------------------------------------------------------- reading


async def test_the_board_is_the_same_on_both_sockets(api: Served) -> None:
    local = await api.get("/api/v1/status")
    status, headers, body = await api.raw("GET", "/api/v1/status")
    assert (status, headers["content-type"], headers["etag"]) == (200, "application/json", '"7"')
    assert json.loads(body) == local
    assert [row["id"] for row in local["running"]] == ["j1"]
    assert [(row["id"], row["position"]) for row in local["queued"]] == [("j2", 1), ("j3", 2), ("j4", 3)]
    assert local["queued"][0]["why"] == "1 of 1 job places are taken"
    assert "SECRET" not in json.dumps(local)


READS = {
    "/api/v1/devices": lambda found: found == [],
    "/api/v1/services": lambda found: [row["id"] for row in found] == ["chat"],
    "/api/v1/services/chat": lambda found: found["state"] == "stopped",
    "/api/v1/jobs?state=running": lambda found: [row["id"] for row in found["jobs"]] == ["j1"],
    "/api/v1/jobs?limit=2": lambda found: found["next"] == "j2",
    "/api/v1/jobs?limit=2&after=j2": lambda found: [row["id"] for row in found["jobs"]] == ["j3", "j4"],
    "/api/v1/jobs/train": lambda found: found["id"] == "j1",
    "/api/v1/queue": lambda found: len(found["jobs"]) == 3,
    "/api/v1/holders/chat": lambda found: found["kind"] == "service",
    "/api/v1/why/j2": lambda found: found["sentence"] == "queued: 1 of 1 job places are taken",
    "/api/v1/jobs/j1/log?lines=2": lambda found: found["lines"] == ["two", "three"] and found["run"] == "j1.1",
    "/api/v1/jobs/j2/log": lambda found: found["lines"] == [] and found["run"] is None,
    "/api/v1/history?after=2998": lambda found: [row["id"] for row in found] == [2999, 3000],
    "/api/v1/history?last=2": lambda found: [row["id"] for row in found] == [2999, 3000],
    "/api/v1/history?last=3&target=chat": lambda found: [row["id"] for row in found] == [2800, 2900, 3000],
    "/api/v1/history?last=40&target=chat": lambda found: len(found) == 30,
    "/api/v1/history?limit=1": lambda found: found[0]["sentence"] == "j1: done, ran for 60 s",
    "/api/v1/requests?service=chat": lambda found: found == [{"id": 1, "service": "chat"}],
    "/healthz": lambda found: found["status"] == "ok",
    "/readyz": lambda found: found["troubles"] == [],
    "/openapi.json": lambda found: "/api/v1/jobs/{target}/{verb}" in found["paths"],
}  # fmt: skip


@pytest.mark.parametrize(("path", "holds"), READS.items(), ids=READS.keys())
async def test_reading(api: Served, path: str, holds: Callable[[Any], bool]) -> None:
    found = await api.get(path)
    assert holds(found), found


async def test_the_page_is_plain_text(api: Served) -> None:
    status, headers, body = await api.raw("GET", "/")
    assert (status, headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert b"job eval: 1 of 1 job places are taken" in body


async def test_health_is_not_green_while_the_loop_is_stuck(api: Served) -> None:
    api.clock.at_s += 6.0
    for path in ("/healthz", "/readyz"):
        status, _, _ = await api.raw("GET", path)
        assert status == 503, path


async def test_not_ready_says_what_is_wrong(api: Served) -> None:
    api.hub.publish(snapshot(8, store_ok=False), {}, frozenset())
    status, _, body = await api.raw("GET", "/readyz")
    assert (status, json.loads(body)["troubles"]) == (
        503,
        ["the database does not answer, so nothing new is started"],
    )


MISSING = {
    "no such job": ("/api/v1/jobs/nobody", 404, "not_found"),
    "a service is no job": ("/api/v1/jobs/chat", 404, "not_found"),
    "a name two living ones have": ("/api/v1/jobs/twin", 409, "ambiguous"),
    "no such device": ("/api/v1/devices/gpu7", 404, "not_found"),
    "no such path": ("/api/v1/nothing", 404, "no_such_path"),
    "a parameter out of range": ("/api/v1/jobs?limit=0", 422, "invalid"),
}


@pytest.mark.parametrize(("path", "status", "code"), MISSING.values(), ids=MISSING.keys())
async def test_problems(api: Served, path: str, status: int, code: str) -> None:
    found, headers, body = await api.raw("GET", path)
    document = json.loads(body)
    assert (found, headers["content-type"]) == (status, "application/problem+json")
    assert (document["code"], document["status"], document["type"]) == (code, status, f"urn:headway:{code}")
    assert document["detail"]


# ---------------------------------------------------------------- changing

COMMANDS = {
    "a verb": ("/api/v1/jobs/j1/stop", {"reason": "lunch"}, SetWish(target="j1", verb="stop", by="ada", reason="lunch")),
    "a verb by name": ("/api/v1/jobs/train/wind_down", {}, SetWish(target="j1", verb="wind_down", by="ada")),
    "any holder": ("/api/v1/holders/chat/stop", {}, SetWish(target="chat", verb="stop", by="ada")),
    "a service": ("/api/v1/services/chat/hold", {}, SetWish(target="chat", verb="hold", by="ada")),
    "mode": ("/api/v1/mode", {"mode": "shadow"}, SetMode(mode="shadow", by="ada")),
    "move": (
        "/api/v1/queue/move", {"target": "eval", "where": "before", "other": "j4"},
        MoveJob(target="j2", where="before", other="j4", by="ada"),
    ),
    "a recipe": (
        "/api/v1/jobs", {"recipe": "train", "priority": 80, "after": ["eval"], "hold": True},
        AddJob(spec=replace(TRAIN, priority=80, after=("j2",)), recipe="train", hold=True, by="ada"),
    ),
    "a command": (
        "/api/v1/jobs", {"argv": ["echo", "hi"], "name": "hello", "gpu": "1GiB", "placement": "share"},
        AddJob(spec=replace(made({"name": "hello", "argv": ["echo", "hi"]}), placement="share"), by="ada"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("path", "body", "command"), COMMANDS.values(), ids=COMMANDS.keys())
async def test_commands_reach_the_loop(
    api: Served, path: str, body: dict[str, Any], command: Command
) -> None:
    reply = await api.post(path, body)
    assert api.inbox.given == [command]
    assert (reply["accepted"], reply["rev"]) == (True, 8)


async def test_an_accepted_job_says_where_it_is(api: Served) -> None:
    payload = json.dumps({"recipe": "train"}).encode()
    reader, writer = await asyncio.open_unix_connection(str(api.socket_path))
    writer.write(
        b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(payload), payload)
    )
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 202 ")
    assert b"location: /api/v1/jobs/j9\r\n" in answer.lower()


REFUSED = {
    # name: (path, body, what the loop answers, status, code)
    "refused by the loop": ("/api/v1/jobs/j1/retry", {}, Reply(accepted=False, code="not_ended", facts={}), 409, "not_ended"),
    "unknown to the loop": ("/api/v1/jobs/j1/stop", {}, Reply(accepted=False, code="not_found", facts={}), 404, "not_found"),
    "store silent": ("/api/v1/jobs/j1/stop", {}, Reply(accepted=False, code="store_silent", facts={}), 503, "store_silent"),
    "store failed": ("/api/v1/jobs/j1/stop", {}, StoreFailed("the disk is full. Free some."), 503, "store_failed"),
    "a bug": ("/api/v1/jobs/j1/stop", {}, RuntimeError("boom"), 500, "internal"),
    "no such recipe": ("/api/v1/jobs", {"recipe": "nope"}, None, 404, "not_found"),
    "recipe and command": ("/api/v1/jobs", {"recipe": "train", "argv": ["x"]}, None, 422, "invalid"),
    "a recipe has its own size": ("/api/v1/jobs", {"recipe": "train", "gpu": "1GiB"}, None, 422, "invalid"),
    "no size": ("/api/v1/jobs", {"argv": ["x"], "name": "x", "gpu": "lots"}, None, 422, "invalid"),
    "unknown field": ("/api/v1/jobs", {"argv": ["x"], "nmae": "x"}, None, 422, "invalid"),
    "unknown verb": ("/api/v1/jobs/j1/explode", {}, None, 422, "invalid"),
    "waits for nobody": ("/api/v1/jobs", {"recipe": "train", "after": ["nobody"]}, None, 404, "not_found"),
    "before nobody": ("/api/v1/queue/move", {"target": "j2", "where": "before"}, None, 422, "invalid"),
    "no such mode": ("/api/v1/mode", {"mode": "loud"}, None, 422, "invalid"),
}  # fmt: skip


@pytest.mark.parametrize(("path", "body", "reply", "status", "code"), REFUSED.values(), ids=REFUSED.keys())
async def test_refusals(
    api: Served, path: str, body: dict[str, Any], reply: Reply | Exception | None, status: int, code: str
) -> None:
    if reply is not None:
        api.inbox.reply = reply
    error = await api.refused(path, body)
    assert (error.http_status, error.code) == (status, code)
    assert str(error).endswith(".")
    assert reply is not None or not api.inbox.given, "nothing reaches the loop"


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
    "no name": ("GET", "/api/v1/status", {"Host": ""}, 403, "foreign_host"),
    "logs": ("GET", "/api/v1/jobs/j1/log", {}, 403, "forbidden"),
    "changes": ("POST", "/api/v1/jobs/j1/stop", {}, 403, "read_only"),
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
    "cross site": ("POST", "/api/v1/jobs/j1/stop", {"Sec_Fetch_Site": "cross-site"}, 403, "foreign_origin"),
    "null origin": ("POST", "/api/v1/jobs/j1/stop", {"Origin": "null"}, 403, "foreign_origin"),
    "other verbs": ("DELETE", "/api/v1/jobs/j1", {}, 403, "read_only"),
}


@pytest.mark.parametrize(("verb", "path", "headers", "status", "code"), DOOR.values(), ids=DOOR.keys())
async def test_the_door(
    api: Served, verb: str, path: str, headers: dict[str, str], status: int, code: str | None
) -> None:
    found, _, body = await api.raw(verb, path, **headers)
    assert (found, json.loads(body).get("code")) == (status, code)
    assert not api.inbox.given
    if code in ("read_only", "forbidden"):
        assert "use the CLI or the socket" in json.loads(body)["detail"]


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
    assert (seen[0][0], seen[0][2]) == ("snapshot", "7")
    assert [row["id"] for row in seen[0][1]["queued"]] == ["j2", "j3", "j4"]
    changed = snapshot(8)
    ended = replace(changed.holders["j1"], ended="done")
    api.hub.publish(replace(changed, holders={**changed.holders, "j1": ended}), {}, frozenset({"j1", "gone"}))
    await wait_until(lambda: len(seen) >= 4, 10, "the changes")
    names = [(name, revision) for name, _, revision in seen[1:]]
    assert names == [("holder.gone", None), ("job.updated", None), ("board.updated", "8")]
    assert seen[1][1] == {"id": "gone"}
    assert (seen[2][1]["id"], seen[2][1]["state"]) == ("j1", "done")
    await api.server.stop()
    await asyncio.wait_for(task, 10)


LAST = {
    "knows the last revision": ("8", ["job.updated", "board.updated"]),
    "knows one from too long ago": ("2", ["snapshot"]),
    "knows one from before a restart": ("99", ["snapshot"]),
    "knows no number": ("x", ["snapshot"]),
}


@pytest.mark.parametrize(("last_id", "names"), LAST.values(), ids=LAST.keys())
async def test_a_viewer_that_comes_back_gets_what_it_missed(
    api: Served, last_id: str, names: list[str]
) -> None:
    for rev in (8, 9):
        api.hub.publish(snapshot(rev), {}, frozenset({f"j{rev - 7}"}))
    seen, task = following(api, after=last_id)
    await wait_until(lambda: len(seen) >= len(names), 10, "the first batch")
    assert [name for name, _, _ in seen] == names
    assert seen[-1][2] == "9"
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
