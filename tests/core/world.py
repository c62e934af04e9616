"""A small false world in virtual time: devices, programs, gates and requests around the pure core.

No loop, no tasks: a heap of (when, what) and a clock. Each turn folds what happened, decides, and starts
what was decided. What the programs really hold is checked after every change; `wrong` lists what must never be.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headway.core import fold, wishes
from headway.core.commands import AddJob, Command, Configure, Reply
from headway.core.decide import decide
from headway.core.draft import Draft
from headway.core.facts import Fact, GateState, MeterSilent, MoveAnswered, Observed, RunSeen
from headway.core.model import (
    Action,
    CloseGate,
    DeviceId,
    Event,
    Exit,
    Job,
    JobSpec,
    Measure,
    Move,
    OpenGate,
    Policy,
    Service,
    ServiceSpec,
    Snapshot,
    Verdict,
    Waiting,
)
from tests.core.make import T0_S, dev, reading

LINK_S = 0.002
METER_S = 0.03
TURNS_AT_ONCE = 60  # more than that without time going on is a loop that feeds itself


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


@dataclass(slots=True)
class Request:
    service: str
    cls: str
    at_s: float
    takes_s: float
    sent_s: float | None = None
    end_s: float | None = None
    how: str = "waiting"  # waiting, sent, answered, broken


@dataclass(slots=True)
class GateDoor:
    """The gates of one service."""

    rev: int = 0
    open: bool = False
    waiting: list[Request] = field(default_factory=list)
    sent: list[Request] = field(default_factory=list)
    last_end_s: float | None = None


class World:
    def __init__(self, devices: dict[str, int], policy: Policy | None = None) -> None:
        self.now_s = T0_S
        self.totals = {dev(name): total for name, total in devices.items()}
        self.names = {dev(name): name for name in devices}
        self.foreign = dict.fromkeys(self.totals, 0)
        self.meter_speaks = True
        self.s = Snapshot(now_s=T0_S, booted_s=T0_S, policy=policy or Policy())
        self.habits: dict[str, Habit] = {}
        self.programs: dict[str, Program] = {}  # the latest run of each holder
        self.leftovers: list[Program] = []  # ended, memory still there
        self.doors: dict[str, GateDoor] = {}
        self.worked_s: dict[str, float] = {}
        self.starts: dict[str, int] = {}
        self.tasks: dict[str, int] = {}  # the number of each holder's latest order
        self.inbox: list[Fact] = []
        self.requests: list[Request] = []
        self.events: list[Event] = []
        self.moves: list[tuple[float, Move]] = []
        self.verdicts: dict[str, Verdict] = {}
        self.wrong: list[str] = []
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._reading_due = False
        self._recheck_at_s: float | None = None
        self._same_time = 0
        self._meter_tick()

    # ------------------------------------------------------------ time

    def later(self, after_s: float, what: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._heap, (self.now_s + after_s, self._number, what))

    def run(self, for_s: float = 60.0, until: Callable[[], bool] | None = None) -> bool:
        """Let time go on, at most `for_s`; with `until` stop when it is true. Returns whether it was."""
        end_s = self.now_s + for_s
        while self.now_s < end_s:
            if until is not None and until():
                return True
            self._step(end_s)
        return until is not None and until()

    def _step(self, end_s: float) -> None:
        next_s = min(self._heap[0][0], end_s)  # the meter's next tick is always there
        if self._recheck_at_s is not None:
            next_s = max(self.now_s, min(next_s, self._recheck_at_s))
        self._same_time = self._same_time + 1 if next_s == self.now_s else 0
        assert self._same_time < TURNS_AT_ONCE, f"no rest at {self.now_s}: {self.moves[-3:]} {self.verdicts}"
        self.now_s = next_s
        while self._heap and self._heap[0][0] <= self.now_s:
            heapq.heappop(self._heap)[2]()
        self.turn()

    def turn(self) -> None:
        draft = Draft(self.s, self.now_s)
        for fact in self.inbox:
            fold.fold(draft, fact)
        self.inbox.clear()
        decision = decide(draft.view())
        fold.decided(draft, decision)
        self.s = draft.done()
        self.events += draft.events
        self.verdicts = dict(decision.verdicts)
        self._recheck_at_s = decision.recheck_at_s
        for action in decision.actions:
            self._act(action)

    def told(self, fact: Fact, after_s: float = 0.0) -> None:
        """A fact that reaches the inbox after a while."""
        if after_s:
            self.later(after_s, lambda: self.inbox.append(fact))
        else:
            self.inbox.append(fact)

    # ------------------------------------------------------------ what tests do

    def command(self, command: Command) -> Reply:
        draft = Draft(self.s, self.now_s)
        reply = wishes.apply(draft, command)
        self.s = draft.done()
        self.events += draft.events
        self._recheck_at_s = self.now_s
        return reply

    def service(self, spec: ServiceSpec, habit: Habit) -> str:
        self.habits[spec.name], self.doors[spec.name] = habit, GateDoor()
        present = tuple(x.spec for sid in self.s.services if (x := self.s.service(sid)))
        self.command(Configure(services=(*present, spec), recipes=()))
        self._observe(spec.name)
        self._tell_gate(spec.name)
        return spec.name

    def job(self, spec: JobSpec, habit: Habit, **given: Any) -> str:
        reply = self.command(AddJob(spec=spec, **given))
        assert reply.accepted and reply.holder, reply
        self.habits[reply.holder] = habit
        return reply.holder

    def ask(self, service: str, after_s: float = 0.0, takes_s: float = 0.5, cls: str = "attended") -> Request:
        request = Request(service=service, cls=cls, at_s=self.now_s + after_s, takes_s=takes_s)
        self.requests.append(request)
        self.later(after_s, lambda: self._arrives(request))
        return request

    def form(self, hid: str) -> str | None:
        return self.s.holders[hid].form

    def ended(self, hid: str) -> str | None:
        job = self.s.holders[hid]
        assert isinstance(job, Job)
        return job.ended

    def codes(self, hid: str | None = None) -> list[str]:
        return [event.code for event in self.events if hid is None or event.holder == hid]

    def first(self, code: str, hid: str) -> float:
        return next(event.at_s for event in self.events if event.code == code and event.holder == hid)

    def used(self, device: DeviceId) -> int:
        ours = [p.held for p in (*self.programs.values(), *self.leftovers) if device in p.devices]
        return self.foreign[device] + sum(ours)

    # ------------------------------------------------------------ meter and probes

    def _meter_tick(self) -> None:
        self._read_devices()
        self.later(1.0, self._meter_tick)

    def _measure(self) -> None:
        if not self._reading_due:
            self._reading_due = True
            self.later(METER_S, self._read_now)

    def _read_now(self) -> None:
        self._reading_due = False
        self._read_devices()

    def _read_devices(self) -> None:
        if not self.meter_speaks:
            return
        for device, total in self.totals.items():
            seen: dict[str, int] = {}
            everybody = [*self.programs.values(), *self.leftovers]
            for program in everybody:
                if device in program.devices and program.held:
                    hid = program.run_id.rsplit(".", 1)[0]
                    seen[hid] = seen.get(hid, 0) + program.held
            gib = total / (1 << 30)
            self.told(reading(self.names[device], gib, self.now_s, seen, self.foreign[device]), METER_S / 2)

    def silence_meter(self) -> None:
        self.meter_speaks = False
        self.told(MeterSilent(trouble="hangs"))

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

    # ------------------------------------------------------------ gates and requests

    def _arrives(self, request: Request) -> None:
        door = self.doors[request.service]
        if door.open:
            self._send(request)
        else:
            door.waiting.append(request)
        self._tell_gate(request.service)

    def _send(self, request: Request) -> None:
        program, door = self.programs.get(request.service), self.doors[request.service]
        if program is None or not program.alive or program.form != "awake":
            if program is not None and program.alive:
                self.wrong.append(f"{self.now_s}: {request.service} asked while {program.form}")
            door.waiting.insert(0, request)  # nothing was sent: back to the head of its queue
            return
        request.sent_s, request.how = self.now_s, "sent"
        door.sent.append(request)
        self.later(request.takes_s, lambda: self._ends(request, "answered"))

    def _ends(self, request: Request, how: str) -> None:
        door = self.doors[request.service]
        if request not in door.sent:
            return
        door.sent.remove(request)
        request.end_s, request.how = self.now_s, how
        if request.cls == "attended":
            door.last_end_s = self.now_s
        self._tell_gate(request.service)

    def _tell_gate(self, sid: str) -> None:
        door = self.doors[sid]
        demand: dict[str, Waiting] = {}
        for request in door.waiting:
            before = demand.get(request.cls)
            since_s = min(request.at_s, before.since_s) if before else request.at_s
            demand[request.cls] = Waiting(n=(before.n if before else 0) + 1, since_s=since_s)
        state = GateState(
            service=sid,
            rev=door.rev,
            closed=not door.open,
            pinning=len(door.sent),
            active=len(door.sent),
            demand=demand,
            last_end_s=door.last_end_s,
        )
        self.told(state, LINK_S)

    def _order_gate(self, sid: str, rev: int, open_: bool) -> None:
        door = self.doors[sid]
        door.rev, door.open = rev, open_
        if open_:
            waiting, door.waiting = door.waiting, []
            for request in waiting:
                self._send(request)
        self._tell_gate(sid)

    # ------------------------------------------------------------ moves

    def _act(self, action: Action) -> None:
        match action:
            case Measure():
                self._measure()
            case OpenGate() | CloseGate():
                service = self.s.holders[action.holder]
                assert isinstance(service, Service)
                rev, open_ = service.gate.rev, isinstance(action, OpenGate)
                self.later(LINK_S, lambda: self._order_gate(service.id, rev, open_))
            case Move():
                self.moves.append((self.now_s, action))
                self.tasks[action.holder] = self.tasks.get(action.holder, 0) + 1
                self._begin(action, self.tasks[action.holder])
            case _:
                self.wrong.append(f"{self.now_s}: unexpected {action}")

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

    # ------------------------------------------------------------ programs

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
