"""Random worlds, each made from its seed: late and lying programs, deaths, people's verbs. What must hold in all."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from headway.core.commands import SetWish
from headway.core.model import Job, Policy
from tests.core.make import gib, job_spec, service_spec
from tests.core.world import Habit, World

pytestmark = pytest.mark.core

SEEDS = int(os.environ.get("HEADWAY_SEEDS", "100"))
GROUP = 20
VERBS: tuple[Any, ...] = ("hold", "release", "pause", "resume", "stop", "kill", "cancel", "wind_down")


def random_world(rnd: random.Random) -> World:
    sizes = [rnd.choice((16, 24, 48)) for _ in range(rnd.choice((1, 1, 1, 2, 3)))]
    policy = Policy(
        max_active_jobs=rnd.choice((None, None, 1, 4, 40)),
        switch_after_s={"attended": rnd.choice((1.0, 30.0)), "background": 60.0},
        background_max_wait_s=90.0,
    )
    world = World({f"gpu{n}": gib(size) for n, size in enumerate(sizes)}, policy)
    for number in range(rnd.choice((0, 1, 1, 2, 3))):
        add_service(world, rnd, f"s{number}", min(sizes), len(sizes))
    for number in range(rnd.randrange(7)):
        add_job(world, rnd, f"j{number}", sizes)
    return world


def lateness(rnd: random.Random) -> float:
    return rnd.choice((0.0, 0.0, 0.3, 2.0, 6.0))


def add_service(world: World, rnd: random.Random, name: str, smallest: int, devices: int) -> None:
    top = rnd.choice((0.2, 0.5, 0.7, 0.95)) * smallest
    sleeps = rnd.random() < 0.5
    spec = service_spec(
        name,
        None if rnd.random() < 0.15 else top,
        0.03 * smallest if sleeps else None,
        count=2 if devices > 1 and rnd.random() < 0.25 else 1,
        min_residency_s=rnd.choice((0.2, 10.0)),
        reads_busy=rnd.random() < 0.3,
        keep_awake=rnd.random() < 0.2,
        idle_ttl_s=rnd.choice((None, None, 20.0)),
        wake_limit_s=30.0,
    )
    habit = Habit(
        bytes_=gib(top),
        residue=gib(0.03 * smallest) if sleeps else 0,
        start_s=rnd.choice((0.1, 1.0, 5.0)),
        falls_s=lateness(rnd),
        alloc_s=rnd.choice((0.0, 0.05)),
        keeps=rnd.random() < 0.1,
        survives_stop=rnd.random() < 0.1,
        failing_starts=rnd.choice((0, 0, 0, 1, 3)),
    )
    world.service(spec, habit)


def add_job(world: World, rnd: random.Random, name: str, sizes: list[int]) -> str:
    unknown = rnd.random() < 0.1  # goes to any device, so it is no larger than the smallest
    largest = min(sizes) if unknown else max(sizes)
    top = rnd.choice((0.1, 0.2, 0.5, 0.8, 0.95)) * largest
    parks = rnd.random() < 0.5
    spec = job_spec(
        name,
        None if unknown else top,
        0.02 * largest if parks else None,
        placement=rnd.choice(("gap", "gap", "share")),
        priority=rnd.choice((20, 50, 80)),
        count=rnd.choice((0, 1, 1, 1, 1, 1)),
        saved=("saved",) if rnd.random() < 0.5 else (),
        min_residency_s=rnd.choice((1.0, 60.0)),
        retries=rnd.choice((0, 2)),
    )
    habit = Habit(
        bytes_=gib(top) if spec.count else 0,
        residue=gib(0.02 * largest) if parks and spec.count else 0,
        start_s=0.1,
        runs_s=rnd.choice((0.05, 5.0, 30.0)),
        alloc_s=lateness(rnd),
        falls_s=lateness(rnd),
        code=rnd.choice((0, 0, 0, 1)),
        failing_starts=rnd.choice((0, 0, 0, 0, 2)),
        keeps=rnd.random() < 0.1,
        survives_stop=rnd.random() < 0.1,
    )
    return world.job(spec, habit, hold=rnd.random() < 0.1)


def trouble(world: World, rnd: random.Random) -> None:
    """A minute of requests, deaths and verbs at random moments."""
    services = list(world.s.services)
    for _ in range(rnd.randrange(25) if services else 0):
        cls = rnd.choice(("attended", "attended", "attended", "background"))
        world.ask(rnd.choice(services), rnd.uniform(0, 60), rnd.choice((0.05, 1.0, 8.0)), cls)
    for _ in range(rnd.randrange(4)):
        world.later(rnd.uniform(0, 60), lambda: somebody_dies(world, rnd))
    for _ in range(rnd.randrange(8)):
        world.later(rnd.uniform(0, 60), lambda: somebody_asks(world, rnd))
    world.run(61)


def somebody_dies(world: World, rnd: random.Random) -> None:
    if alive := sorted(hid for hid, program in world.programs.items() if program.alive):
        world.dies(rnd.choice(alive))


def somebody_asks(world: World, rnd: random.Random) -> None:
    if world.s.holders:
        target = rnd.choice(sorted(world.s.holders))
        world.command(SetWish(target=target, verb=rnd.choice(VERBS)))


def calm(world: World) -> bool:
    """Nobody meddles any more: everything that was held is let go, and all of it comes to its end."""
    for hid, holder in sorted(world.s.holders.items()):
        if holder.wish != "cancel":
            world.command(SetWish(target=hid, verb="release"))

    def over() -> bool:
        jobs = [
            h for h in world.s.holders.values() if isinstance(h, Job) and h.wish != "hold" and not h.ended
        ]
        stuck = [job for job in jobs if not waits_for_a_model_to_leave(world, job)]
        return not stuck and all(r.how in ("answered", "broken") for r in world.requests)

    return world.run(1500, over)


def waits_for_a_model_to_leave(world: World, job: Job) -> bool:
    """One that shares never pushes a model: beside one that it does not fit it waits for ever."""
    no = world.verdicts.get(job.id)
    return job.spec.placement == "share" and no is not None and no.code == "beside_only"


def story(world: World) -> str:
    lines = [f"{e.at_s:.2f} {e.code} {e.holder} {dict(e.facts)}" for e in world.events[-60:]]
    return "\n".join([*lines, str(world.now_s), str(world.verdicts), str(world.s.pending), str(world.wrong)])


@pytest.mark.parametrize("group", range(SEEDS // GROUP))
def test_in_random_worlds_nothing_is_overcommitted_and_everything_comes_to_its_end(group: int) -> None:
    for seed in range(group * GROUP, group * GROUP + GROUP):
        rnd = random.Random(seed)
        world = random_world(rnd)
        trouble(world, rnd)
        assert calm(world), f"seed {seed}\n{story(world)}"
        assert world.wrong == [], f"seed {seed}\n{story(world)}"
        for hid, holder in world.s.holders.items():
            cancelled = isinstance(holder, Job) and holder.ended == "cancelled"
            ran = world.programs.get(hid)
            assert not (cancelled and ran and ran.alive), f"seed {seed}: {hid} was cancelled and lives"


def test_a_seed_gives_the_same_story_twice() -> None:
    def events(seed: int) -> list[str]:
        rnd = random.Random(seed)
        world = random_world(rnd)
        trouble(world, rnd)
        return [f"{e.at_s} {e.code} {e.holder} {dict(e.facts)}" for e in world.events]

    assert events(7) == events(7)
