"""A job beside a model, through the loop: a request freezes its tree, quiet thaws it, a stop thaws it first."""

from __future__ import annotations

import pytest

from headway.core.commands import SetWish
from headway.core.facts import GateState
from tests.contract.test_loop import LIMIT_S
from tests.core.make import Scene, job_spec
from tests.parts.loop_world import LoopWorld
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

YIELD = job_spec(running=4, placement="yield")


def active(world: LoopWorld, n: int) -> GateState:
    service = world.s.service("chat")
    assert service is not None
    return GateState(service="chat", rev=service.gate.rev, closed=False, pinning=n, active=n)


async def test_a_request_freezes_the_tree_and_a_second_of_quiet_thaws_it() -> None:
    async with LoopWorld(Scene(24).service().job(YIELD)) as world:
        world.loop.tell(active(world, 1))
        await wait_until(lambda: world.runs.signals == [("train.1", True)], LIMIT_S, "the freeze")
        frozen_s = world.clock.now_s()
        world.loop.tell(active(world, 0))
        await wait_until(lambda: len(world.runs.signals) == 2, LIMIT_S, "the thaw")
        assert world.runs.signals[1] == ("train.1", False)
        assert (
            world.clock.now_s() - frozen_s >= 0.95
        )  # a turn's clock was read a moment before what it folds came


async def test_a_frozen_job_is_thawed_before_it_is_stopped() -> None:
    async with LoopWorld(Scene(24).service().job(YIELD)) as world:
        world.loop.tell(active(world, 1))
        await wait_until(lambda: world.runs.signals == [("train.1", True)], LIMIT_S, "the freeze")
        assert (await world.loop.submit(SetWish(target="train", verb="stop"))).accepted
        await wait_until(lambda: world.s.holders["train"].form == "stopped", LIMIT_S, "the end")
        assert world.runs.signals == [("train.1", True), ("train.1", False)]
