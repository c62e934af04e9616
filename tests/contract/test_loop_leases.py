"""Leases in the real loop: nobody is let in whose row is not saved, and nothing is done to anybody's process."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headway.core.commands import AddJob, AskLease, Claim, EndLease
from headway.core.facts import LeaseGone
from headway.core.leases import spec_of
from headway.core.model import Lease
from headway.drivers.lease import MOVES, LeaseDriver
from tests.core.make import Scene, gib, job_spec
from tests.parts.fake_store import FakeStore
from tests.parts.loop_world import LoopWorld
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

LIMIT_S = 10.0
ASK = AskLease(spec=spec_of("render", MOVES, gib(12)), pid=5000, ask_key="k")


def world_of(scene: Scene | None = None, store: FakeStore | None = None) -> LoopWorld:
    world = LoopWorld(scene or Scene(24), store=store)
    world.drivers["lease"] = LeaseDriver(world.runs, cast(Any, None), world.clock)
    return world


def lease(world: LoopWorld, lid: str) -> Lease:
    found = world.s.holders[lid]
    assert isinstance(found, Lease)
    return found


async def test_a_job_makes_room_for_a_lease_and_comes_back_after_it() -> None:
    async with world_of(Scene(24).job(job_spec("train", parked=0.5))) as world:
        lid = (await world.loop.submit(ASK)).holder or ""
        await wait_until(lambda: lease(world, lid).form == "granted", LIMIT_S, "the grant")
        assert world.s.holders["train"].form == "parked" and lid in world.store.holders
        assert (world.store.meta["next_lease"], world.store.meta["fencing"]) == ("2", "1")
        await world.loop.submit(EndLease(target=lid))
        await wait_until(lambda: world.s.holders["train"].form == "running", LIMIT_S, "the way back")
        assert lease(world, lid).ended == "released" and not world.failed and not world.troubles
        assert world.driver.asked == [("train", "parked"), ("train", "running")]


async def test_the_end_of_its_processes_is_a_fact() -> None:
    async with world_of() as world:
        lid = (await world.loop.submit(ASK)).holder or ""
        await wait_until(lambda: lease(world, lid).form == "granted", LIMIT_S)
        world.loop.tell(LeaseGone(lease=lid))
        await wait_until(lambda: lease(world, lid).form == "revoked", LIMIT_S, "the end")
        assert lease(world, lid).ended == "gone" and lid not in world.s.present


async def test_nobody_is_let_in_whose_row_was_not_saved() -> None:
    store = FakeStore()
    async with world_of(store=store) as world:
        await wait_until(lambda: world.meter.reads > 2, LIMIT_S)
        store.mode = "hangs"
        refused = await world.loop.submit(ASK)
        assert (refused.accepted, refused.code) == (False, "store_silent")
        await wait_until(lambda: "L1" not in world.s.holders, LIMIT_S, "the ask taken back")
        assert "lease.granted" not in world.codes()
        store.speak()
        await wait_until(lambda: world.recorder.ok, LIMIT_S)
        lid = (await world.loop.submit(ASK)).holder or ""
        await wait_until(lambda: lease(world, lid).form == "granted", LIMIT_S, "the grant")
        assert lid != "L1"


async def test_a_claim_that_blocks_keeps_a_job_waiting_until_it_ends() -> None:
    async with world_of() as world:
        await wait_until(lambda: bool(world.s.devices), LIMIT_S)
        cid = (await world.loop.submit(Claim(name="shell", pid=1, block=True))).holder or ""
        jid = (await world.loop.submit(AddJob(spec=job_spec("train")))).holder or ""
        await wait_until(lambda: getattr(world.hub.verdicts.get(jid), "code", "") == "blocked", LIMIT_S)
        world.loop.tell(LeaseGone(lease=cid))
        await wait_until(lambda: world.s.holders["j1"].form == "running", LIMIT_S, "the start")
