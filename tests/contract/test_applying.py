"""A changed config into a running daemon: whole or not at all, one at a time, and told either way."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from headway.core.commands import Configure, Reply
from headway.core.configs import ConfigChange, Proposed
from headway.core.facts import ConfigRefused, Fact
from headway.core.model import Policy
from headway.daemon.applying import Applying, no_config
from headway.errors import ConfigInvalid, Refused
from tests.core.make import Scene, job_spec, service_spec
from tests.parts.fake_store import FakeStore
from tests.parts.false_api import Inbox
from tests.parts.loop_world import LoopWorld
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

ACCEPTED = Reply(accepted=True, code="accepted", facts={"later": ["chat", "j1"], "retired": ["old"]})


class World:
    """A false inbox, and a file that says whatever the test wants."""

    def __init__(self, scene: Scene | None = None) -> None:
        self.inbox, self.told, self.taken = Inbox(), list[Fact](), 0
        self.inbox.reply = ACCEPTED
        self.asked: list[Collection[str]] = []
        self.reads: list[asyncio.Future[None]] = []
        self.problems: list[str] = []
        self.slow = False
        s = (scene or Scene(24)).s
        self.applying = Applying(self._read, self.inbox, lambda: s, self.told.append)

    async def _read(self) -> Proposed:
        if self.slow:
            self.reads.append(asyncio.get_running_loop().create_future())
            await self.reads[-1]
        if self.problems:
            raise ConfigInvalid(self.problems)
        command = Configure(services=(service_spec(),), recipes=())
        return Proposed(
            file="f", etag=f'"{self.taken}"', configure=command, changes=self._changes, taken=self._taken
        )

    def _changes(self, running: Collection[str]) -> list[ConfigChange]:
        self.asked.append(running)
        return [ConfigChange("mode: shadow -> live", "now")]

    def _taken(self) -> None:
        self.taken += 1


async def test_an_accepted_config_is_in_force_and_says_who_takes_it_later() -> None:
    scene = Scene(24).service()
    scene.queue(job_spec(), recipe="train")
    world = World(scene)
    done = await world.applying.apply(drain=True, by="ada")
    (command,) = world.inbox.given
    assert isinstance(command, Configure)
    assert (command.drain, command.by, command.told) == (True, "ada", ("mode: shadow -> live",))
    assert (done.applied, done.draining, [change.when for change in done.changes]) == (True, ["old"], ["now"])
    assert world.asked[-1] == {"chat", "train"} and world.taken == 1 and not world.told


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_config_with_problems_changes_nothing_and_is_told(dry_run: bool) -> None:
    world = World()
    world.problems = [f"f:{n} x" for n in range(20)]
    with pytest.raises(ConfigInvalid):
        await world.applying.apply(drain=False, by="SIGHUP", dry_run=dry_run)
    assert not world.inbox.given and not world.taken
    told = [] if dry_run else [ConfigRefused(problems=tuple(world.problems[:8]), by="SIGHUP")]
    assert world.told == told


async def test_over_another_config_than_the_one_that_was_seen_nothing_is_applied() -> None:
    world = World()
    seen = ('"0"').__eq__
    assert (await world.applying.apply(drain=False, by="ada", seen=seen)).applied
    for dry_run in (False, True):
        with pytest.raises(Refused) as error:
            await world.applying.apply(drain=False, by="ben", dry_run=dry_run, seen=seen)
        assert (error.value.code, error.value.facts["etag"]) == ("config_changed", '"1"')
    assert world.taken == len(world.inbox.given) == 1 and not world.told


async def test_a_refused_config_is_not_in_force_and_is_told() -> None:
    world = World()
    world.inbox.reply = Reply(accepted=False, code="in_use", facts={"services": ["chat"]})
    with pytest.raises(Refused) as caught:
        await world.applying.apply(drain=False, by="ada")
    assert (caught.value.code, caught.value.facts) == ("in_use", {"services": ["chat"]})
    assert not world.taken and [type(fact) for fact in world.told] == [ConfigRefused]


async def test_a_dry_run_says_what_would_be_answered_and_asks_nobody() -> None:
    world = World(Scene(24).service(service_spec("other")))
    done = await world.applying.apply(drain=True, by="ada", dry_run=True)
    assert (done.applied, done.draining) == (False, ["other"])
    with pytest.raises(Refused):
        await world.applying.apply(drain=False, by="ada", dry_run=True)
    assert not world.inbox.given and not world.taken and not world.told


async def test_one_config_at_a_time_in_the_order_in_which_they_were_asked_for() -> None:
    world = World()
    world.slow = True
    first = asyncio.create_task(world.applying.apply(drain=False, by="first"))
    second = asyncio.create_task(world.applying.apply(drain=False, by="second"))
    await wait_until(lambda: len(world.reads) == 1, 5.0, "the first read")
    assert not second.done()
    world.reads[0].set_result(None)
    await first
    await wait_until(lambda: len(world.reads) == 2, 5.0, "the second read")
    world.reads[1].set_result(None)
    await second
    assert [command.by for command in world.inbox.given if isinstance(command, Configure)] == [
        "first",
        "second",
    ]


async def test_one_that_is_given_up_lets_the_next_go() -> None:
    world = World()
    world.slow = True
    first = asyncio.create_task(world.applying.apply(drain=False, by="first"))
    await wait_until(lambda: len(world.reads) == 1, 5.0, "the first read")
    first.cancel()
    await asyncio.wait([first])
    world.slow = False
    assert (await world.applying.apply(drain=False, by="second")).applied


async def test_a_daemon_without_a_file_says_so() -> None:
    with pytest.raises(Refused):
        await no_config()


async def test_what_could_not_be_saved_is_taken_back_whole() -> None:
    """A service that was forgotten, one that is new, a recipe, the policy and the mode: all as before."""
    scene = Scene(24).service(service_spec("down"), "stopped").service(service_spec("up"))
    world = LoopWorld(scene, store=FakeStore())
    async with world:
        await wait_until(lambda: world.loop.turns > 2, 5.0, "some turns")
        before = world.hub.snapshot
        world.store.mode = "hangs"
        command = Configure(
            services=(service_spec("new"), service_spec("up", argv=("other",), max_active=3)),
            recipes=((job_spec("added"), False),),
            policy=Policy(gap_min_s=77.0),
            mode="shadow",
        )
        reply = await world.loop.submit(command)
        assert (reply.accepted, reply.code) == (False, "store_silent")
        await wait_until(lambda: "new" not in world.hub.snapshot.holders, 5.0, "the way back")
        after = world.hub.snapshot
        assert set(after.holders) == {"down", "up"} and set(after.services) == {"down", "up"}
        assert after.holders["up"].spec == before.holders["up"].spec
        assert after.holders["up"].coming is None  # type: ignore[attr-defined]
        assert (after.policy, after.mode, after.mode_by) == (before.policy, before.mode, before.mode_by)
        assert (after.recipes, after.recipes_seen) == (before.recipes, before.recipes_seen)
        world.store.speak()
        await wait_until(
            lambda: world.hub.snapshot.store_ok and "down" in world.store.holders, 5.0, "the store"
        )
        assert "new" not in world.store.holders and world.store.meta.get("recipes") in (None, "{}")


async def test_what_a_daemon_saved_is_what_the_next_one_compares_with() -> None:
    world = LoopWorld(Scene(24), store=FakeStore())
    async with world:
        command = Configure(services=(), recipes=((job_spec("added"), False),), mode="live")
        assert (await world.loop.submit(command)).accepted
    assert '"added"' in world.store.meta["recipes"]
