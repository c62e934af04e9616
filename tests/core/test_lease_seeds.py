"""Programs that ask, take, leave and die beside a model and jobs: never too much on a device, and everybody's turn comes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from headway.core.model import Lease
from tests.core.lease_world import LeaseWorld
from tests.core.make import gib, job_spec, service_spec
from tests.core.programs import Habit

pytestmark = pytest.mark.core

SIZES: tuple[float | None, ...] = (2, 8, 12, 20, None)


def living(world: LeaseWorld, lid: str, dice: random.Random) -> Callable[[], None]:
    """A program: once it is granted it takes its memory late, and some time later ends in one way or another."""
    size = world.of(lid).need_bytes("granted")
    takes = gib(4) if size is None else size
    state = {"took": False}

    def step() -> None:
        lease = world.of(lid)
        leaving = lid in world.s.pending and world.s.pending[lid].frees
        if lease.ended is not None:
            return
        if lease.form == "granted" and not state["took"]:
            state["took"] = True
            world.takes(lid, takes / gib(1))
        elif (leaving and dice.random() < 0.5) or (state["took"] and dice.random() < 0.05):
            (world.releases if dice.random() < 0.5 else world.exits)(lid)
            return
        world.later(dice.choice([0.5, 2.0]), step)

    return step


@pytest.mark.parametrize("seed", range(6))
def test_programs_beside_a_model_and_jobs(seed: int) -> None:
    dice = random.Random(seed)
    world = LeaseWorld({"gpu0": gib(24), "gpu1": gib(24)})
    world.service(service_spec(awake=16), Habit(bytes_=gib(16), falls_s=0.2))
    jobs = [
        world.job(job_spec(f"n{n}", 12, parked=0.5), Habit(bytes_=gib(12), residue=gib(0.4), runs_s=20.0))
        for n in range(4)
    ]
    asked: list[str] = []

    def somebody_asks() -> None:
        lid = world.lease(
            dice.choice(SIZES),
            pid=5000 + len(asked),
            count=dice.choice([1, 1, 2]),
            preemptible=dice.random() < 0.5,
            priority=dice.choice([40, 50, 60]),
            ttl_s=dice.choice([None, 30.0]),
            wait_limit_s=dice.choice([None, None, 0.0, 20.0]),
        )
        asked.append(lid)
        world.later(dice.choice([0.01, 1.0]), living(world, lid, dice))

    for n in range(25):
        world.later(n * 8.0 + dice.random(), somebody_asks)
        world.ask("chat", after_s=n * 11.0 + dice.random())
    world.run(300.0)

    def at_rest() -> bool:
        here = [lease for h in asked if isinstance(lease := world.s.holders.get(h), Lease)]
        answered = all(request.how == "answered" for request in world.requests)
        return answered and all(lease.ended for lease in here) and all(world.ended(j) == "done" for j in jobs)

    assert world.run(1500.0, at_rest), world.verdicts
    assert not world.wrong
    assert "lease.granted" in world.codes()
    assert world.run(60.0, lambda: not world.s.pending)
