"""A daemon process of the false machine: the real daemon on false ports, its side of the link, and its API."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import aiohttp

from headway.api.access import Access
from headway.api.app import create_app
from headway.api.auth import PEER, Asgi, Peer
from headway.api.parts import Parts
from headway.config.adhoc import adhoc
from headway.core.configs import Applied
from headway.core.model import Decision, Event, Job, Snapshot
from headway.core.past import DayRow, Slice
from headway.core.samples import Rollup, Span
from headway.core.wire import WireError
from headway.daemon.daemon import Daemon, Outside, Settings
from headway.daemon.links import Peer as LinkPeer
from headway.drivers.command import CommandDriver
from headway.drivers.lease import LeaseDriver
from headway.drivers.process import ProcessDriver
from headway.drivers.restart import RestartDriver
from headway.ports import Driver, Kept
from headway.sim.disk import SimJournal, SimRequests, SimRoutes, SimStore
from headway.sim.http import SimHttp, SleeperDriver
from headway.sim.loop import Life
from headway.sim.meter import SimMeter
from headway.sim.wires import End, Wire

if TYPE_CHECKING:
    from headway.sim.world import World

CLASSES = (SleeperDriver, ProcessDriver, RestartDriver, CommandDriver, LeaseDriver)
TABLES = {one.name: one.moves for one in CLASSES}
Answered = Callable[[int, dict[str, Any]], None]  # status 0: the connection broke


class SimClock:
    """Implements ports.Clock: boottime never jumps, the wall clock may."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_s(self) -> float:
        return self._world.loop.now_s

    def wall_s(self) -> float:
        return self._world.loop.now_s + self._world.wall_offset_s


class _Watched(Daemon):
    """The real one, looked at after every decision."""

    def __init__(
        self, out: Outside, settings: Settings, turned: Callable[[Snapshot, Decision], None]
    ) -> None:
        self._turned = turned
        super().__init__(out, settings)

    def _gates(self, s: Snapshot, decision: Decision) -> None:
        super()._gates(s, decision)
        self._turned(s, decision)


class _NoReader:
    """Implements ports.Reader: history is read from the database itself at the end."""

    async def events(self, asked: Slice) -> list[dict[str, Any]]:
        return []

    async def swaps(self, asked: Slice) -> list[dict[str, Any]]:
        return []

    async def requests(self, asked: Slice) -> list[dict[str, Any]]:
        return []

    async def days(self, last: int) -> list[DayRow]:
        return []

    async def memory(self, device: str, asked: Span) -> list[Rollup]:
        return []


class _NowConfig:
    """The config of the daemon of the present world."""

    async def apply(
        self, drain: bool, by: str, dry_run: bool = False, seen: Callable[[str], bool] | None = None
    ) -> Applied:
        assert NOW.daemon is not None
        return await NOW.daemon.applying.apply(drain, by, dry_run, seen)


class _Unkept:
    """Implements ports.Keeper: nobody there has a token."""

    def kept(self) -> tuple[Kept, ...]:
        return ()

    async def keep(self, put: Sequence[Kept] = (), gone: Sequence[tuple[str, str]] = ()) -> None:
        return None


class _Now:
    """Hands the one application of this process whatever the daemon of the present world is."""

    daemon: Daemon | None = None

    def submit(self, command: Any) -> Any:
        assert self.daemon is not None
        return self.daemon.loop.submit(command)

    def __getattr__(self, name: str) -> Any:
        return getattr(cast(Daemon, self.daemon).hub, name)


class _Clock:
    """That of the present world: the application outlives it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(cast(Daemon, NOW.daemon).out.clock, name)


class _Processes:
    """Those of the present world."""

    def __getattr__(self, name: str) -> Any:
        return getattr(cast(Daemon, NOW.daemon).out.processes, name)


NOW = _Now()
_APPS: list[Asgi] = []


def _app() -> Asgi:
    """Made once: a real application takes longer to build than an hour of a small world."""
    if not _APPS:
        clock = cast(Any, _Clock())
        parts = Parts(
            inbox=NOW,
            hub=cast(Any, NOW),
            reader=_NoReader(),
            clock=clock,
            access=Access(_Unkept(), clock),
            recipes={},
            make_job=lambda fields: adhoc(fields, TABLES),
            tail=lambda run_id, lines: [],
            processes=cast(Any, _Processes()),
            lease_moves=TABLES["lease"],
            config=_NowConfig(),
        )
        _APPS.append(create_app(parts))
    return _APPS[0]


class SimDaemon:
    """One life of the daemon."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.life = Life("daemon", self._ended)
        self.daemon: _Watched | None = None
        self.wires: list[Wire] = []
        self.began_s = world.loop.now_s
        world.loop.later(0.3, self._begin, life=self.life)

    def _begin(self) -> None:
        world, out = self.world, self._outside()
        try:
            self.daemon = _Watched(out, world.door.settings(), world.turned)
        except Exception as error:
            world.wrong(f"the daemon cannot start: {error!r}")
            self.kill()
            return
        world.loop.create_task(self._start(self.daemon), name="start")

    async def _start(self, daemon: Daemon) -> None:
        await daemon.start()
        NOW.daemon = daemon
        self.world.listening = self

    def _outside(self) -> Outside:
        world, clock = self.world, SimClock(self.world)
        http = cast(aiohttp.ClientSession, SimHttp(world))
        drivers: dict[str, Driver] = {one.name: one(world.runs, http, clock) for one in CLASSES}
        return Outside(
            clock=clock,
            store=SimStore(world, self.life),
            journal=SimJournal(world.disk),
            runs=world.runs,
            processes=world.visitors,
            drivers=drivers,
            meter=SimMeter(world, self.life),
            roster=world.supervisor,
            routes=SimRoutes(world.disk),
            requests=SimRequests(world.disk),
            ask=self._ask,
            told=self._told,
            log=lambda words, facts: world.trace(f"{words} {dict(facts)}"),
            trouble=lambda where, error: world.wrong(f"unexpected in {where}: {error!r}"),
            lost=self.kill,
            config=world.door.config,
            room=lambda: world.machine.room,
            disk=world.machine.work_disk,
            windows=lambda wall_s: world.calendar.due(wall_s),
        )

    def _ask(self, job: Job) -> object:
        return self.world.job_says(job)

    def _told(self, event: Event) -> None:
        self.world.told(event)

    def kill(self) -> None:
        self.world.loop.kill(self.life)

    def _ended(self) -> None:
        if self.world.listening is self:
            self.world.listening = None
        for wire in self.wires:
            wire.cut()
        self.world.supervisor.daemon_ended()

    # ---------------------------------------------------------------- the link

    def accept(self, gate_end: End) -> Wire:
        """A gate connects."""
        assert self.daemon is not None
        links, world = self.daemon.links, self.world
        wire = Wire(world)
        peer = LinkPeer(send=lambda line: wire.send(line, 0))

        def data(piece: bytes) -> None:
            try:
                links.feed(peer, piece, world.loop.now_s)
            except WireError:
                wire.cut()

        wire.ends = (gate_end, End(self.life, data, lambda: links.lost(peer, world.loop.now_s)))
        self.wires = [one for one in self.wires if one.open] + [wire]
        return wire

    # ---------------------------------------------------------------- the API

    def ask(self, verb: str, path: str, body: dict[str, Any] | None, answered: Answered) -> None:
        """One call of the API over its Unix socket."""
        call = _Call(verb, path, body, answered)
        self.life.context.run(self.world.loop.create_task, call.made(_app()))


class _Call:
    def __init__(self, verb: str, path: str, body: dict[str, Any] | None, answered: Answered) -> None:
        self._body = b"" if body is None else json.dumps(body).encode()
        self._answered, self._status, self._got = answered, 0, b""
        headers = [(b"host", b"localhost"), (b"content-length", str(len(self._body)).encode())]
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": verb,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "scheme": "http",
            "root_path": "",
            "headers": [*headers, (b"content-type", b"application/json")] if body is not None else headers,
            "client": None,
            "server": ("localhost", 0),
            "state": {PEER: Peer(uid=1000, admin=True, name="sim")},
        }

    async def made(self, app: Asgi) -> None:
        await app(self._scope, self._receive, self._send)
        self._answered(self._status, json.loads(self._got or b"{}"))

    async def _receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        else:
            self._got += message.get("body", b"")
