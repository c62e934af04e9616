"""The world of `make demo` as a scenario: one model server, a render that parks and a training that restarts.

Any two of them are too much for the one card. Without faults everything goes as it should, an hour in a second or two.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.core.model import GIB, Form, Job, Policy, ServiceSpec
from headway.sim.clients import Request
from headway.sim.daemons import TABLES
from headway.sim.faults import Fault, strike
from headway.sim.programs import Habit
from headway.sim.world import World

TOTAL_BYTES, CHAT_BYTES, RENDER_BYTES, TRAIN_BYTES = 24 * GIB, 16 * GIB, 12 * GIB, 14 * GIB
AT_ONCE = 4
TURNS = 2  # further requests after the burst, one at a time
PAUSE_S = 0.3
LET_RUN_S = 1.5  # a job has had the card this long when the next burst comes
LONGEST_QUIET_S = 10.0
AGAIN_S = 6.0  # after a job is done, the next of its kind is queued
LOOK_S = 0.25
FAULT_EVERY_S = 70.0
HABITS = {
    "chat": Habit(bytes_=CHAT_BYTES, start_s=0.3, alloc_s=0.1, stop_s=0.1, answer_s=0.4),
    "render": Habit(bytes_=RENDER_BYTES, alloc_s=0.1, aside_s=0.2, back_s=0.2, stop_s=0.1, work_s=3.0),
    "train": Habit(bytes_=TRAIN_BYTES, alloc_s=0.1, stop_s=0.1, work_s=500.0, save_every_s=0.5),
}
JOBS: Mapping[str, dict[str, Any]] = {
    "render": {
        "driver": "command",
        "gpu": RENDER_BYTES,
        "priority": 80,
        "options": {
            "park": ["sim", "park"],
            "resume": ["sim", "resume"],
            "min_residency": "1s",
            "goal": "thirty frames; goes on where it stood",
        },
    },
    "train": {
        "gpu": TRAIN_BYTES,
        "options": {
            "saved": ["sim", "saved"],
            "min_residency": "1s",
            "goal": "restarts from its saved point",
        },
    },
}


class Demo:
    """The demo's world, with its people and jobs, busy until `end_s`."""

    def __init__(self, seed: int, faults: Mapping[str, Fault], busy_s: float) -> None:
        self.world = World(seed)
        self.end_s = self.world.loop.now_s + busy_s
        self._chance, self._faults = random.Random(seed * 2 + 1), faults
        self._burst: list[Request] = []
        self._turns = 0
        self._quiet_since_s = self.world.loop.now_s
        self.world.machine.add_card("sim0", TOTAL_BYTES)
        self.world.habits |= {name: replace(habit) for name, habit in HABITS.items()}
        self.world.policy = Policy(
            max_active_jobs=1,
            gap_min_s=1.0,
            wait_price=0.0,
            max_mean_wait_s=1e6,
            max_waiting_share=1.0,
            reserve_max_bytes=GIB,
        )
        self.world.services = (_chat(),)
        self.world.start()
        for name in JOBS:
            self.world.loop.later(1.0, self._queue, name)
        self.world.loop.later(2.0, self._people)
        if faults:
            self.world.loop.later(self._chance.expovariate(1 / FAULT_EVERY_S), self._fault)

    # ---------------------------------------------------------------- jobs

    def _queue(self, name: str) -> None:
        """Add one; somebody who gets no answer tries again."""
        if not self._busy():
            return

        def answered(status: int, reply: dict[str, Any]) -> None:
            if status == 202:
                self.world.checks.accepted(str(reply["id"]))
                self._wait(name, str(reply["id"]))
            elif status in (0, 503):
                self.world.loop.later(AGAIN_S, self._queue, name)
            else:
                self.world.wrong(f"{name} cannot be queued: {reply}")

        body = {"argv": [name], "name": name, "placement": "gap", **JOBS[name]}
        self.world.api("POST", "/api/v1/jobs", body, answered)

    def _wait(self, name: str, job: str) -> None:
        """When it is over, somebody wants the next."""
        s = self.world.snapshot()
        holder = s.holders.get(job) if s is not None else None
        if isinstance(holder, Job) and holder.ended is not None:
            self.world.loop.later(AGAIN_S, self._queue, name)
        else:
            self.world.loop.later(1.0, self._wait, name, job)

    # ---------------------------------------------------------------- people

    def _people(self) -> None:
        """Ask several at once, then one after the other, then be quiet until a job had its turn."""
        if not self._busy():
            return
        now_s = self.world.loop.now_s
        if any(request.outcome is None for request in self._burst):
            wait_s = LOOK_S
        elif self._burst and self._turns:
            self._turns -= 1
            self._ask(1)
            wait_s = PAUSE_S
        elif self._burst:
            self._burst, self._quiet_since_s, wait_s = [], now_s, LOOK_S
        elif now_s - self._quiet_since_s >= LONGEST_QUIET_S or self._job_ran_s() >= LET_RUN_S:
            self._turns, wait_s = TURNS, PAUSE_S
            self._ask(AT_ONCE)
        else:
            wait_s = LOOK_S
        self.world.loop.later(wait_s, self._people)

    def _ask(self, count: int) -> None:
        self._burst += [self.world.clients.send("chat", "attended", "people") for _ in range(count)]

    def _job_ran_s(self) -> float:
        """How long the job that has the card has had it; 0 when none has."""
        s = self.world.snapshot()
        present = (s.holders[hid] for hid in s.present if hid not in s.pending) if s is not None else ()
        there = (h for h in present if isinstance(h, Job) and h.form == h.top)
        return max((self.world.loop.now_s - job.since_s for job in there), default=0.0)

    # ---------------------------------------------------------------- what goes wrong

    def _fault(self) -> None:
        if self._busy():
            strike(self.world, self._chance.choice(list(self._faults)))
            self.world.loop.later(self._chance.expovariate(1 / FAULT_EVERY_S), self._fault)

    def _busy(self) -> bool:
        return self.world.loop.now_s < self.end_s


def _chat() -> ServiceSpec:
    return ServiceSpec(
        name="chat",
        driver="process",
        forms=(Form(name="awake", declared_bytes=CHAT_BYTES), Form(name="stopped", declared_bytes=0)),
        moves=TABLES["process"],
        argv=("serve", "chat"),
        upstream="http://127.0.0.1:8001",
        models=("chat",),
        min_residency_s=1.0,
    )
