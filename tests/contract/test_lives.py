"""A daemon that is killed over and over, at any moment, over one machine that goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headway.core.commands import AddJob, SetWish
from tests.parts.lives import TRAIN, Lives
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

LIVES = 14
LIMIT_S = 20.0


async def event(lives: Lives) -> None:
    """Something happens: to the queue, at the gate, on the machine, or in the store."""
    world, dice = lives.world, lives.dice
    assert world is not None
    jobs = sorted(hid for hid, job in lives.jobs().items() if not job.ended)
    match dice.choice(("add", "add", "hold", "hold", "ends", "cancel", "pause", "dies", "store", "shim")):
        case "add" if len(jobs) < 3:
            world.loop.submit(AddJob(spec=TRAIN))
        case "hold":
            world.hold("chat")
        case "ends" if jobs and (alive := lives.alive(dice.choice(jobs))):
            lives.machine.exits(alive[0].id, dice.choice((0, 3)))
        case "cancel" | "pause" as verb if jobs:
            world.loop.submit(SetWish(target=dice.choice(jobs), verb=verb))
        case "dies" if alive := lives.alive("chat"):
            lives.machine.forms["chat"] = "stopped"
            lives.machine.exits(alive[0].id, -9)
        case "shim" if dice.random() < 0.3 and jobs and (alive := lives.alive(dice.choice(jobs))):
            if alive[0].lock_held:
                lives.machine.loses_its_shim(alive[0].id)
        case "store":
            if lives.store.mode == "ok":
                lives.store.mode = dice.choice(("hangs", "fails"))
            else:
                lives.store.speak()


@pytest.mark.parametrize("seed", range(8))
async def test_nothing_is_started_twice_lost_or_overcommitted(seed: int) -> None:
    lives = Lives(seed)
    for _ in range(LIVES):
        await lives.start()
        for _ in range(lives.dice.randrange(6)):
            await event(lives)
            await asyncio.sleep(lives.dice.random() * 0.03)
        await lives.kill()
        if lives.dice.random() < 0.3:
            await asyncio.sleep(lives.dice.random() * 0.03)
        assert lives.machine.wrong == [] and lives.wrong == []
    await _rests(lives)


async def _rests(lives: Lives) -> None:
    """Once nothing fails any more: the request is answered, every job ends, and exit codes are known."""
    lives.store.speak()
    world = await lives.start()
    for hid, job in lives.jobs().items():
        if job.wish != "run" and not job.ended:
            await world.loop.submit(SetWish(target=hid, verb="release"))
    world.hold("chat")
    opened = lambda: world.is_open("chat") or "gate.open" in world.codes("chat")  # noqa: E731
    await wait_until(lambda: opened() or world.failed, LIMIT_S, "an open gate")
    ending = asyncio.get_running_loop().create_task(_end_jobs(lives))
    await wait_until(lambda: all(job.ended for job in lives.jobs().values()), LIMIT_S, "the jobs' ends")
    ending.cancel()
    for hid, job in lives.jobs().items():
        last = f"{hid}.{job.runs}"
        known: Any = lives.machine.codes.get(last)
        assert job.ended == "cancelled" or known is None or job.exit_code == known, (hid, job.ended, known)
    await wait_until(lambda: not world.s.pending, LIMIT_S, "rest")
    await lives.kill()
    assert lives.machine.wrong == [] and lives.wrong == []


async def _end_jobs(lives: Lives) -> None:
    while True:
        for hid in lives.jobs():
            for state in lives.alive(hid):
                if lives.machine.forms.get(hid) == "running" and state.lock_held:
                    lives.machine.exits(state.id, 0)
        await asyncio.sleep(0.01)
