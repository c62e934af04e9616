"""The processes of the false world, and drivers that are perfect, late, lying or hanging."""

from __future__ import annotations

from dataclasses import dataclass

from headway.core.facts import MoveAnswered, Observed, RunSeen
from headway.core.model import DeviceId, Exit, Job, Move, Policy
from tests.core.doors import Doors
from tests.core.timeline import LINK_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """How the program behind a holder, and its driver, behave. Bytes are per device."""

    bytes_: int = 0
    residue: int = 0
    start_s: float = 1.0  # until a start is answered
    back_s: float = 0.5  # until a wake or resume is answered
    aside_s: float = 0.3  # until a sleep or park is answered
    stop_s: float = 0.2  # until a stop has ended the process
    falls_s: float = 0.0  # memory falls that long after the answer, or after the process ended
    alloc_s: float = 0.0  # memory is taken that long after the start
    keeps: bool = False  # says that it stepped aside and keeps all its memory
    survives_stop: bool = False  # a stop is answered, and something of it lives until it is killed
    runs_s: float = 1e9  # of running, over all runs; then it exits
    code: int = 0
    failing_starts: int = 0
    hanging: tuple[str, ...] = ()  # forms that it is never seen to reach


@dataclass(slots=True)
class Program:
    """One process tree."""

    run_id: str
    devices: tuple[DeviceId, ...]
    form: str
    held: int = 0  # bytes on each of its devices
    alive: bool = True
    running_since_s: float | None = None


class Programs(Doors):
    """What moves do to processes, and what of it is told. What they hold is checked after every change."""

    def __init__(self, devices: dict[str, int], policy: Policy | None = None) -> None:
        super().__init__(devices, policy)
        self.habits: dict[str, Habit] = {}
        self.programs: dict[str, Program] = {}  # the latest run of each holder
        self.leftovers: list[Program] = []  # ended, memory still there
        self.worked_s: dict[str, float] = {}
        self.starts: dict[str, int] = {}
        self.tasks: dict[str, int] = {}  # the number of each holder's latest order

    def server(self, sid: str) -> str | None:
        program = self.programs.get(sid)
        return program.form if program is not None and program.alive else None

    def seen(self, device: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for program in (*self.programs.values(), *self.leftovers):
            if device in program.devices and program.held:
                hid = program.run_id.rsplit(".", 1)[0]
                found[hid] = found.get(hid, 0) + program.held
        return found

    def used(self, device: DeviceId) -> int:
        return self.foreign[device] + sum(self.seen(device).values())

    def begin(self, move: Move) -> None:
        """A driver is asked for a move; an order before it for the same holder is given up."""
        self.tasks[move.holder] = self.tasks.get(move.holder, 0) + 1
        self._begin(move, self.tasks[move.holder])

    def _observe(self, sid: str) -> None:
        """A probe each second, as the daemon's polls."""
        program, door = self.programs.get(sid), self.doors[sid]
        down = program is None or not program.alive
        form = "stopped" if program is None or down else program.form
        fact = Observed(
            holder=sid,
            at_s=self.now_s,
            form=None if form == "loading" else form,
            ready=form == "awake",
            engine_active=len(door.sent) if form == "awake" else None,
            upstream=f"http://{program.run_id}" if program and not down else None,
            down=down,
        )
        self.told(fact, LINK_S)
        self.later(1.0, lambda: self._observe(sid))

    def _begin(self, move: Move, task: int) -> None:
        habit, program = self.habits[move.holder], self.programs.get(move.holder)
        if move.form in habit.hanging and not move.kill:
            return
        if move.creates:
            self._start(move, task)
        elif program is None or not program.alive:
            self._answer(move, task, 0.0)
        elif move.form == self.s.holders[move.holder].bottom:
            self._stop(move, task, program)
        elif move.frees:
            self._pauses(move.holder, program)
            self.later(habit.aside_s, lambda: self._aside(move, task, program))
        else:
            self.later(habit.back_s / 2, lambda: self._hold(program, habit.bytes_))
            self.later(habit.back_s, lambda: self._arrived(move, task, program))

    def _start(self, move: Move, task: int) -> None:
        habit, hid = self.habits[move.holder], move.holder
        assert move.run_id is not None
        before = self.programs.get(hid)
        if before is not None and before.alive:
            self.wrong.append(f"{self.now_s}: a second copy of {hid}")
        if before is not None and before.held:
            self.leftovers.append(before)
        self.starts[hid] = self.starts.get(hid, 0) + 1
        program = Program(run_id=move.run_id, devices=move.devices, form="loading")
        self.programs[hid] = program
        self.told(RunSeen(holder=hid, run_id=move.run_id, lock_held=True, pid=4711), LINK_S)
        if self.starts[hid] <= habit.failing_starts:
            self.later(habit.start_s, lambda: self._answer(move, task, 0.0, "exited"))
            self.later(habit.start_s, lambda: self._dies(hid, program, 1))
            return
        self.later(habit.alloc_s, lambda: self._takes(hid, program))
        self.later(habit.start_s, lambda: self._arrived(move, task, program))
        if isinstance(self.s.holders[hid], Job):
            self._works(hid, program)

    def _arrived(self, move: Move, task: int, program: Program) -> None:
        if self.tasks[move.holder] != task or not program.alive:
            return
        waking = program.form != "loading"
        program.form = move.form
        if waking and isinstance(self.s.holders[move.holder], Job):
            self._works(move.holder, program)
        self._answer(move, task, 0.0)

    def _aside(self, move: Move, task: int, program: Program) -> None:
        if self.tasks[move.holder] != task or not program.alive:
            return
        habit = self.habits[move.holder]
        program.form = move.form
        if not habit.keeps:
            self.later(habit.falls_s, lambda: self._hold(program, habit.residue))
        self._answer(move, task, 0.0)

    def _stop(self, move: Move, task: int, program: Program) -> None:
        habit = self.habits[move.holder]
        self._pauses(move.holder, program)
        after_s = 0.05 if move.kill else habit.stop_s
        if habit.survives_stop and not move.kill:
            self._answer(move, task, after_s)
            return
        self.later(after_s, lambda: self._dies(move.holder, program, -9 if move.kill else -15))
        self._answer(move, task, after_s + 0.01)

    def _answer(self, move: Move, task: int, after_s: float, error: str | None = None) -> None:
        def answer() -> None:
            if self.tasks[move.holder] == task:
                upstream = f"http://{move.run_id}" if move.form == "awake" else None
                fact = MoveAnswered(
                    holder=move.holder, to=move.form, run_id=move.run_id, error=error, upstream=upstream
                )
                self.told(fact)
                self._measure()

        self.later(after_s, answer)

    def _hold(self, program: Program, bytes_: int) -> None:
        if not program.alive and bytes_:
            return
        program.held = bytes_
        for device, total in self.totals.items():
            if (used := self.used(device)) > total:
                self.wrong.append(
                    f"{self.now_s}: {device} holds {used} of {total}, {program.run_id} was last"
                )

    def _takes(self, hid: str, program: Program) -> None:
        """What a program takes late after its start, unless it was told to step aside before."""
        top = self.s.holders[hid].top
        if program.form in ("loading", top):
            self._hold(program, self.habits[hid].bytes_)

    def _works(self, hid: str, program: Program) -> None:
        program.running_since_s = self.now_s
        left_s = self.habits[hid].runs_s - self.worked_s.get(hid, 0.0)

        def over() -> None:
            since_s = program.running_since_s
            if program.alive and since_s is not None and self.now_s - since_s >= left_s - 1e-6:
                self._pauses(hid, program)
                self._dies(hid, program, self.habits[hid].code)

        self.later(max(0.0, left_s), over)

    def _pauses(self, hid: str, program: Program) -> None:
        if program.running_since_s is not None:
            self.worked_s[hid] = self.worked_s.get(hid, 0.0) + self.now_s - program.running_since_s
            program.running_since_s = None

    def dies(self, hid: str, code: int = -9) -> None:
        """Kill it from outside."""
        self._dies(hid, self.programs[hid], code)

    def _dies(self, hid: str, program: Program, code: int) -> None:
        if not program.alive:
            return
        program.alive = False
        for request in list(self.doors[hid].sent) if hid in self.doors else ():
            self._ends(request, "broken")
        self.later(self.habits[hid].falls_s, lambda: self._hold(program, 0))
        exit_ = Exit(code=code, at_s=self.now_s)
        seen = RunSeen(holder=hid, run_id=program.run_id, lock_held=False, pid=4711, exit=exit_, gone=True)
        self.told(seen, LINK_S)
        self._measure()
