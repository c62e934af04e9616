"""An API over real sockets with a false daemon behind it: a fixed state, and an inbox that keeps what it is given."""

import asyncio
import json
import os
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from headway.api.access import Access
from headway.api.others import Others
from headway.api.parts import Parts
from headway.api.server import ApiServer
from headway.api.web import Page
from headway.client import Address, Answered, Client
from headway.core.commands import Command, Reply
from headway.core.model import Form, Job, JobSpec, Run, Service, ServiceSpec, Snapshot, Verdict
from headway.core.names import NAME_WORDS, is_name
from headway.core.past import NEWEST, DayRow, Slice
from headway.core.rows import HostRow
from headway.core.samples import Rollup, Series, Span
from headway.core.units import parse_size
from headway.daemon.hub import StateHub
from headway.drivers.lease import MOVES
from headway.ports import AlertSent, FoundServer, Keeper, Pulse, Root
from headway.store.store import SqliteStore

FORMS = (Form(name="running"), Form(name="parked"), Form(name="stopped"))
TRAIN = JobSpec(
    name="train", driver="restart", forms=FORMS, moves=(), argv=("train", "--all"), env={"SECRET": "x"}
)
CHAT = ServiceSpec(
    name="chat", driver="process", forms=(Form(name="awake"), Form(name="stopped")), moves=(),
    upstream="http://127.0.0.1:8123",
)  # fmt: skip


class Clock:
    def __init__(self) -> None:
        self.at_s = 1000.0
        self.wall = 0.0

    def now_s(self) -> float:
        return self.at_s

    def wall_s(self) -> float:
        return self.wall


class Inbox:
    """Accepts everything, or answers `reply`, or whatever `pending` becomes."""

    def __init__(self) -> None:
        self.given: list[Command] = []
        self.pending: asyncio.Future[Reply] | None = None
        self.reply: Reply | Exception = Reply(accepted=True, code="accepted", facts={}, holder="j9", rev=8)

    def submit(self, command: Command) -> Awaitable[Reply]:
        self.given.append(command)
        if self.pending is not None:
            return self.pending
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if isinstance(self.reply, Exception):
            future.set_exception(self.reply)
        else:
            future.set_result(self.reply)
        return future


class Processes:
    """A machine on which three processes live: 5, its child 6, and 7."""

    LINES: ClassVar = {
        5: "python train.py",
        6: "python train.py --worker",
        7: "headway claim --match train.py",
    }

    def __init__(self) -> None:
        self.marked: set[str] = set()  # marks that something living carries

    def alive(self, root: Root) -> bool:
        return root.pid in self.LINES or root.mark in self.marked

    def among(self, pid: int, roots: Collection[Root]) -> Root | None:
        return next((root for root in roots if root.pid == pid), None)

    def matching(self, pattern: str) -> frozenset[int]:
        return frozenset(pid for pid, line in self.LINES.items() if re.search(pattern, line))

    def matches(self, pid: int, pattern: str) -> bool:
        return pid in self.matching(pattern)

    def above(self, pid: int) -> frozenset[int]:
        return frozenset({pid})

    def start_ticks(self, pid: int) -> int | None:
        return 100 + pid if pid in self.LINES else None

    def listeners(self, port: int) -> tuple[int, ...]:
        return ()

    def called(self, pid: int) -> str:
        return self.LINES.get(pid, " ").split(" ")[0]


class Reader:
    """A history of 3,000 lines; every hundredth is about chat."""

    def __init__(self) -> None:
        self.lines = 3000

    async def events(self, asked: Slice) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = [
            {
                "id": n,
                "at_s": 5.0,
                "wall_s": 1e9 + n,
                "code": "job.done",
                "holder": "chat" if n % 100 == 0 else "j1",
                "facts": {"ran_s": 60.0},
            }
            for n in range(1, self.lines + 1)
        ]
        before = NEWEST if asked.before is None else asked.before
        found = [
            row for row in rows if asked.after < row["id"] < before and asked.about in (None, row["holder"])
        ]
        found = [row for row in found if not asked.codes or row["code"] in asked.codes]
        return found[: asked.limit] if asked.before is None else found[-asked.limit :]

    async def swaps(self, asked: Slice) -> list[dict[str, Any]]:
        """One of chat that went well, and one that failed."""
        went = {"form": "asleep", "source": "awake", "took_s": 1.5, "cause": "j2"}
        stayed = {"form": "awake", "source": "asleep", "reason": "limit_passed", "limit_s": 60.0}
        rows = [
            {
                "id": 7,
                "at_s": 5.0,
                "wall_s": 1e9,
                "code": "release.verified",
                "holder": "chat",
                "facts": went,
            },
            {"id": 9, "at_s": 6.0, "wall_s": 1e9, "code": "move.failed", "holder": "chat", "facts": stayed},
        ]
        return [row for row in rows if row["code"] == "move.failed" or not asked.failed]

    async def requests(self, asked: Slice) -> list[dict[str, Any]]:
        return [{"id": 1, "service": asked.about, "failed": asked.failed}]

    async def days(self, last: int) -> list[DayRow]:
        return [DayRow(day=f"2026-05-{n:02}", job_gpu_s=60.0 * n) for n in range(1, 32)][-last:]

    async def memory(self, device: str, asked: Span) -> list[Rollup]:
        """All of it was held by chat, in the second bucket."""
        one = Rollup(
            series=Series(device, "device"),
            name="gpu0",
            step_s=asked.width_s,
            at_s=asked.from_s + asked.width_s,
            looks=4,
            bytes=40,
            peak_bytes=20,
            busy=0,
        )
        return [one, replace(one, series=Series(device, "service", "chat"), name="chat", busy=1)]


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
    plain = Snapshot(now_s=1000.0, rev=rev, holders=holders, queue=queue, present=("j1",), services=("chat",))
    return replace(plain, **fields)


@dataclass
class Served:
    """One running API and what is behind it."""

    socket_path: Path
    port: int
    hub: StateHub
    server: ApiServer
    inbox: Inbox = field(default_factory=Inbox)
    clock: Clock = field(default_factory=Clock)
    reader: Reader = field(default_factory=Reader)
    processes: Processes = field(default_factory=Processes)
    access: Access = field(kw_only=True)
    pulse: Pulse = field(default_factory=Pulse)
    alerts: list[AlertSent] = field(default_factory=list)
    looked: list[Collection[int]] = field(
        default_factory=list
    )  # ports that were left out of a look for servers

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

    async def raw(
        self, verb: str, path: str, payload: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """One request over TCP with exactly these headers (`_` is `-`), and `payload` as JSON."""
        body = b"" if payload is None else json.dumps(payload).encode()
        given = {
            "Host": f"127.0.0.1:{self.port}",
            **{name.replace("_", "-"): v for name, v in headers.items()},
        }
        if body:
            given |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        lines = [
            f"{verb} {path} HTTP/1.1",
            *(f"{name}: {v}" for name, v in given.items()),
            "Connection: close",
        ]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write("\r\n".join((*lines, "", "")).encode() + body)
        head, _, answer = (await asyncio.wait_for(reader.read(), 10)).partition(b"\r\n\r\n")
        writer.close()
        first, *rest = head.decode().split("\r\n")
        return (
            int(first.split()[1]),
            {k.lower(): v for k, _, v in (row.partition(": ") for row in rest)},
            answer,
        )


def made(fields: Mapping[str, Any]) -> JobSpec:
    if not is_name(fields["name"]):
        raise ValueError(NAME_WORDS)
    if "gpu" in fields:
        parse_size(fields["gpu"])
    return JobSpec(name=fields["name"], driver="restart", forms=FORMS, moves=(), argv=tuple(fields["argv"]))


@asynccontextmanager
async def serving(
    directory: Path,
    peer_uid: Callable[[Any], int | None] = lambda sock: os.getuid(),
    keeper: Keeper | None = None,
    read: Literal["open", "token"] = "open",
    inbox: Inbox | None = None,
    make_job: Callable[[Mapping[str, Any]], JobSpec] = made,
    page: Page | None = None,
) -> AsyncIterator[Served]:
    tcp = socket.create_server(("127.0.0.1", 0))
    local = socket.socket(socket.AF_UNIX)
    path = directory / "headway.sock"
    path.unlink(missing_ok=True)
    local.bind(str(path))
    local.listen()
    hub, clock, reader = StateHub(snapshot()), Clock(), Reader()
    inbox = Inbox() if inbox is None else inbox
    processes = Processes()
    hub.publish(snapshot(), {"j2": Verdict(code="slots", facts={"active": 1, "limit": 1})}, frozenset())
    log = directory / "log"
    log.write_text("one\ntwo\nthree\n")
    access = Access(SqliteStore(":memory:") if keeper is None else keeper, clock, read)
    served: list[Served] = []

    async def test_alert() -> list[AlertSent]:
        return served[0].alerts

    def found(without: Collection[int]) -> list[FoundServer]:
        served[0].looked.append(without)
        return [FoundServer(kind="ollama", url="http://127.0.0.1:11434", models=("llama3",))]

    parts = Parts(
        inbox=inbox,
        hub=hub,
        reader=reader,
        clock=clock,
        access=access,
        pulse=lambda: served[0].pulse,
        test_alert=test_alert,
        url=f"http://127.0.0.1:{tcp.getsockname()[1]}",
        recipes={"train": TRAIN},
        make_job=make_job,
        page=page,
        tail=lambda run, lines: log.read_text().splitlines()[-lines:] if log.exists() else [],
        processes=processes,
        lease_moves=MOVES,
        log_path=lambda run: str(log),
        host=lambda: HostRow(cpus=4, cpu_percent=12.5, memory_bytes=8 << 30, free_bytes=3 << 30),
        others=Others(found, clock),
        version="1.2.3",
    )
    server = ApiServer(parts, peer_uid, lambda uid: "ada")
    await server.start(tcp, local)
    here = Served(path, tcp.getsockname()[1], hub, server, inbox, clock, reader, processes, access=access)
    served.append(here)
    try:
        yield served[0]
    finally:
        await server.stop()
