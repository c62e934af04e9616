"""One machine and many daemons: each is killed at some moment and the next one adopts. Moves go on in between."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from headway.core.commands import Configure
from headway.core.model import Holder, Job, Policy, Service
from headway.daemon.adopt import adopt
from headway.errors import HookFailed, ServerExited
from headway.ports import Moved, RunSpec, RunState, Task
from tests.core.make import job_spec, service_spec
from tests.parts.fake_runs import FakeRuns
from tests.parts.fake_store import FakeClock, FakeJournal, FakeStore
from tests.parts.loop_world import FakeDriver, LoopWorld

QUICK = Policy(
    gap_min_s=0.0,
    wait_price=0.0,
    max_mean_wait_s=1e6,
    max_waiting_share=1.0,
    demand_grace_s=0.02,
    backoff_min_s=0.02,
    backoff_max_s=0.05,
    push_back_s=0.0,
)
CHAT = service_spec("chat", min_residency_s=0.0, stop_grace_s=0.0)
TRAIN = job_spec("train", parked=0.5, min_residency_s=0.0, stop_grace_s=0.0, retries=0)
TOTAL_BYTES = 24 << 30


class Machine(FakeRuns):
    """Runs, and what a machine must never see: two copies of anything, or more bytes than there are."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock = clock
        self.bytes: dict[str, int] = {}
        self.forms: dict[str, str] = {}
        self.codes: dict[str, int] = {}  # run -> exit code of its leader, by itself
        self.wrong: list[str] = []

    def launch(self, spec: RunSpec) -> None:
        beside = [
            r for r, s in self.states.items() if s.holder == spec.holder and s.kind == "main" and self.pids(r)
        ]
        if spec.kind == "main" and beside:
            self.wrong.append(f"{spec.id} beside {beside}")
        super().launch(spec)

    def holds(self, run_id: str, bytes_: int) -> None:
        self.bytes[run_id] = bytes_
        used = sum(b for r, b in self.bytes.items() if self.pids(r))
        if used > TOTAL_BYTES:
            self.wrong.append(f"{used >> 30} GiB with {run_id}")

    def exits(self, run_id: str, code: int) -> None:
        """Its leader ends by itself."""
        if self.states[run_id].lock_held:
            self.codes[run_id] = code
            self.ends(run_id, code, at_s=self.clock.now_s())


class SlowDriver(FakeDriver):
    """Begins what is asked, unless it is under way, and waits for it. What it began ends without it too."""

    life: Lives

    async def move(self, task: Task) -> Moved:
        holder, machine = task.holder, self.life.machine
        if task.form == holder.bottom:
            for run_id in {task.run_id, holder.run.id if holder.run else task.run_id}:
                self.life.begin(f"stop {run_id}", self.life.stop(holder, run_id))
                await self.life.until(lambda r=run_id: not machine.pids(r))
        elif holder.form == holder.bottom or not holder.run:
            if holder.run is not None and holder.run.id != task.run_id:
                await machine.stop(holder.run.id, 0.0)
            if machine.read(task.run_id) is None:
                machine.launch(RunSpec(id=task.run_id, holder=holder.id, argv=("x",)))
                self.life.begin(f"load {task.run_id}", self.life.load(holder, task.run_id))
            await self.life.until(
                lambda: not machine.pids(task.run_id) or task.run_id in machine.bytes,
            )
            if not machine.pids(task.run_id) and isinstance(holder, Service):
                raise ServerExited("it ended", holder=holder.id, exit_code=1)
        else:
            await self._hook(task)
        return Moved(upstream="http://u" if isinstance(holder, Service) else None)

    async def _hook(self, task: Task) -> None:
        machine = self.life.machine
        if machine.read(task.hook_id) is None:
            machine.launch(RunSpec(id=task.hook_id, holder=task.holder.id, argv=("x",), kind="hook"))
            self.life.begin(task.hook_id, self.life.hook(task))
        state = machine.states[task.hook_id]
        while state.lock_held:
            state = await machine.changed(task.hook_id, state)
        if state.exit is None or state.exit.code:
            raise HookFailed("it failed", holder=task.holder.id, hook="park")


class Lives:
    """The machine, the store and the gate outlive every daemon; `step` is one life or one event."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.clock = FakeClock()
        self.machine = Machine(self.clock)
        self.store, self.journal = FakeStore(), FakeJournal()
        self.world: LoopWorld | None = None
        self.waiting: dict[str, int] = {}
        self.open: dict[str, str | None] = {}
        self.under_way: dict[str, asyncio.Task[None]] = {}
        self.wrong: list[str] = []

    # ---------------------------------------------------------------- daemons

    async def start(self) -> LoopWorld:
        clock, configure = self.clock, Configure(services=(CHAT,), recipes=())
        adopted = adopt(
            self.store.load(),
            self.journal,
            self.machine,
            configure,
            QUICK,
            "live",
            self.open,
            clock.now_s(),
            clock.wall_s(),
        )
        self.wrong += [f"orphan {spec.id}" for spec in adopted.orphans]
        world = LoopWorld(
            adopted=adopted, runs=self.machine, store=self.store, journal=self.journal, clock=clock
        )
        world.bytes, world.forms = self.machine.bytes, self.machine.forms
        self.machine.forms.setdefault("chat", "stopped")
        driver = SlowDriver(world)
        driver.life = self
        world.use(driver)
        world.waiting = self.waiting
        self.world = world
        await world.__aenter__()
        for sid in world.s.services:
            world.say(sid)
        return world

    async def kill(self) -> None:
        """Everything of the daemon is gone at once; what the store had not committed never was."""
        world = self.world
        assert world is not None
        self.wrong += [repr(error) for error in (*world.failed, *(e for _, e in world.troubles))]
        chat = world.s.service("chat")
        assert chat is not None
        self.open = {"chat": chat.upstream} if chat.gate.wish == "open" else {}
        self.store.forget()
        await world.__aexit__()
        self.world = None

    # ---------------------------------------------------------------- what goes on without a daemon

    def begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        before = self.under_way.get(name)
        if before is not None and not before.done():
            work.close()
            return
        self.under_way[name] = asyncio.get_running_loop().create_task(work)

    async def until(self, true: Any) -> None:
        while not true():
            await asyncio.sleep(0.001)

    async def _while(self) -> None:
        await asyncio.sleep(self.dice.random() * 0.02)

    async def stop(self, holder: Holder, run_id: str) -> None:
        await self._while()
        if self.machine.pids(run_id):
            self.machine.forms[holder.id] = holder.bottom
        await self.machine.stop(run_id, 0.0)

    async def load(self, holder: Holder, run_id: str) -> None:
        await self._while()
        if self.machine.pids(run_id):
            self.machine.forms[holder.id] = holder.top
            self.machine.holds(run_id, holder.need_bytes(holder.top) or 0)

    async def hook(self, task: Task) -> None:
        await self._while()
        holder = task.holder
        assert holder.run is not None
        if self.machine.pids(task.hook_id) and self.machine.pids(holder.run.id):
            self.machine.forms[holder.id] = task.form
            self.machine.holds(holder.run.id, holder.need_bytes(task.form) or 0)
        self.machine.ends(task.hook_id, 0)

    # ---------------------------------------------------------------- looking

    def jobs(self) -> dict[str, Job]:
        assert self.world is not None
        return {h.id: h for h in self.world.s.holders.values() if isinstance(h, Job)}

    def alive(self, holder: str) -> list[RunState]:
        found = [s for s in self.machine.states.values() if s.holder == holder and s.kind == "main"]
        return [state for state in found if self.machine.pids(state.id)]
