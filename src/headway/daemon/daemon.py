"""One daemon without its sockets: adopts what is there, then observes, turns and acts until it is stopped.

The composition root gives it the real world, the simulation a false one. Nothing here knows which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from headway.core import wire
from headway.core.commands import ClearJobs, Configure
from headway.core.configs import Proposed
from headway.core.facts import Fact, GateState, GateStuck
from headway.core.model import (
    CloseGate,
    Decision,
    DiskRoom,
    Event,
    HostRoom,
    Job,
    Mode,
    OpenGate,
    Policy,
    Service,
    Snapshot,
)
from headway.core.pauses import Table
from headway.core.windows import is_open
from headway.daemon.act import Act
from headway.daemon.adopt import TOLD, Adopted, adopt, outdated
from headway.daemon.applying import Applying, no_config
from headway.daemon.calendar import news
from headway.daemon.figures import Figures
from headway.daemon.giving import Giving
from headway.daemon.hand_servers import HandServers
from headway.daemon.hub import StateHub
from headway.daemon.learning import Learning
from headway.daemon.links import Links, Troubled
from headway.daemon.loop import TURN_S, Loop
from headway.daemon.observe import POLL_S, Watcher, awaits_engine
from headway.daemon.record import Recorder
from headway.daemon.retention import month_before, surplus
from headway.daemon.room_look import RoomLook, no_disk
from headway.daemon.sampling import Sampling
from headway.daemon.table import rows
from headway.daemon.tasks import Tasks
from headway.daemon.visitors import Visitors
from headway.ports import (
    Clock,
    Driver,
    Due,
    Journal,
    Meter,
    Processes,
    Pulse,
    Reading,
    RequestLog,
    Roster,
    Routes,
    Runs,
    Saved,
    Store,
)

PING_TURNS = 2  # a ping every second tick of a second
TABLE_EVERY_S = 5.0  # a table in which nothing but figures can have changed is made anew this often
TIDY_TURNS = 3600  # of a second: how often ended runs are looked through


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Everything a daemon touches.

    Attributes:
        ask: what a running job says of itself: a JobTold, or a coroutine of one.
        told: called with each event, as it is noted.
        log: words and facts for the daemon's own log.
        trouble: an exception nobody expected, and where.
        lost: called when a part failed without which the daemon is worse than none.
        turned: called in every turn, with the clock's reading: the loop goes on.
        config: what the config says now; raises ConfigInvalid.
        tokens: by which the gates know callers.
        room: what the machine has left beside its devices.
        disk: what the disk of a directory has left; None: not readable. It may never answer.
        windows: of each window of the config the turn that is open at a wall clock, else the next one.
    """

    clock: Clock
    store: Store
    journal: Journal
    runs: Runs
    processes: Processes
    drivers: Mapping[str, Driver]
    meter: Meter
    roster: Roster
    routes: Routes
    requests: RequestLog
    ask: Callable[[Job], object]
    told: Callable[[Event], None]
    log: Callable[[str, Mapping[str, object]], None]
    trouble: Callable[[str, BaseException], None]
    lost: Callable[[], None]
    turned: Callable[[float], None] = lambda now_s: None
    config: Callable[[], Awaitable[Proposed]] = no_config
    tokens: Callable[[], tuple[wire.Token, ...]] = lambda: ()
    windows: Callable[[float], tuple[Due, ...]] = lambda wall_s: ()
    room: Callable[[], HostRoom] = HostRoom
    disk: Callable[[str], Awaitable[DiskRoom | None]] = no_disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the config says. `name` and `salt` are random words; the salt of the first start of all is kept.

    Attributes:
        pace: how many times slower than in life polls, ticks and idle turns are. Only a simulation changes it: what
            is right must not depend on them.
        pauses: what was measured elsewhere, until the log here says more.
    """

    configure: Configure
    policy: Policy
    mode: Mode
    name: str
    salt: str
    pace: float = 1.0
    pauses: Table = field(default_factory=lambda: Table({}))


class Daemon:
    """All parts of one daemon, wired. Raises StoreFailed, RowUnreadable, LineUnreadable: what was saved is damaged."""

    def __init__(self, out: Outside, settings: Settings) -> None:
        self.out, self.settings = out, settings
        self.tasks = Tasks(out.trouble, vital=("loop", "observe", "tick", "log"), lost=self._lost)
        self._broken = False  # a part of it failed without which it is worse than none
        saved = out.store.load()
        self._salt = saved.meta.get("salt") or settings.salt
        self.adopted: Adopted = adopt(
            saved,
            out.journal,
            out.runs,
            settings.configure,
            settings.policy,
            settings.mode,
            _open_services(out.routes),
            out.clock.now_s(),
            out.clock.wall_s(),
        )
        self._wire(self.adopted, saved)
        meta = {"salt": self._salt, "config_mode": settings.mode, "mode": self.adopted.snapshot.mode}
        self.recorder.meta(**meta, ended="")  # until it is told to end

    def _wire(self, adopted: Adopted, saved: Saved) -> None:
        out, pace = self.out, self.settings.pace
        self._open: list[str] = []  # windows, as the gates know them
        self.hub, self.figures = StateHub(adopted.snapshot), Figures()
        self.recorder = Recorder(out.store, out.journal, out.clock, self._told)
        self.recorder.collect(adopted.draft, adopted.snapshot)
        self.room = RoomLook(
            out.room, out.disk, out.clock, self._tell, lambda: self.hub.snapshot, self.tasks.spawn
        )
        self.learning = _learning(self, saved)
        self.links = Links(self.settings.name, out.roster.living, out.routes.write, self._from_gate)
        self.visitors = Visitors(out.processes, lambda: self.hub.snapshot, self._tell)
        self.hand_servers = HandServers(out.processes, lambda: self.hub.snapshot, out.clock.now_s)
        self.watcher = Watcher(
            runs=out.runs,
            drivers=out.drivers,
            clock=out.clock,
            tell=self._tell,
            snapshot=lambda: self.hub.snapshot,
            spawn=self.tasks.spawn,
            read_now=out.meter.read_now,
            told=out.ask,
            poll_s=POLL_S * pace,
            visitor=lambda pid: self.visitors.owner(pid) or self.hand_servers.owner(pid),
        )
        self.act = Act(
            drivers=out.drivers,
            runs=out.runs,
            meter=out.meter,
            clock=out.clock,
            tell=self._tell,
            snapshot=lambda: self.hub.snapshot,
            watch=self.watcher.watch,
            trouble=out.trouble,
        )
        self.loop = Loop(
            adopted.snapshot,
            out.clock,
            self.hub,
            self.act,
            self.recorder,
            self.learning.histories,
            self._gates,
            TURN_S * pace,
        )
        self.applying = Applying(out.config, self.loop, lambda: self.hub.snapshot, self._tell)

    async def start(self) -> None:
        """Write the table, go on with what was under way, and turn. Gates may connect from now on."""
        adopted, out = self.adopted, self.out
        self._publish(adopted.snapshot)
        await out.meter.start(self._reading)
        _end_orphans(self)
        for holder, run_id in adopted.watch:
            self.watcher.watch(holder, run_id)
        for move, pending in adopted.redo:
            self.act.move(move, pending, again=True)
        for job in adopted.snapshot.holders.values():
            if (
                isinstance(job, Job)
                and job.spec.placement == "yield"
                and job.run is not None
                and job.run.alive
            ):
                out.runs.signal(job.run.id, freeze=False)  # what froze it is not known to go on
        self._calendar()  # before the first turn: what is open now is open from the start
        self.room.look()
        self.tasks.spawn("loop", self.loop.run())
        self.tasks.spawn("observe", self.watcher.run())
        self.tasks.spawn("tick", self._tick())
        self.tasks.spawn("log", self.learning.run())
        self.tasks.spawn("memory", _sampling(self).run())
        self.tasks.spawn("given", _giving(self).run())
        self.tasks.spawn("tidy", self._tidy())

    async def stop(self) -> None:
        """Leave: what runs goes on, and the next daemon finds it."""
        await self.tasks.stop()
        await self.act.stop()
        await self.out.meter.stop()
        if not self._broken:
            self.recorder.meta(ended=TOLD)
            self.learning.keep()
        await self.recorder.flush(self.hub.snapshot)
        await self.out.store.close()

    def pulse(self) -> Pulse:
        """How this daemon is."""
        return self.figures.pulse(self.out.roster.living(), frozenset(self.links.peers))

    def tokens_changed(self) -> None:
        """The gates learn of it now."""
        self._publish(self.hub.snapshot)

    # ---------------------------------------------------------------- small wires

    def _lost(self) -> None:
        self._broken = True
        self.out.lost()

    def _tell(self, fact: Fact) -> None:
        self.loop.tell(fact)

    def _reading(self, reading: Reading) -> None:
        self.room.look()  # a release is verified by this reading: what it took of main memory is known with it
        self.loop.tell(*self.watcher.reading(reading))

    def _told(self, event: Event) -> None:
        self.figures.event(event.code)
        self.out.told(event)

    def _from_gate(self, told: GateState | Troubled) -> None:
        if isinstance(told, Troubled):
            self.watcher.probe(told.service)
        else:
            self.loop.tell(told)
            self.learning.stir()

    def _gates(self, s: Snapshot, decision: Decision) -> None:
        self.out.turned(s.now_s)
        self.figures.turned(self.out.clock.now_s() - s.now_s)
        open_ = [window.id for window in s.windows if is_open(window, s.now_s)]
        if self.hub.news or open_ != self._open or s.now_s >= self._published_s + TABLE_EVERY_S:
            self._open = open_
            self._publish(s)
        if any(isinstance(a, OpenGate | CloseGate) for a in decision.actions):
            self.links.merge_all(self.out.clock.now_s())
        if any(awaits_engine(x) for sid in s.services if (x := s.service(sid)) and sid not in s.pending):
            self.watcher.stir()

    def _publish(self, s: Snapshot) -> None:
        self._published_s = s.now_s
        now_s, tokens = self.out.clock.now_s(), self.out.tokens()
        self.links.publish(rows(s, self.hub.verdicts), s.mode, self._salt, now_s, tokens)

    async def _tick(self) -> None:
        """Once a second: pings, the fence, and the processes of leases."""
        turn = 0
        while True:
            turn += 1
            s = self.hub.snapshot
            self._fence({sid for sid in s.services if (x := s.service(sid)) and _closing(x)}, turn)
            self.visitors.look()
            self._calendar()
            self.room.look()
            if turn % TIDY_TURNS == 0:
                self.tasks.spawn("tidy", self._tidy())
            await asyncio.sleep(TURN_S * self.settings.pace)

    def _calendar(self) -> None:
        """Windows by the wall clock, which may be set at any time: looked at each second."""
        clock = self.out.clock
        fact = news(self.out.windows, self.hub.snapshot, clock.now_s(), clock.wall_s())
        if fact is not None:
            self.loop.tell(fact)

    def _fence(self, awaited: Collection[str], turn: int) -> None:
        """End gates that a close waited for in vain; say so of one that cannot be ended."""
        for gate in self.links.tick(self.out.clock.now_s(), turn % PING_TURNS == 0, awaited):
            peer = self.links.peers.get(gate)
            done = self.out.roster.kill(gate, peer.pid if peer else None)
            self.out.log("gate fenced" if done else "gate cannot be fenced", {"gate": gate})
            self.loop.tell(*(GateStuck(service=sid, gate=gate) for sid in sorted(awaited) if not done))

    async def _tidy(self) -> None:
        """Forget what is old: ended jobs, request logs whose rows are saved, and ended runs one by one, as each looks
        through all processes."""
        if ended := surplus(self.hub.snapshot):
            await self.loop.submit(ClearJobs(targets=ended, by="retention"))
        if self.recorder.ok:
            self.learning.tail.drop_before(month_before(self.out.clock.wall_s()))
        for run_id in outdated(self.out.runs, self.hub.snapshot):
            await asyncio.sleep(0.01)
            with suppress(ValueError, OSError):  # it lives after all, or somebody else removed it
                self.out.runs.forget(run_id)


def _end_orphans(daemon: Daemon) -> None:
    """Their rows are lost, so nobody can say whether they may stay; what they need to save their work they get."""
    for spec in daemon.adopted.orphans:
        daemon.tasks.spawn(f"orphan {spec.id}", daemon.out.runs.stop(spec.id, spec.stop_grace_s))


def _learning(daemon: Daemon, saved: Saved) -> Learning:
    out, settings = daemon.out, daemon.settings
    return Learning(
        out.requests,
        saved,
        settings.pauses,
        out.runs.boot_id,
        out.clock,
        daemon.recorder,
        told=lambda: daemon.loop.tell(),
        snapshot=lambda: daemon.hub.snapshot,
        pace=settings.pace,
    )


def _sampling(daemon: Daemon) -> Sampling:
    out = daemon.out
    return Sampling(out.store, out.clock, lambda: daemon.hub.snapshot, daemon.settings.pace)


def _giving(daemon: Daemon) -> Giving:
    out = daemon.out
    return Giving(out.store, out.clock, lambda: daemon.hub.snapshot, daemon.settings.pace)


def _closing(service: Service) -> bool:
    """Is it awake behind a closed gate, so that a move of it may wait for a gate's answer?"""
    return service.form == service.top and service.gate.wish == "closed"


def _open_services(routes: Routes) -> dict[str, str | None]:
    """Services that the last table says are open, with their upstreams."""
    try:
        table = wire.read_table(routes.read())
    except (OSError, wire.WireError):
        return {}
    return {name: row.upstream for name, row in table.services.items() if row.gate == "open"}
