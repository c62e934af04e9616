"""What the daemon did in its own world, and what a replay of its log would have done: decision by decision."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from headway.core.ledger import Knobs
from headway.core.model import GIB, Event, Form, Policy, ServiceSpec
from headway.core.worth import Costs
from headway.sim.daemons import TABLES
from headway.sim.disk import Disk
from headway.sim.faults import Fault
from headway.sim.play import play
from headway.sim.programs import Habit
from headway.sim.replay.play import play as replayed
from headway.sim.replay.report import Setting, ours
from headway.sim.replay.trace import read
from headway.sim.world import World
from tests.parts.replaying import Remembering, alike

pytestmark = pytest.mark.sim

HOURS = 2.0
LATE_S = 1.5  # a gate that closes, a log that is read, a clock that counts from the answer before


class Talks:
    """One model that sleeps, one job that parks and is not done in time, and a few conversations with pauses of all lengths.

    Without faults everything goes as it should. `policy` is given by the test.
    """

    def __init__(self, seed: int, policy: Policy, busy_s: float) -> None:
        self.world = World(seed)
        self.end_s = self.world.loop.now_s + busy_s
        self._chance = random.Random(seed)
        self.taken: list[Event] = []
        world = self.world
        world.machine.add_card("gpu0", 24 * GIB)
        world.habits["chat"] = Habit(
            bytes_=16 * GIB, residue_bytes=GIB, aside_s=4.0, back_s=1.5, answer_s=2.0
        )
        world.habits["train"] = Habit(bytes_=14 * GIB, aside_s=1.0, back_s=1.0, work_s=HOURS * 3600.0)
        world.policy = replace(policy, max_active_jobs=1)
        world.services = (chat(),)
        told = world.told

        def heard(event: Event) -> None:
            told(event)
            self.taken += [event] if event.code == "gap.taken" else []

        world.told = heard  # type: ignore[method-assign]
        world.start()
        world.loop.later(1.0, self._queue)
        for number in range(3):
            world.loop.later(5.0 + number, self._talk, f"c{number}")

    def _queue(self) -> None:
        options = {"park": ["sim", "park"], "resume": ["sim", "resume"], "min_residency": "0s"}
        body = {"argv": ["train"], "name": "train", "driver": "command", "gpu": 14 * GIB, "options": options}
        self.world.api("POST", "/api/v1/jobs", body, lambda status, reply: None)

    def _talk(self, client: str) -> None:
        """Mostly quick steps, now and then a person who is away for a while."""
        if self.world.loop.now_s >= self.end_s:
            return
        self.world.clients.send("chat", "attended", client)
        chance = self._chance
        pause_s = (
            chance.lognormvariate(1.5, 0.8) if chance.random() < 0.93 else chance.lognormvariate(6.5, 1.0)
        )
        self.world.loop.later(3.0 + pause_s, self._talk, client)


def chat() -> ServiceSpec:
    ladder = ("awake", "asleep", "stopped")
    sizes = (16 * GIB, GIB, 0)
    return ServiceSpec(
        name="chat",
        driver="sleeper",
        forms=tuple(Form(name=name, declared_bytes=size) for name, size in zip(ladder, sizes, strict=True)),
        moves=TABLES["sleeper"],
        argv=("serve", "chat"),
        upstream="http://127.0.0.1:8001",
        models=("chat",),
        min_residency_s=0.0,
    )


def played(seed: int, policy: Policy) -> tuple[list[Event], Disk]:
    """When it took a gap, and what it wrote."""
    stages: list[Talks] = []

    def staged(seed: int, faults: Mapping[str, Fault], busy_s: float) -> Talks:
        stages.append(Talks(seed, policy, busy_s))
        return stages[0]

    result = play(seed, "", HOURS * 3600.0, staged=staged)
    assert result.violations == ()
    return stages[0].taken, stages[0].world.disk


@pytest.mark.parametrize(("wait_price", "gap_min_s"), [(0.5, 0.0), (4.0, 0.0), (0.5, 8.0)])
def test_a_replay_of_the_daemons_own_log_sleeps_when_the_daemon_slept(
    wait_price: float, gap_min_s: float, tmp_path: Path
) -> None:
    """Or else the costs that were measured by then explain it. The caps look at whole hours of the wall clock, which a
    replay counts from its first request: here they are out of reach."""
    knobs = Knobs(wait_price=wait_price, max_mean_wait_s=1e6, max_waiting_share=1.0)
    policy = Policy(wait_price=wait_price, max_mean_wait_s=1e6, max_waiting_share=1.0, gap_min_s=gap_min_s)
    taken, disk = played(7, policy)
    for name, data in disk.logs.items():
        (tmp_path / name).write_bytes(data)
    rows = [json.loads(line) for data in disk.logs.values() for line in data.splitlines()]
    first_s = min(row["at_s"] for row in rows)
    settled = Costs(**taken[-1].facts["costs"])
    told = Remembering(ours(Setting(costs=settled, knobs=knobs, gap_min_s=gap_min_s)))
    replayed(read(tmp_path).requests, told, settled)
    moments = [first_s + at_s for at_s in told.moments]
    other = [one for one in taken if min(abs(one.at_s - at_s) for at_s in moments) > LATE_S]
    assert len(taken) >= 20 and len(moments) == pytest.approx(len(taken), rel=0.15)
    assert len(other) <= 0.25 * len(taken), [(one.at_s, one.facts) for one in other]
    assert [one.at_s for one in other if not alike(one.at_s, one.facts, rows, knobs)] == []
