"""The composition root of the daemon: the only file that names concrete adapters and wires them."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import structlog

from headway import __version__
from headway.alerts.command import CommandAlert
from headway.api.parts import Parts
from headway.api.server import ApiServer
from headway.config.adhoc import adhoc
from headway.config.build import Built, DeviceSettings, build
from headway.config.load import load
from headway.config.paths import Paths
from headway.core import phrases, wire
from headway.core.commands import Configure
from headway.core.facts import Fact, GateState, GateStuck
from headway.core.model import CloseGate, Decision, Event, OpenGate, Service, Snapshot
from headway.daemon.act import Act
from headway.daemon.adopt import Adopted, adopt, outdated
from headway.daemon.hub import StateHub
from headway.daemon.link_server import LinkServer
from headway.daemon.links import Links, Troubled
from headway.daemon.loop import Loop
from headway.daemon.observe import Watcher
from headway.daemon.record import Recorder
from headway.daemon.table import rows
from headway.daemon.tail import Tail
from headway.daemon.tasks import Tasks
from headway.drivers.jobs_told import JobTeller
from headway.drivers.registry import DRIVERS
from headway.errors import AlreadyRunning
from headway.host.gate_locks import GateLocks
from headway.host.linux import LinuxClock, LinuxHost, user_name
from headway.host.linux_runs import LinuxRuns
from headway.host.log_file import log_to
from headway.meters.child import ChildMeter
from headway.meters.combined import CombinedMeter
from headway.meters.declared import DeclaredDevice, DeclaredMeter
from headway.meters.selected import Chosen, SelectedMeter
from headway.ports import Driver, Meter, Reading
from headway.store.journal import FileJournal
from headway.store.reader import SqliteReader
from headway.store.store import SqliteStore

log = structlog.get_logger("headway")
PING_TURNS = 2  # a ping every second tick of a second
READS_BUSY = ("llamacpp",)
TIDY_TURNS = 3600  # of a second: how often ended runs are looked through
NODE = "local"  # first part of every device id; the machine may be renamed, its devices stay


def settings(config_path: Path) -> Built:
    """Read and check the config. Raises ConfigInvalid with every problem at once."""
    moves = {name: driver.moves for name, driver in DRIVERS.items()}
    return build(load(config_path), moves, READS_BUSY)


def run_daemon(paths: Paths, built: Built) -> None:
    """Run the daemon in this process until SIGTERM or SIGINT. The caller holds the lock.

    Raises:
        AlreadyRunning: another program listens on the API's port.
        StoreTooNew: the database is from a newer Headway.
    """
    log_to(paths.logs_dir / "daemon.log")
    asyncio.run(Daemon(paths, built, _Sockets.bind(paths, built)).run())


class _Sockets:
    """Everything the daemon listens on, bound before the database is touched."""

    def __init__(self, api: socket.socket, unix: socket.socket, link: socket.socket) -> None:
        self.api, self.unix, self.link = api, unix, link

    @classmethod
    def bind(cls, paths: Paths, built: Built) -> _Sockets:
        api = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        api.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            api.bind((built.api.host, built.api.port))
        except OSError as error:
            raise AlreadyRunning(
                f"{built.api.host}:{built.api.port} is taken ({error.strerror}). Set [api] port to another one, "
                f"or end what listens there.",
                port=built.api.port,
            ) from None
        return cls(api, _unix(paths.api_socket), _unix(paths.run_dir / "link.sock"))


def _unix(path: Path) -> socket.socket:
    """A fresh Unix socket, mode 0600. The lock is held, so an old file there is a dead one's."""
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(str(path))
    path.chmod(0o600)
    sock.listen(128)
    return sock


class Daemon:
    """All parts of one daemon, wired."""

    def __init__(self, paths: Paths, built: Built, sockets: _Sockets) -> None:
        self.paths, self.built, self.sockets = paths, built, sockets
        self.clock, self.host = LinuxClock(), LinuxHost()
        self.runs = LinuxRuns(paths.runs_dir)
        self.store = SqliteStore(paths.database)
        self.journal = FileJournal(paths.run_dir / "journal.ndjson")
        self.reader = SqliteReader(paths.database)
        self.meter = _meter(built.devices, paths)
        self.locks = GateLocks(paths.gates_dir)
        self.alert = CommandAlert(built.alert_command)
        self.tasks = Tasks(_unexpected, vital=("loop", "observe", "tick"), lost=_leave)

    async def run(self) -> None:
        """Adopt what is there, then turn until told to stop."""
        saved = self.store.load()
        self.salt = saved.meta.get("salt") or secrets.token_hex(16)
        adopted = self._adopt(saved)
        async with aiohttp.ClientSession() as http:
            self._wire(adopted, http)
            self.recorder.meta(salt=self.salt, config_mode=self.built.mode, mode=adopted.snapshot.mode)
            self.tail = Tail(self.paths.requests_dir, dict(saved.offsets))
            await self._start(adopted)
            stopped = asyncio.Event()
            for sig in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(sig, stopped.set)
            try:
                await stopped.wait()
            finally:
                await self._stop()

    def _adopt(self, saved: Any) -> Adopted:
        configure = Configure(services=self.built.services, recipes=self.built.recipes)
        return adopt(
            saved,
            self.journal.read(),
            self.runs,
            configure,
            self.built.policy,
            self.built.mode,
            _open_services(self.paths.run_dir / "routes.json"),
            self.clock.now_s(),
            self.clock.wall_s(),
        )

    def _wire(self, adopted: Adopted, http: aiohttp.ClientSession) -> None:
        self.hub = StateHub(adopted.snapshot)
        drivers: Mapping[str, Driver] = {n: cls(self.runs, http, self.clock) for n, cls in DRIVERS.items()}
        self.recorder = Recorder(self.store, self.journal, self.clock, self._event)
        self.recorder.collect(adopted.draft, adopted.snapshot)
        self.links = Links(secrets.token_hex(4), self.locks.living, self._write_routes, self._from_gate)
        self.watcher = Watcher(
            runs=self.runs,
            drivers=drivers,
            clock=self.clock,
            tell=self._tell,
            snapshot=lambda: self.hub.snapshot,
            spawn=self.tasks.spawn,
            read_now=self.meter.read_now,
            told=JobTeller(self.runs).ask,
        )
        act = Act(
            drivers=drivers,
            runs=self.runs,
            meter=self.meter,
            clock=self.clock,
            tell=self._tell,
            snapshot=lambda: self.hub.snapshot,
            watch=self.watcher.watch,
            trouble=_unexpected,
        )
        self.act = act
        self.loop = Loop(adopted.snapshot, self.clock, self.hub, act, self.recorder, self._gates)

    async def _start(self, adopted: Adopted) -> None:
        self._publish(adopted.snapshot)
        self.link_server = LinkServer(self.links, self.clock, self.host.peer_uid, os.getuid())
        await self.link_server.start(self.sockets.link)
        await self.meter.start(self._reading)
        for run_id in adopted.orphans:
            self.tasks.spawn(f"orphan {run_id}", self.runs.stop(run_id, 0.0))
        for holder, run_id in adopted.watch:
            self.watcher.watch(holder, run_id)
        for move, pending in adopted.redo:
            self.act.move(move, pending, again=True)
        self.tasks.spawn("loop", self.loop.run())
        self.tasks.spawn("observe", self._observe())
        self.tasks.spawn("tick", self._tick())
        self.tasks.spawn("tidy", self._tidy())
        self.api = ApiServer(self._parts(), self.host.peer_uid, user_name)
        await self.api.start(self.sockets.api, self.sockets.unix)
        port = self.sockets.api.getsockname()[1]
        (self.paths.run_dir / "api-port").write_text(f"{port}\n")
        mode = adopted.snapshot.mode
        log.info("ready", home=str(self.paths.state_dir), api=f"http://127.0.0.1:{port}", mode=mode)

    def _parts(self) -> Parts:
        return Parts(
            inbox=self.loop,
            hub=self.hub,
            reader=self.reader,
            clock=self.clock,
            recipes={spec.name: spec for spec, _ in self.built.recipes},
            make_job=lambda fields: adhoc(fields, {name: cls.moves for name, cls in DRIVERS.items()}),
            tail=self.runs.log_tail,
            log_path=lambda run_id: str(self.runs.directory(run_id) / "log"),
            gate_url=lambda: gate_url(self.paths.run_dir, self.built.gate.host),
            log_file=str(self.paths.logs_dir / "daemon.log"),
            version=__version__,
        )

    async def _stop(self) -> None:
        """Leave: what runs goes on, and the next daemon finds it."""
        await self.api.stop()
        await self.tasks.stop()
        await self.act.stop()
        await self.link_server.stop()
        await self.meter.stop()
        await self.recorder.flush(self.hub.snapshot)
        await self.store.close()

    # ---------------------------------------------------------------- small wires

    def _tell(self, fact: Fact) -> None:
        self.loop.tell(fact)

    def _reading(self, reading: Reading) -> None:
        self.loop.tell(*self.watcher.reading(reading))

    def _from_gate(self, told: GateState | Troubled) -> None:
        if isinstance(told, Troubled):
            self.watcher.probe(told.service)
        else:
            self.loop.tell(told)

    def _gates(self, s: Snapshot, decision: Decision) -> None:
        self._publish(s)
        if any(isinstance(a, OpenGate | CloseGate) for a in decision.actions):
            self.links.merge_all(self.clock.now_s())

    def _publish(self, s: Snapshot) -> None:
        self.links.publish(rows(s, self.hub.verdicts), s.mode, self.salt, self.clock.now_s())

    def _write_routes(self, document: bytes) -> None:
        path = self.paths.run_dir / "routes.json"
        temporary = path.with_name(".routes.json.new")
        temporary.write_bytes(document)
        temporary.rename(path)

    def _event(self, event: Event) -> None:
        log.info(event.code, holder=event.holder, **{k: v for k, v in event.facts.items() if k != "holder"})
        if event.code in CommandAlert.CODES:
            sentence = phrases.told(event.code, event.holder, event.facts)
            self.tasks.spawn("alert", self.alert.send(event, sentence))

    async def _observe(self) -> None:
        while True:
            await asyncio.sleep(self.watcher.tick())

    async def _tick(self) -> None:
        """Once a second: pings, the fence, and the request log."""
        turn = 0
        while True:
            turn += 1
            s = self.hub.snapshot
            awaited = {sid for sid in s.services if (x := s.service(sid)) and _closing(x)}
            for gate in self.links.tick(self.clock.now_s(), turn % PING_TURNS == 0, awaited):
                peer = self.links.peers.get(gate)
                done = self.locks.kill(gate, peer.pid if peer else None)
                log.warning("gate fenced" if done else "gate cannot be fenced", gate=gate)
                self.loop.tell(*(GateStuck(service=sid, gate=gate) for sid in sorted(awaited) if not done))
            if self.recorder.ok:  # else what was read would only pile up
                self.recorder.tailed(*self.tail.read())
            if turn % TIDY_TURNS == 0:
                self.tasks.spawn("tidy", self._tidy())
            await asyncio.sleep(1.0)

    async def _tidy(self) -> None:
        """Forget ended runs that are old, one by one: each looks through all processes."""
        for run_id in outdated(self.runs, self.hub.snapshot):
            await asyncio.sleep(0.01)
            with suppress(ValueError, OSError):  # it lives after all, or somebody else removed it
                self.runs.forget(run_id)


def gate_url(run_dir: Path, host: str) -> str | None:
    """Where the gate last said that it listens; None before it ever did."""
    try:
        port = json.loads((run_dir / "gate-ports.json").read_bytes())["front"]
    except (OSError, ValueError, KeyError):
        return None
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _meter(devices: Sequence[DeviceSettings], paths: Paths) -> Meter:
    """One meter over every kind of device in the config; without any, all that NVML shows."""
    kinds = {kind: [d for d in devices if d.meter == kind] for kind in ("nvml", "simulated", "declared")}
    meters: list[Meter] = []
    log_file = paths.logs_dir / "meter.log"
    if kinds["nvml"] or not devices:
        nvml = ChildMeter([sys.executable, "-m", "headway.meters.nvml", "--node", NODE], log=log_file)
        chosen = [Chosen(name=d.name, uuid=d.uuid, index=d.index) for d in kinds["nvml"]]
        meters.append(SelectedMeter(nvml, chosen) if chosen else nvml)
    if kinds["simulated"]:
        argv = [sys.executable, "-m", "headway.meters.simulated", "--node", NODE]
        for device in kinds["simulated"]:
            argv += ["--device", f"{device.name}={device.total_bytes}={device.reports}"]
        meters.append(ChildMeter(argv, log=log_file))
    if kinds["declared"]:
        declared = [DeclaredDevice(name=d.name, total_bytes=d.total_bytes or 0) for d in kinds["declared"]]
        meters.append(DeclaredMeter(declared, NODE))
    return meters[0] if len(meters) == 1 else CombinedMeter(meters)


def _closing(service: Service) -> bool:
    """Is it awake behind a closed gate, so that a move of it may wait for a gate's answer?"""
    return service.form == service.top and service.gate.wish == "closed"


def _unexpected(what: str, error: BaseException) -> None:
    log.error("unexpected", what=what, error=repr(error), exc_info=error)


def _leave() -> None:
    """A daemon without its loop is worse than none: the next one adopts what runs."""
    os.kill(os.getpid(), signal.SIGTERM)


def _open_services(path: Path) -> dict[str, str | None]:
    """Services that the last table says are open, with their upstreams."""
    try:
        table = wire.read_table(path.read_bytes())
    except (OSError, wire.WireError):
        return {}
    return {name: row.upstream for name, row in table.services.items() if row.gate == "open"}
