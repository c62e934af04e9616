"""A small false world in virtual time: devices, programs, gates and requests around the pure core.

No loop, no tasks: a heap of (when, what) and a clock. Each turn folds what happened, decides, and starts
what was decided. `wrong` lists what must never be and was.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from headway.core import fold, wishes
from headway.core.commands import AddJob, Command, Configure, Reply
from headway.core.decide import decide
from headway.core.draft import Draft
from headway.core.model import (
    Action,
    CloseGate,
    Event,
    Job,
    JobSpec,
    Measure,
    Move,
    OpenGate,
    Policy,
    Service,
    ServiceSpec,
    Signal,
    Verdict,
)
from tests.core.doors import GateDoor
from tests.core.make import expected
from tests.core.programs import Habit as Habit
from tests.core.programs import Programs
from tests.core.timeline import LINK_S

TURNS_AT_ONCE = 60  # more than that without time going on is a loop that feeds itself


class World(Programs):
    def __init__(self, devices: dict[str, int], policy: Policy | None = None) -> None:
        super().__init__(devices, policy)
        self.events: list[Event] = []
        self.moves: list[tuple[float, Move]] = []
        self.verdicts: dict[str, Verdict] = {}
        self._frozen: set[str] = set()
        self._recheck_at_s: float | None = None
        self._same_time = 0
        self._meter_tick()

    # ------------------------------------------------------------ time

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
        draft.set(outlooks=expected(draft.view()).outlooks)
        decision = decide(draft.view())
        fold.decided(draft, decision)
        self.s = draft.done()
        self.events += draft.events
        self.verdicts = dict(decision.verdicts)
        self._recheck_at_s = decision.recheck_at_s
        for action in decision.actions:
            self._act(action)

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
                self.begin(action)
            case Signal():
                (self._frozen.add if action.what == "freeze" else self._frozen.discard)(action.holder)
            case _:
                self.wrong.append(f"{self.now_s}: unexpected {action}")

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

    def form(self, hid: str) -> str | None:
        return self.s.holders[hid].form

    def frozen(self, hid: str) -> bool:
        return hid in self._frozen

    def ended(self, hid: str) -> str | None:
        job = self.s.holders[hid]
        assert isinstance(job, Job)
        return job.ended

    def codes(self, hid: str | None = None) -> list[str]:
        return [event.code for event in self.events if hid is None or event.holder == hid]

    def first(self, code: str, hid: str) -> float:
        return next(event.at_s for event in self.events if event.code == code and event.holder == hid)
