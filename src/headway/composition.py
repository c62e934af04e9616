"""The composition root of the daemon: the only file that names concrete adapters and wires them."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

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
from headway.core import phrases
from headway.core.commands import Configure
from headway.core.model import Event
from headway.daemon.daemon import Daemon, Outside, Settings
from headway.daemon.link_server import LinkServer
from headway.daemon.tasks import Tasks
from headway.drivers.jobs_told import JobTeller
from headway.drivers.registry import ASLEEP_PROBES, DRIVERS
from headway.errors import AlreadyRunning
from headway.host.gate_files import RequestFiles, RoutesFile
from headway.host.gate_locks import GateLocks
from headway.host.linux import LinuxClock, LinuxHost, user_name
from headway.host.linux_runs import LinuxRuns
from headway.host.linux_visitors import LinuxProcesses
from headway.host.log_file import log_to
from headway.host.systemd import Systemd
from headway.meters.child import ChildMeter
from headway.meters.combined import CombinedMeter
from headway.meters.declared import DeclaredDevice, DeclaredMeter
from headway.meters.selected import Chosen, SelectedMeter
from headway.ports import Meter
from headway.store.journal import FileJournal
from headway.store.reader import SqliteReader
from headway.store.store import SqliteStore

log = structlog.get_logger("headway")
READS_BUSY = ("llamacpp", "vllm")
NODE = "local"  # first part of every device id; the machine may be renamed, its devices stay


def settings(config_path: Path) -> Built:
    """Read and check the config. Raises ConfigInvalid with every problem at once."""
    moves = {name: driver.moves for name, driver in DRIVERS.items()}
    return build(load(config_path), moves, READS_BUSY, ASLEEP_PROBES)


def run_daemon(paths: Paths, built: Built) -> None:
    """Run the daemon in this process until SIGTERM or SIGINT. The caller holds the lock.

    Raises:
        AlreadyRunning: another program listens on the API's port.
        StoreTooNew: the database is from a newer Headway.
    """
    log_to(paths.logs_dir / "daemon.log")
    asyncio.run(Service(paths, built, _Sockets.bind(paths, built)).run())


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


class Service:
    """One daemon in this process: the parts that are the same everywhere, on real adapters and sockets."""

    def __init__(self, paths: Paths, built: Built, sockets: _Sockets) -> None:
        self.paths, self.built, self.sockets = paths, built, sockets
        self.host = LinuxHost()
        self.runs = LinuxRuns(paths.runs_dir, built.log_max_bytes, built.log_kept)
        self.processes = LinuxProcesses()
        self.store = SqliteStore(paths.database)
        self.reader = SqliteReader(paths.database)
        self.alert = CommandAlert(built.alert_command)
        self.alerts = Tasks(_unexpected)
        self.systemd = Systemd(os.environ)

    async def run(self) -> None:
        """Adopt what is there, then turn until told to stop."""
        async with aiohttp.ClientSession() as http:
            self.daemon = Daemon(self._outside(http), self._settings())
            await self._start()
            stopped = asyncio.Event()
            for sig in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(sig, stopped.set)
            try:
                self.systemd.say("READY=1")
                await stopped.wait()
            finally:
                self.systemd.say("STOPPING=1")
                await self.api.stop()
                await self.link_server.stop()
                await self.alerts.stop()
                await self.daemon.stop()

    def _outside(self, http: aiohttp.ClientSession) -> Outside:
        paths, clock = self.paths, LinuxClock()
        return Outside(
            clock=clock,
            store=self.store,
            journal=FileJournal(paths.run_dir / "journal.ndjson"),
            runs=self.runs,
            processes=self.processes,
            drivers={name: cls(self.runs, http, clock) for name, cls in DRIVERS.items()},
            meter=_meter(self.built.devices, paths),
            roster=GateLocks(paths.gates_dir),
            routes=RoutesFile(paths.run_dir / "routes.json"),
            requests=RequestFiles(paths.requests_dir),
            ask=JobTeller(self.runs).ask,
            told=self._event,
            log=lambda words, facts: log.warning(words, **facts),
            trouble=_unexpected,
            lost=_leave,
            turned=self.systemd.alive,
        )

    def _settings(self) -> Settings:
        built = self.built
        return Settings(
            configure=Configure(services=built.services, recipes=built.recipes),
            policy=built.policy,
            mode=built.mode,
            name=secrets.token_hex(4),
            salt=secrets.token_hex(16),
        )

    async def _start(self) -> None:
        daemon = self.daemon
        self.link_server = LinkServer(daemon.links, daemon.out.clock, self.host.peer_uid, os.getuid())
        await daemon.start()
        await self.link_server.start(self.sockets.link)
        self.api = ApiServer(self._parts(), self.host.peer_uid, user_name)
        await self.api.start(self.sockets.api, self.sockets.unix)
        port = self.sockets.api.getsockname()[1]
        (self.paths.run_dir / "api-port").write_text(f"{port}\n")
        mode = daemon.adopted.snapshot.mode
        log.info("ready", home=str(self.paths.state_dir), api=f"http://127.0.0.1:{port}", mode=mode)

    def _parts(self) -> Parts:
        return Parts(
            inbox=self.daemon.loop,
            hub=self.daemon.hub,
            reader=self.reader,
            clock=self.daemon.out.clock,
            recipes={spec.name: spec for spec, _ in self.built.recipes},
            make_job=lambda fields: adhoc(fields, {name: cls.moves for name, cls in DRIVERS.items()}),
            tail=self.runs.log_tail,
            processes=self.processes,
            lease_moves=DRIVERS["lease"].moves,
            run=self.runs.read,
            log_path=lambda run_id: str(self.runs.directory(run_id) / "log"),
            gate_url=lambda: gate_url(self.paths.run_dir, self.built.gate.host),
            log_file=str(self.paths.logs_dir / "daemon.log"),
            version=__version__,
        )

    def _event(self, event: Event) -> None:
        log.info(event.code, holder=event.holder, **{k: v for k, v in event.facts.items() if k != "holder"})
        if event.code in CommandAlert.CODES:
            sentence = phrases.told(event.code, event.holder, event.facts)
            self.alerts.spawn("alert", self.alert.send(event, sentence))


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


def _unexpected(what: str, error: BaseException) -> None:
    log.error("unexpected", what=what, error=repr(error), exc_info=error)


def _leave() -> None:
    """A daemon without its loop is worse than none: the next one adopts what runs."""
    os.kill(os.getpid(), signal.SIGTERM)
