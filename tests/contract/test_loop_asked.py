"""Who is told that nothing was changed finds nothing changed: what a command asks for waits for its commit."""

import pytest

from headway.core.commands import Command, SetProdOnly, SetWish
from headway.core.model import Job
from tests.core.make import Scene, job_spec
from tests.parts.fake_store import FakeStore
from tests.parts.loop_world import LoopWorld
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

LIMIT_S = 20.0
ASKED = {
    "stop": SetWish(target="train", verb="stop"),
    "kill": SetWish(target="train", verb="kill"),
    "cancel": SetWish(target="train", verb="cancel"),
    "pause": SetWish(target="train", verb="pause"),
    "hold": SetWish(target="train", verb="hold"),
    "prod only": SetProdOnly(on=True, by="ada"),
}


@pytest.mark.parametrize("well", [True, False], ids=["late", "never"])
@pytest.mark.parametrize("command", ASKED.values(), ids=ASKED.keys())
async def test_a_job_goes_on_though_it_was_asked_to_leave_where_that_was_not_saved(
    command: Command, well: bool
) -> None:
    store = FakeStore()
    async with LoopWorld(Scene(24).job(job_spec("train", parked=1)), store=store) as world:
        await wait_until(lambda: bool(store.committed), LIMIT_S, "a first commit")
        store.mode = "hangs"
        reply = await world.loop.submit(command)
        assert (reply.accepted, reply.code) == (False, "store_silent")
        turns = world.loop.turns
        store.speak(well)
        await wait_until(
            lambda: world.s.store_ok and world.loop.turns > turns + 2, LIMIT_S, "some turns more"
        )
        job = world.s.holders["train"]
        assert isinstance(job, Job)
        assert (job.form, job.wish, job.ended) == ("running", "run", None)
        assert world.driver.asked == [] and "train" not in world.s.pending and not world.failed
        assert world.s.prod_only_by is None


@pytest.mark.parametrize("verb", ["stop", "cancel"])
async def test_once_it_is_saved_it_leaves(verb: str) -> None:
    async with LoopWorld(Scene(24).job(job_spec("train", parked=1))) as world:
        assert (await world.loop.submit(SetWish(target="train", verb=verb))).accepted  # type: ignore[arg-type]
        await wait_until(lambda: world.s.holders["train"].form == "stopped", LIMIT_S, "its end")
        assert world.driver.asked == [("train", "stopped")]
