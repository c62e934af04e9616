"""Runs of the false machine: what the files and locks of real shims would show."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headway.core.model import Exit
from headway.ports import RunSpec, RunState
from headway.sim.programs import Hook, JobProgram, Program, Server

if TYPE_CHECKING:
    from headway.sim.world import World

BOOT = "boot-1"


@dataclass(eq=False, slots=True)
class _Entry:
    state: RunState
    program: Program | None = None
    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    lost: bool = False  # its shim was killed: no exit code will ever be known


class SimRuns:
    """Implements ports.Runs. Nothing here belongs to a daemon: it is all there for the next one."""

    boot_id = BOOT

    def __init__(self, world: World) -> None:
        self._world = world
        self._entries: dict[str, _Entry] = {}

    # ---------------------------------------------------------------- for the world

    def program(self, run_id: str) -> Program | None:
        entry = self._entries.get(run_id)
        return entry.program if entry is not None else None

    def living(self) -> list[Program]:
        return [e.program for e in self._entries.values() if e.program is not None and e.program.alive]

    def job_of(self, holder: str) -> JobProgram | None:
        """The living job of that holder."""
        found = (p for p in self.living() if isinstance(p, JobProgram) and p.spec.holder == holder)
        return next(found, None)

    def exited(self, run_id: str, code: int, leaves_s: float) -> None:
        """Its leader ended; what is left of its tree ends `leaves_s` later."""
        if run_id not in self._entries:
            return  # somebody started it by hand
        if self._entries[run_id].lost:
            self._set(run_id, gone=True)
            return
        exit_ = Exit(code=code, at_s=self._world.loop.now_s)
        if leaves_s:
            self._set(run_id, exit=exit_)
            self._world.loop.later(leaves_s, self._gone, run_id)
        else:
            self._set(run_id, exit=exit_, lock_held=False, gone=True)

    def loses_shim(self, run_id: str) -> None:
        """SIGKILL to the shim alone: the tree lives on, and its exit code will never be known."""
        self._entries[run_id].lost = True
        self._set(run_id, lock_held=False)

    def _gone(self, run_id: str) -> None:
        if run_id in self._entries:
            self._set(run_id, lock_held=False, gone=True)

    def _set(self, run_id: str, **changes: object) -> None:
        entry = self._entries[run_id]
        entry.state = replace(entry.state, **changes)  # type: ignore[arg-type]
        waiters, entry.waiters = entry.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # ---------------------------------------------------------------- the port

    def launch(self, spec: RunSpec) -> None:
        if spec.id in self._entries:
            raise FileExistsError(spec.id)
        if self._world.disk.full:
            raise OSError(28, "No space left on device")
        job = spec.kind == "main" and spec.port is None
        if job and self._world.habit(spec.holder).start == "fails" and self._world.chance.random() < 0.7:
            raise FileNotFoundError(2, "No such file or directory", spec.argv[0])
        self._world.checks.launched(spec)
        state = RunState(id=spec.id, holder=spec.holder, lock_held=True, port=spec.port, kind=spec.kind)
        self._entries[spec.id] = _Entry(state)
        asked_s = self._world.loop.now_s
        self._world.loop.later(self._world.chance.uniform(0.005, 0.03), self._started, spec, asked_s)

    def _started(self, spec: RunSpec, asked_s: float) -> None:
        kind = Hook if spec.kind == "hook" else Server if spec.port is not None else JobProgram
        habit = self._world.habit(spec.holder)
        if kind is not Hook and (other := [p for p in self.living() if self._same(p, spec)]):
            self._world.wrong(f"a second copy of {spec.holder}: {spec.id} beside {other[0].spec.id}")
        program = kind(self._world, spec, habit, asked_s)
        self._entries[spec.id].program = program
        self._set(spec.id, pid=program.process.pid, start_ticks=7, boot_id=BOOT)
        program.begin()

    def _same(self, program: Program, spec: RunSpec) -> bool:
        return program.spec.holder == spec.holder and program.spec.kind == "main"

    def half_launch(self, spec: RunSpec) -> None:
        """What a launcher leaves that was killed before it had the lock."""
        state = RunState(id=spec.id, holder=spec.holder, lock_held=False, port=spec.port, kind=spec.kind)
        self._entries.setdefault(spec.id, _Entry(state))

    def read(self, run_id: str) -> RunState | None:
        entry = self._entries.get(run_id)
        return entry.state if entry is not None else None

    def spec(self, run_id: str) -> RunSpec | None:
        program = self.program(run_id)
        return program.spec if program is not None else None

    def known(self) -> Sequence[str]:
        return sorted(self._entries)

    async def changed(self, run_id: str, known: RunState) -> RunState:
        while (entry := self._entries.get(run_id)) is not None:
            if entry.state != known:
                return entry.state
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            entry.waiters.append(waiter)
            await waiter
        return replace(known, lock_held=False, gone=True)

    def pids(self, run_id: str) -> frozenset[int]:
        program = self.program(run_id)
        state = self.read(run_id)
        if program is None or state is None or state.gone or not (program.alive or state.lock_held):
            return frozenset()
        return frozenset({program.process.pid})

    def owner(self, pid: int) -> str | None:
        process = self._world.machine.processes.get(pid)
        return process.run_id if process is not None else None

    async def stop(self, run_id: str, grace_s: float) -> None:
        entry = self._entries.get(run_id)
        if entry is None or not (entry.state.lock_held or entry.state.ran):
            return
        while entry.state.lock_held and not entry.state.ran:
            await self.changed(run_id, entry.state)
        if entry.program is not None and grace_s > 0:
            entry.program.term()
            try:
                async with asyncio.timeout(grace_s):
                    await self._over(run_id, entry)
                return
            except TimeoutError:
                pass
        if entry.program is not None:
            entry.program.kill()
            if not entry.program.alive and not entry.state.gone:
                self._world.loop.later(0.02, self._gone, run_id)
        await self._over(run_id, entry)

    async def _over(self, run_id: str, entry: _Entry) -> None:
        while not entry.state.gone:
            await self.changed(run_id, entry.state)

    def busy_s(self, run_id: str) -> float | None:
        program = self.program(run_id)
        return program.busy_s() if isinstance(program, JobProgram) and program.alive else None

    def signal(self, run_id: str, freeze: bool) -> None:
        program = self.program(run_id)
        if isinstance(program, JobProgram) and program.alive:
            program.freeze() if freeze else program.thaw()

    def log_tail(self, run_id: str, lines: int) -> list[str]:
        program = self.program(run_id)
        return [program.last_line] if program is not None and program.last_line else []

    def directory(self, run_id: str) -> Path:
        return Path("/sim/runs") / run_id

    def listens(self, run_id: str, port: int) -> bool:
        process = self._world.machine.ports.get(port)
        return process is not None and process.run_id == run_id

    def listener(self, port: int) -> str | None:
        process = self._world.machine.ports.get(port)
        return f"pid {process.pid}" if process is not None else None

    def forget(self, run_id: str) -> None:
        if self.pids(run_id):
            raise ValueError(f"run {run_id} still lives")
        self._entries.pop(run_id, None)
        self._world.checks.forgotten(run_id)
