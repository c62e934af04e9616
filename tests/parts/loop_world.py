"""A whole loop in memory: real loop, act, watcher and recorder; false drivers, meter, runs, store and gate.

Time is real, in milliseconds: a false driver answers at once unless it is told to do otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

from headway.core.facts import GateState
from headway.core.history import Histories
from headway.core.model import Decision, Event, Holder, MoveRule, Service, Snapshot, Waiting
from headway.core.pauses import Table
from headway.daemon.act import Act
from headway.daemon.adopt import Adopted
from headway.daemon.hub import StateHub
from headway.daemon.loop import Loop
from headway.daemon.observe import Watcher
from headway.daemon.record import Recorder
from headway.ports import Clock, DeviceReading, Driver, Moved, Reading, RunSpec, Seen, Task
from tests.core.make import Scene, dev
from tests.parts.fake_runs import FakeRuns
from tests.parts.fake_store import FakeClock, FakeJournal, FakeStore

Play = Callable[[Task], Awaitable[Moved]]


class FakeDriver:
    """Does what it is asked at once: bytes come and go with the form. `plays` replaces single moves."""

    name = "process"
    moves: tuple[MoveRule, ...] = ()

    def __init__(self, world: LoopWorld) -> None:
        self.world = world
        self.asked: list[tuple[str, str]] = []
        self.tasks: list[Task] = []
        self.plays: dict[tuple[str, str], Play] = {}
        self.engine_active: int | None = 0
        self.observe_error: Exception | None = None

    async def observe(self, holder: Holder) -> Seen:
        if self.observe_error is not None:
            raise self.observe_error
        run = self.world.runs.read(holder.run.id) if holder.run else None
        if run is None or run.ended:
            return Seen(form=holder.bottom, down=True)
        up = self.world.forms.get(holder.id) == holder.top
        url = "http://127.0.0.1:1"
        return Seen(form=holder.top if up else None, ready=up, engine_active=self.engine_active, upstream=url)

    async def move(self, task: Task) -> Moved:
        self.asked.append((task.holder.id, task.form))
        self.tasks.append(task)
        play = self.plays.get((task.holder.id, task.form))
        return await play(task) if play else await self.plain(task)

    async def plain(self, task: Task) -> Moved:
        """The move as it should be."""
        holder, runs = task.holder, self.world.runs
        if task.form == holder.bottom:
            await runs.stop(task.run_id, 0.0)
        elif task.form == holder.top and runs.read(task.run_id) is None:
            runs.launch(RunSpec(id=task.run_id, holder=holder.id, argv=holder.spec.argv))
        self.world.forms[holder.id] = task.form
        self.world.bytes[task.run_id] = holder.need_bytes(task.form) or 0
        return Moved(upstream="http://127.0.0.1:1" if isinstance(holder, Service) else None)


class FakeMeter:
    """Shows the bytes of every living run. `blind`: it answers nothing."""

    def __init__(self, world: LoopWorld) -> None:
        self.world, self.blind, self.reads = world, False, 0

    async def start(self, on_reading: Callable[[Reading], None]) -> None: ...

    async def stop(self) -> None: ...

    def read_now(self) -> None:
        self.reads += 1
        asyncio.get_running_loop().call_soon(self._read)

    def _read(self) -> None:
        if self.blind:
            return
        world = self.world
        shown = [(min(world.runs.pids(r)), b) for r, b in sorted(world.bytes.items()) if world.runs.pids(r)]
        used = world.foreign_bytes + sum(b for _, b in shown)
        device = DeviceReading(
            id=dev("gpu0"),
            name="gpu0",
            index=0,
            total_bytes=world.total_bytes,
            used_bytes=used,
            free_bytes=world.total_bytes - used,
            processes=tuple(shown),
        )
        reading = Reading(at_s=world.clock.now_s(), devices=(device,))
        world.loop.tell(*world.watcher.reading(reading))


class LoopWorld:
    """Begin with a scene or with what was adopted; use as an async context."""

    def __init__(
        self,
        scene: Scene | None = None,
        adopted: Adopted | None = None,
        runs: FakeRuns | None = None,
        total_gib: int = 24,
        store: FakeStore | None = None,
        journal: FakeJournal | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.clock: Clock = clock or FakeClock()
        self.runs = runs or FakeRuns()
        self.total_bytes, self.foreign_bytes = total_gib << 30, 0
        self.bytes: dict[str, int] = {}
        self.forms: dict[str, str] = {}
        self.store, self.journal = store or FakeStore(), journal or FakeJournal()
        self.events: list[Event] = []
        self.troubles: list[tuple[str, BaseException]] = []
        self.failed: list[BaseException] = []
        self.waiting: dict[str, int] = {}
        self.told_rev: dict[str, int] = {}
        self.tasks: set[asyncio.Task[Any]] = set()
        snapshot = adopted.snapshot if adopted else (scene or Scene(total_gib)).s
        if adopted is None:
            self._stand(snapshot)
        self._wire(snapshot, adopted)

    def _stand(self, s: Snapshot) -> None:
        for holder in s.holders.values():
            if holder.run is not None and holder.run.alive:
                self.runs.put(holder.run.id, holder.id)
                self.bytes[holder.run.id] = sum(holder.seen_bytes.values())
            self.forms[holder.id] = holder.form or holder.bottom

    def _wire(self, snapshot: Snapshot, adopted: Adopted | None) -> None:
        self.hub = StateHub(snapshot)
        self.meter = FakeMeter(self)
        self.drivers: dict[str, Driver] = {}
        self.use(FakeDriver(self))
        self.recorder = Recorder(self.store, self.journal, self.clock, self.events.append)
        if adopted is not None:
            self.recorder.collect(adopted.draft, adopted.snapshot)
        self.watcher = Watcher(
            runs=self.runs,
            drivers=self.drivers,
            clock=self.clock,
            tell=lambda fact: self.loop.tell(fact),
            snapshot=lambda: self.hub.snapshot,
            spawn=self.spawn,
            read_now=self.meter.read_now,
        )
        self.act = Act(
            drivers=self.drivers,
            runs=self.runs,
            meter=self.meter,
            clock=self.clock,
            tell=lambda fact: self.loop.tell(fact),
            snapshot=lambda: self.hub.snapshot,
            watch=self.watcher.watch,
            trouble=lambda what, error: self.troubles.append((what, error)),
        )
        histories = Histories(Table({}), snapshot.boot_id, self.clock.now_s(), self.clock.wall_s())
        self.loop = Loop(snapshot, self.clock, self.hub, self.act, self.recorder, histories, self._gates)
        self.adopted = adopted

    def use(self, driver: FakeDriver) -> None:
        """This one moves everything."""
        self.driver = driver
        self.drivers |= {"process": driver, "command": driver}

    # ---------------------------------------------------------------- running

    async def __aenter__(self) -> LoopWorld:
        if self.adopted is not None:
            for holder, run_id in self.adopted.watch:
                self.watcher.watch(holder, run_id)
            for move, pending in self.adopted.redo:
                self.act.move(move, pending, again=True)
        else:
            for run_id, state in list(self.runs.states.items()):
                self.watcher.watch(state.holder, run_id)
        self.spawn("loop", self.loop.run())
        self.spawn("observe", self.watcher.run())
        self.spawn("meter", self._measure())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.act.stop()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def spawn(self, name: str, work: Coroutine[Any, Any, Any] | Any) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed.append(error)

    async def _measure(self) -> None:
        while True:
            self.meter.read_now()
            await asyncio.sleep(0.1)

    # ---------------------------------------------------------------- the gate

    def hold(self, service: str, n: int = 1) -> None:
        """So many requests wait at the gate from now on; an open one sends them at once."""
        self.waiting[service] = 0 if self.is_open(service) else n
        self.say(service)

    def say(self, sid: str) -> None:
        service = self.hub.snapshot.service(sid)
        assert service is not None
        n = self.waiting.get(sid, 0)
        held = {"attended": Waiting(n=n, since_s=self.clock.now_s())} if n else {}
        closed = service.gate.wish == "closed"
        self.loop.tell(
            GateState(service=sid, rev=service.gate.rev, closed=closed, pinning=0, active=0, demand=held)
        )

    def _gates(self, s: Snapshot, decision: Decision) -> None:
        self.watcher.stir()
        for sid in s.services:
            service = s.service(sid)
            assert service is not None
            if self.told_rev.get(sid) != service.gate.rev:
                self.told_rev[sid] = service.gate.rev
                if service.gate.wish == "open":
                    assert self._serves(service), f"{sid} opened while {self.forms[sid]}"
                    self.waiting[sid] = 0
                self.say(sid)

    def _serves(self, service: Service) -> bool:
        """It is up, or its server died so short ago that no daemon can have been told."""
        run = service.run
        untold = run is not None and run.alive and not self.runs.pids(run.id)
        return self.forms[service.id] == service.top or untold

    # ---------------------------------------------------------------- looking

    @property
    def s(self) -> Snapshot:
        return self.hub.snapshot

    def codes(self, holder: str | None = None) -> list[str]:
        return [e.code for e in self.events if holder is None or e.holder == holder]

    def is_open(self, sid: str) -> bool:
        service = self.s.service(sid)
        return service is not None and service.gate.wish == "open" and not self.failed


def gap_scene(parked: float | None = 0.5, **service: Any) -> Scene:
    """A model that stepped aside for the job that runs on its device."""
    from tests.core.make import job_spec, service_spec

    scene = Scene(24).service(service_spec("chat"), form="stopped", active=0, **service)
    return scene.job(job_spec("train", parked=parked))


def quiet_scene() -> Scene:
    """A model at rest behind a closed gate, and nothing else."""
    from tests.core.make import service_spec

    return Scene(24).service(service_spec("chat"), form="stopped", active=0)


def faster(scene: Scene, hid: str, limit_s: float) -> Scene:
    """The same scene with that limit for every move of one holder."""
    holder = scene.s.holders[hid]
    moves = tuple(replace(rule, limit_s=limit_s, takes_s=None) for rule in holder.spec.moves)
    spec = replace(holder.spec, moves=moves, stop_grace_s=0.0)
    return scene.put(replace(holder, spec=spec))
