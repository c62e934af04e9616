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
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import aiohttp
import structlog

from headway import __version__
from headway.alerts.alerts import Alerts
from headway.alerts.command import CommandWay
from headway.alerts.webhook import WebhookWay
from headway.api.access import Access
from headway.api.others import Others
from headway.api.parts import Parts
from headway.api.server import ApiServer
from headway.api.web import built as built_page
from headway.config.adhoc import adhoc
from headway.config.build import Built, DeviceSettings
from headway.config.calendar import Calendar
from headway.config.paths import Paths
from headway.config.pauses import shipped
from headway.config.running import Running
from headway.core import phrases
from headway.core.facts import ConfigRefused
from headway.core.model import Event
from headway.daemon import collecting
from headway.daemon.applying import Applying
from headway.daemon.daemon import Daemon, Outside, Settings
from headway.daemon.link_server import LinkServer
from headway.daemon.tasks import Tasks
from headway.daemon.waiters import Waiters
from headway.drivers.jobs_told import JobTeller
from headway.drivers.registry import ASLEEP_PROBES, DRIVERS
from headway.errors import AlreadyRunning, HeadwayError
from headway.host.disk import disk_room
from headway.host.gate_files import RequestFiles, RoutesFile
from headway.host.gate_locks import GateLocks
from headway.host.linux import LinuxClock, LinuxHost, user_name
from headway.host.linux_runs import LinuxRuns
from headway.host.linux_visitors import LinuxProcesses
from headway.host.log_file import log_to
from headway.host.model_servers import find_servers
from headway.host.run_files import LogLimits
from headway.host.systemd import Systemd
from headway.meters.child import ChildMeter
from headway.meters.combined import CombinedMeter
from headway.meters.declared import DeclaredDevice, DeclaredMeter
from headway.meters.selected import Chosen, SelectedMeter
from headway.ports import AlertWay, Hub, Meter
from headway.store.journal import FileJournal
from headway.store.reader import SqliteReader
from headway.store.store import SqliteStore

log = structlog.get_logger("headway")
READS_BUSY = ("llamacpp", "vllm")
NODE = "local"  # first part of every device id; the machine may be renamed, its devices stay


def running(config_path: Path, kept: Path | None = None, again: bool = False) -> Running:
    """Read and check the config; see Running. Raises ConfigInvalid with every problem at once."""
    moves = {name: driver.moves for name, driver in DRIVERS.items()}
    return Running(config_path, moves, READS_BUSY, ASLEEP_PROBES, kept, again)


def run_daemon(paths: Paths, config: Running) -> None:
    """Run the daemon in this process until SIGTERM or SIGINT. The caller holds the lock.

    Raises:
        AlreadyRunning: another program listens on the API's port.
        StoreTooNew: the database is from a newer Headway.
        StoreFailed, RowUnreadable, LineUnreadable: it, or the journal, cannot be read.
        RunUnreadable: the files of a run that lives cannot.
    """
    log_to(paths.logs_dir / "daemon.log")
    asyncio.run(Service(paths, config, _Sockets.bind(paths, config.built)).run())


class _Sockets:
    """Everything the daemon listens on, bound before the database is touched."""

    def __init__(self, api: socket.socket, unix: socket.socket | None, link: socket.socket) -> None:
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
        for old in (paths.api_socket, paths.admin_token):
            old.unlink(missing_ok=True)
        unix = _unix(paths.api_socket) if built.api_socket else None
        return cls(api, unix, _unix(paths.run_dir / "link.sock"))


def _unix(path: Path) -> socket.socket:
    """A fresh Unix socket, mode 0600. The lock is held, so an old file there is a dead one's."""
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(str(path))
    path.chmod(0o600)
    sock.listen(128)
    return sock


def own_token(path: Path) -> str:
    """A new secret, in a file that only this user can read."""
    secret = f"hw_{secrets.token_hex(24)}"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{secret}\n")
    return secret


class Service:
    """One daemon in this process: the parts that are the same everywhere, on real adapters and sockets."""

    def __init__(self, paths: Paths, config: Running, sockets: _Sockets) -> None:
        self.paths, self.config, self.built, self.sockets = paths, config, config.built, sockets
        self.host = LinuxHost()
        self.runs = LinuxRuns(paths.runs_dir, log_limits(self.built))
        for file in self.runs.damaged:
            log.warning("file of a run damaged", file=str(file))
        self.processes = LinuxProcesses()
        self.store = SqliteStore(paths.database)
        self._keep_history(self.built)
        self.reader = SqliteReader(paths.database)
        admin_token = None if sockets.unix else own_token(paths.admin_token)
        self.access = Access(self.store, LinuxClock(), self.built.api_read, admin_token)
        self.alerts = Alerts(
            LinuxClock().now_s, lambda way, words: log.warning("alert failed", way=way, error=words)
        )
        self.errands = Tasks(_unexpected)
        self.calendar = Calendar(self.built.windows)
        self.systemd = Systemd(os.environ)
        self.applying: Applying | None = None
        self.hung_up = self.reloading = False
        self.hub: Hub | None = None  # from the first turn on

    async def run(self) -> None:
        """Adopt what is there, then turn until told to stop."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGHUP,))  # see app.daemon
        async with aiohttp.ClientSession() as http:
            self.config.heard_by(lambda built: self._heard(built, http))
            self.alerts.use(alert_ways(self.built, http))
            self.errands.spawn("alerts", self.alerts.run())
            self.daemon = Daemon(self._outside(http), self._settings())
            stopped = asyncio.Event()  # before it starts: one that is told to end meanwhile has not crashed
            for sig in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(sig, stopped.set)
            await self._start()
            try:
                self.systemd.say("READY=1")
                await stopped.wait()
            finally:
                self.systemd.say("STOPPING=1")
                await self.api.stop()
                await self.link_server.stop()
                await self.errands.stop()
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
            config=self.config.read,
            tokens=self.access.tokens.for_gates,
            room=lambda: self.host.room(paths.state_dir),
            disk=disk_room,
            windows=lambda wall_s: self.calendar.due(wall_s),
        )

    def _settings(self) -> Settings:
        built = self.built
        return Settings(
            configure=self.config.configure(),
            policy=built.policy,
            mode=built.mode,
            name=secrets.token_hex(4),
            salt=secrets.token_hex(16),
            pauses=shipped(),
        )

    async def _start(self) -> None:
        daemon = self.daemon
        self.link_server = LinkServer(daemon.links, daemon.out.clock, self.host.peer_uid, os.getuid())
        self.hub = daemon.hub
        await daemon.start()
        await self.link_server.start(self.sockets.link)
        self.applying = daemon.applying
        if problems := self.config.problems:
            daemon.loop.tell(ConfigRefused(problems=tuple(problems), by="start"))
        if self.hung_up:  # while it started
            self._reload()
        collecting.settle()
        self.api = ApiServer(self._parts(), self.host.peer_uid, user_name)
        await self.api.start(self.sockets.api, self.sockets.unix)
        (self.paths.run_dir / "api-port").write_text(f"{self.sockets.api.getsockname()[1]}\n")
        mode = daemon.adopted.snapshot.mode
        ready = f"mode {mode}, control at {self._url()}, files in {self.paths.state_dir}"
        log.info("ready", said=lambda: ready, home=str(self.paths.state_dir), api=self._url(), mode=mode)

    def _url(self) -> str:
        return f"http://127.0.0.1:{self.sockets.api.getsockname()[1]}"

    def _parts(self) -> Parts:
        return Parts(
            inbox=self.daemon.loop,
            hub=self.daemon.hub,
            reader=self.reader,
            clock=self.daemon.out.clock,
            access=self.access,
            tokens_changed=self.daemon.tokens_changed,
            recipes=self.config.recipes,
            make_job=lambda fields: adhoc(fields, {name: cls.moves for name, cls in DRIVERS.items()}),
            tail=self.runs.log_tail,
            processes=self.processes,
            lease_moves=DRIVERS["lease"].moves,
            run=self.runs.read,
            log_path=lambda run_id: str(self.runs.directory(run_id) / "log"),
            gate_url=lambda: gate_url(self.paths.run_dir, self.built.gate.host),
            url=self._url(),
            pulse=lambda: replace(self.daemon.pulse(), alerts=dict(self.alerts.counts)),
            test_alert=self.alerts.test,
            log_file=str(self.paths.logs_dir / "daemon.log"),
            config=self.applying,
            in_force=self.config.in_force,
            host=self.host.load,
            held=Waiters(self.daemon.links).of,
            others=Others(
                lambda without: find_servers(without={*without, *self._own_ports()}), self.daemon.out.clock
            ),
            version=__version__,
            page=built_page(),
        )

    def _own_ports(self) -> set[int]:
        return {self.sockets.api.getsockname()[1], *gate_ports(self.paths.run_dir)}

    def _heard(self, built: Built, http: aiohttp.ClientSession) -> None:
        self.alerts.use(alert_ways(built, http))
        self.calendar = Calendar(built.windows)
        self.runs.logs = log_limits(built)
        self._keep_history(built)

    def _keep_history(self, built: Built) -> None:
        self.store.events_kept, self.store.requests_kept = built.events_kept, built.requests_kept

    def _reload(self) -> None:
        """SIGHUP: one while a config is being applied is another look at the file after that."""
        self.hung_up = True
        if self.applying is not None and not self.reloading:
            self.errands.spawn("reload", self._reload_all())

    async def _reload_all(self) -> None:
        self.reloading = True
        try:
            while self.hung_up and self.applying is not None:
                self.hung_up = False
                with suppress(HeadwayError):  # the audit has it, and the log with it
                    await self.applying.apply(drain=False, by="SIGHUP")
        finally:
            self.reloading = False

    def _event(self, event: Event) -> None:
        facts = {k: v for k, v in event.facts.items() if k not in ("holder", "said")}
        log.info(event.code, holder=event.holder, said=lambda: self._sentence(event), **facts)
        self.alerts.note(event, lambda: phrases.told(event.code, event.holder, event.facts))

    def _sentence(self, event: Event) -> str:
        names = self.hub.snapshot if self.hub is not None else None
        return phrases.told(event.code, event.holder, event.facts, names)


def log_limits(built: Built) -> LogLimits:
    return LogLimits(built.log_max_bytes, built.log_kept)


def alert_ways(built: Built, http: aiohttp.ClientSession) -> list[AlertWay]:
    """Those that the config names."""
    ways: list[AlertWay] = []
    if built.alert_command:
        ways.append(CommandWay(built.alert_command))
    if built.alert_webhook:
        ways.append(WebhookWay(http, built.alert_webhook, built.alert_key_file))
    return ways


def gate_ports(run_dir: Path) -> set[int]:
    """Every port at which the gate last said that it listens."""
    try:
        return set(json.loads((run_dir / "gate-ports.json").read_bytes()).values())
    except (OSError, ValueError):
        return set()


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
