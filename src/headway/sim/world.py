"""A whole false machine with a real Headway on it, in virtual time: everything a seed decides begins here."""

from __future__ import annotations

import hashlib
import random
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC
from typing import Any

from headway.config.calendar import Calendar
from headway.core.facts import JobTold
from headway.core.model import Decision, Event, Job, Move, Policy, ServiceSpec, Snapshot, Verdict
from headway.ports import Runs
from headway.sim.checks import Checks
from headway.sim.clients import Clients
from headway.sim.daemons import Answered, SimDaemon
from headway.sim.disk import Disk
from headway.sim.door import Door
from headway.sim.endings import Endings
from headway.sim.gates import SimGate
from headway.sim.loop import SimLoop
from headway.sim.machine import Machine
from headway.sim.programs import Habit, HandServer, JobProgram, Program, Server, Work
from headway.sim.runs import SimRuns
from headway.sim.supervisor import Supervisor
from headway.sim.visitors import Visitors
from headway.sim.wires import End, Wire

TRACE_LINES = 200  # kept for people; the digest is over all


class World:
    """Everything there is, and what came of it.

    Args:
        seed: decides everything, together with what is added to the world.
        pace: how many times slower than in life the polls and pings of all processes are.
    """

    def __init__(self, seed: int, pace: float = 1.0) -> None:
        self.seed, self.pace = seed, pace
        self.chance = random.Random(seed)
        self.loop = SimLoop(lambda: self.chance.uniform(0.001, 0.004))
        self.seen: Counter[str] = Counter()
        self.last: deque[str] = deque(maxlen=TRACE_LINES)
        self._digest = hashlib.sha256()
        self.violations: list[str] = []
        self.over = False
        self.machine = Machine(self.loop.time, self.wrong)
        self.disk = Disk()
        self.runs: SimRuns = SimRuns(self)
        self.checks = Checks(self)
        self.endings = Endings(self)
        self.clients = Clients(self)
        self.visitors = Visitors(self)
        self.servers: dict[int, Server] = {}  # by port
        self.by_hand: dict[str, HandServer] = {}
        self.habits: dict[str, Habit] = {}
        self.healthy: dict[tuple[int, str], object] = {}  # what faults changed of a habit, as it was before
        self.work: dict[str, Work] = {}
        self.services: tuple[ServiceSpec, ...] = ()
        self.away: set[str] = set()  # names of services that the config does not have just now
        self.recipes: tuple[tuple[Any, bool], ...] = ()
        self.policy = Policy()
        self.calendar = Calendar((), UTC)  # a zone of its own: a seed is the same everywhere
        self.metering = "measured"
        self.meter_mode = "ok"
        self.wall_offset_s = 1.7e9
        self.supervisor = Supervisor(self)
        self.door = Door(self)
        self.daemon: SimDaemon | None = None
        self.listening: SimDaemon | None = None
        self.gates: dict[str, SimGate] = {}
        self._wounds: dict[int, Callable[[], None]] = {}
        self._wound = 0

    # ---------------------------------------------------------------- what happened

    def wrong(self, sentence: str) -> None:
        """Something that must never be."""
        if self.over:
            return  # what the burial of the dead stirs up
        self.violations.append(f"t={self.loop.now_s:.3f} {sentence}")
        self.trace(f"WRONG {sentence}")

    def trace(self, line: str) -> None:
        text = f"{self.loop.now_s:.6f} {line}"
        self.last.append(text)
        self._digest.update(text.encode() + b"\n")

    def digest(self) -> str:
        return self._digest.hexdigest()

    def told(self, event: Event) -> None:
        """The daemon noted an event."""
        self.seen[f"event {event.code}"] += 1
        facts = {k: round(v, 6) if isinstance(v, float) else v for k, v in sorted(event.facts.items())}
        self.trace(f"{event.code} {event.holder} {facts}")
        self.checks.event(event)
        if event.code == "daemon.crash_loop":
            self.until_healed(self.chance.uniform(20.0, 200.0), self.door.release_queue)

    def turned(self, s: Snapshot, decision: Decision) -> None:
        """The daemon decided."""
        for verdict in decision.verdicts.values():
            self.seen[f"verdict {verdict.code}"] += 1
        for action in decision.actions:
            what = type(action).__name__
            if isinstance(action, Move):
                holder = s.holders[action.holder]
                source = s.pending[action.holder].source
                what = f"{holder.spec.driver}:{source}>{action.form}"
                self.seen["moves"] += 1
            self.seen[f"action {what}"] += 1
        self.checks.turn(s, decision)

    # ---------------------------------------------------------------- processes

    def start(self) -> None:
        """The supervisor comes up."""
        self.supervisor.start()

    def accepting_gate(self) -> SimGate | None:
        return next((gate for gate in self.gates.values() if gate.accepting), None)

    def connect(self, end: End) -> Wire | None:
        """A gate asks for a connection to the daemon; None: nobody listens."""
        return self.listening.accept(end) if self.listening is not None else None

    def api(self, verb: str, path: str, body: dict[str, Any] | None, answered: Answered) -> None:
        """One call of the API; see Door.ask."""
        self.door.ask(verb, path, body, answered)

    # ---------------------------------------------------------------- faults end

    def until_healed(self, after_s: float, over: Callable[[], None]) -> None:
        """End a fault then, or when the world is healed, whichever comes first."""
        self._wounds[self._wound] = over
        self.loop.later(after_s, self._end_wound, self._wound)
        self._wound += 1

    def _end_wound(self, number: int) -> None:
        if (over := self._wounds.pop(number, None)) is not None:
            over()

    def heal(self) -> None:
        """Every fault ends now."""
        for number in sorted(self._wounds):
            self._end_wound(number)
        self.disk.hangs_until_s = 0.0
        self.calendar = Calendar((), UTC)  # what comes again and again would never come to rest
        # a promise that is used up would keep jobs waiting for a day
        self.policy = replace(self.policy, wait_price=0.0, max_mean_wait_s=1e6, max_waiting_share=1.0)
        self.door.apply()

    # ---------------------------------------------------------------- programs

    def habit(self, holder: str) -> Habit:
        """Of a service by its name, of a job by its id; a job's is found by its name when it first runs."""
        if holder not in self.habits:
            s = self.snapshot()
            name = s.holders[holder].spec.name if s is not None and holder in s.holders else holder
            self.habits[holder] = self.habits.get(name, Habit())
        return self.habits[holder]

    def snapshot(self) -> Snapshot | None:
        return self.daemon.daemon.hub.snapshot if self.daemon is not None and self.daemon.daemon else None

    def verdicts(self) -> Mapping[str, Verdict]:
        return self.daemon.daemon.hub.verdicts if self.daemon is not None and self.daemon.daemon else {}

    def server_at(self, upstream: str | None) -> Server | None:
        port = (upstream or "").rpartition(":")[2]
        return self.servers.get(int(port)) if port.isdigit() else None

    def server_of(self, service: str) -> Server | None:
        found = (p for p in self.runs.living() if isinstance(p, Server) and p.spec.holder == service)
        return next(found, None)

    async def job_says(self, job: Job) -> JobTold:
        """What the job's own commands would print."""
        program: Program | None = self.runs.program(job.run.id) if job.run else None
        if not isinstance(program, JobProgram) or not program.alive:
            return JobTold(job=job.id)
        done_s, habit = program.progress_s(), program.habit
        silent = habit.silent_after_s is not None and self.loop.now_s - program.began_s > habit.silent_after_s
        saved_s, saves = program.work.saved_s, bool(habit.save_every_s) and not silent
        return JobTold(
            job=job.id,
            progress=None if silent else min(1.0, done_s / habit.work_s),
            saved_point=f"{saved_s:g}" if saves and saved_s else None,
            saved_age_s=done_s - saved_s if saves else None,
            summary=f"{done_s:.0f} s" if job.spec.summary else None,
            healthy=habit.healthy if job.spec.health else None,
            busy_s=program.busy_s() if job.spec.stall_after_s is not None else None,
        )


def _is_runs(runs: SimRuns) -> Runs:
    return runs  # the type checker holds the false runs to the port
