"""The loop with all that it moves, in memory: decisions become moves, and whatever happens becomes a fact."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from headway import errors
from headway.core.commands import AddJob, ClearJobs, SetMode, SetProdOnly, SetWish
from headway.core.model import Job, Policy
from headway.daemon import act
from headway.ports import Moved, Task
from tests.core.make import Scene, job_spec, service_spec
from tests.parts.fake_store import FakeStore
from tests.parts.loop_world import LoopWorld, faster, gap_scene, quiet_scene
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

LIMIT_S = 10.0


def raising(error: BaseException) -> Any:
    async def play(task: Task) -> Moved:
        raise error

    return play


async def hanging(task: Task) -> Moved:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


async def test_a_held_request_makes_the_job_step_aside_and_the_model_come_back() -> None:
    async with LoopWorld(gap_scene()) as world:
        world.hold("chat")
        await wait_until(lambda: world.is_open("chat"), LIMIT_S, "an open gate")
        assert world.driver.asked == [("train", "parked"), ("chat", "awake")]
        codes = world.codes()
        wanted = ["move.asked", "move.answered", "release.verified", "move.asked", "move.done", "gate.open"]
        assert [code for code in codes if code in wanted] == wanted
        assert world.store.holders["chat"][0] == "service" and not world.store.pending
        assert world.s.holders["train"].form == "parked" and not world.failed and not world.troubles


async def test_the_row_of_a_start_is_saved_before_it_is_begun() -> None:
    async with LoopWorld(quiet_scene()) as world:
        seen: list[bool] = []

        async def play(task: Task) -> Moved:
            seen.append("chat" in world.store.pending)
            return await world.driver.plain(task)

        world.driver.plays["chat", "awake"] = play
        world.hold("chat")
        await wait_until(lambda: world.is_open("chat"), LIMIT_S)
        assert seen == [True]


FAILURES = {
    "server_exited": errors.ServerExited("it ended", holder="chat", exit_code=1, lines=["boom"]),
    "port_taken": errors.PortTaken("taken", holder="chat", port=1, owner="pid 1"),
    "cannot_start": errors.CannotStart("missing", holder="chat", reason="missing", argv=["x"]),
    "limit_passed": errors.LimitPassed("late", holder="chat", form="awake", limit_s=3.0),
    "server_silent": errors.ServerSilent("silent", refused=True),
    "hook_failed": errors.HookFailed("bad", hook="park", exit_code=2, code="x", note="y", d=2),
    "driver_failed": errors.DriverFailed("odd", path=object(), sizes={1, 2}, ratio=float("nan")),
}


@pytest.mark.parametrize(("code", "error"), FAILURES.items(), ids=FAILURES.keys())
async def test_a_driver_that_fails_is_a_fact_and_tried_again(code: str, error: errors.DriverFailed) -> None:
    async with LoopWorld(quiet_scene()) as world:
        tries = 0

        async def play(task: Task) -> Moved:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise error
            return await world.driver.plain(task)

        world.driver.plays["chat", "awake"] = play
        world.hold("chat")
        await wait_until(lambda: world.is_open("chat") or world.failed, LIMIT_S, "the second try")
        assert not world.failed and not world.troubles
        failed = [e for e in world.events if e.code == "move.failed"]
        assert [e.facts["reason"] for e in failed] == [code]
        assert [task.run_id for task in world.driver.tasks] == ["chat.1", "chat.2"]  # an id is used once


UNEXPECTED = {
    "a mistake in a driver": KeyError("x"),
    "an error of the system": OSError("no"),
    "another error of ours": errors.Refused("no", "no"),
    "an assertion": AssertionError("no"),
}


@pytest.mark.parametrize("error", UNEXPECTED.values(), ids=UNEXPECTED.keys())
async def test_an_unexpected_error_ends_the_move_at_once_and_nothing_else(error: Exception) -> None:
    async with LoopWorld(quiet_scene()) as world:
        world.driver.plays["chat", "awake"] = raising(error)
        world.hold("chat")
        await wait_until(lambda: world.s.holders["chat"].failures >= 2 or world.failed, LIMIT_S, "two tries")
        assert not world.failed and not world.s.pending
        expected = isinstance(error, OSError | errors.HeadwayError)
        assert bool(world.troubles) is not expected
        reply = await world.loop.submit(SetMode(mode="shadow"))
        assert reply.accepted


async def test_a_release_that_fails_goes_one_form_lower_at_once() -> None:
    async with LoopWorld(gap_scene()) as world:
        world.driver.plays["train", "parked"] = raising(errors.HookFailed("bad", holder="train", hook="park"))
        world.hold("chat")
        await wait_until(lambda: world.is_open("chat") or world.failed, LIMIT_S)
        assert world.driver.asked == [("train", "parked"), ("train", "stopped"), ("chat", "awake")]


async def test_a_release_that_hangs_goes_one_form_lower_after_its_limit() -> None:
    async with LoopWorld(faster(gap_scene(), "train", 0.2)) as world:
        world.driver.plays["train", "parked"] = hanging
        world.hold("chat")
        await wait_until(lambda: world.is_open("chat"), 20.0, "the ladder")
        assert ("train", "stopped") in world.driver.asked
        hook = act.hook_id("train.1", _pending_of(world.driver.tasks[0]))
        assert hook in [run_id for run_id, _ in world.runs.stopped]  # it does not go on beside the stop


def _pending_of(task: Task) -> Any:
    """As much of a Pending as a hook's id is made of."""
    _, form, started_ms = task.hook_id.rsplit(".", 2)

    class Part:
        to, started_s = form, int(started_ms) / 1000

    return Part


async def test_memory_that_does_not_fall_takes_the_ladder_down() -> None:
    async with LoopWorld(faster(gap_scene(), "train", 0.2)) as world:

        async def lies(task: Task) -> Moved:
            return Moved()

        world.driver.plays["train", "parked"] = lies
        world.hold("chat")
        await wait_until(lambda: world.is_open("chat"), 20.0, "the ladder")
        assert "memory.not_released" in world.codes("train")
        assert world.driver.asked[-1] == ("chat", "awake")


async def test_memory_that_was_taken_in_the_last_moment_is_seen_before_a_start() -> None:
    """Decided on a good reading, measured again right before: refused, and tried later."""
    async with LoopWorld(quiet_scene()) as world:
        await wait_until(lambda: world.meter.reads > 2, LIMIT_S)
        world.foreign_bytes = 20 << 30
        refused = await _refusal(world)
        assert refused.facts["reason"] == "memory_now"
        assert world.driver.asked == [] and not world.failed
        world.foreign_bytes = 0
        await wait_until(lambda: world.is_open("chat"), LIMIT_S, "the start after it was free")


async def _refusal(world: LoopWorld) -> Any:
    """Hold a request before the loop can hear of the new bytes."""
    world.hold("chat")
    await wait_until(lambda: "move.refused" in world.codes("chat") or world.failed, LIMIT_S, "a refusal")
    return next(e for e in world.events if e.code == "move.refused")


async def test_a_job_does_not_start_beside_a_meter_that_fell_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(act, "REMEASURE_S", 0.1)
    scene = Scene(24)
    async with LoopWorld(scene) as world:
        await wait_until(lambda: world.meter.reads > 2, LIMIT_S)
        world.meter.blind = True
        await world.loop.submit(AddJob(spec=job_spec("train")))
        await wait_until(lambda: "move.refused" in world.codes("j1"), LIMIT_S, "a refusal")
        assert world.driver.asked == []
        world.meter.blind = False
        await wait_until(lambda: world.s.holders["j1"].form == "running", LIMIT_S, "the start")


async def test_the_way_back_of_a_model_goes_ahead_beside_a_silent_meter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(act, "REMEASURE_S", 0.1)
    async with LoopWorld(quiet_scene()) as world:
        await wait_until(lambda: world.meter.reads > 2, LIMIT_S)
        world.meter.blind = True
        world.hold("chat")
        await wait_until(lambda: world.is_open("chat"), LIMIT_S, "an open gate")


# -------------------------------------------------------------------- runs


async def test_an_exit_is_seen_at_once_and_the_job_is_done() -> None:
    async with LoopWorld(Scene(24)) as world:
        await world.loop.submit(AddJob(spec=job_spec("train")))
        await wait_until(lambda: world.s.holders["j1"].form == "running", LIMIT_S)
        world.runs.ends("j1.1", 0)
        await wait_until(lambda: _job(world).ended, LIMIT_S, "the end")
        assert _job(world).ended == "done" and _job(world).exit_code == 0


def _job(world: LoopWorld, hid: str = "j1") -> Job:
    job = world.s.holders[hid]
    assert isinstance(job, Job)
    return job


async def test_a_run_that_comes_late_is_watched_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ending leftovers of the last run takes its grace before the next is launched."""
    monkeypatch.setattr("headway.daemon.observe.APPEAR_S", 0.05)
    async with LoopWorld(Scene(24)) as world:

        async def late(task: Task) -> Moved:
            await wait_until(lambda: "watch j1.1" not in watching(), LIMIT_S, "nobody who waits for it")
            return await world.driver.plain(task)

        def watching() -> set[str]:
            return {one.get_name() for one in world.tasks}

        world.driver.plays["j1", "running"] = late
        await world.loop.submit(AddJob(spec=job_spec("train")))
        await wait_until(lambda: world.s.holders["j1"].form == "running", LIMIT_S)
        world.runs.ends("j1.1", 3)
        await wait_until(lambda: _job(world).ended == "failed", LIMIT_S, "the end")


async def test_what_survives_a_killed_shim_is_ended_before_the_job_is_lost() -> None:
    async with LoopWorld(Scene(24)) as world:
        await world.loop.submit(AddJob(spec=job_spec("train")))
        await wait_until(lambda: world.s.holders["j1"].form == "running", LIMIT_S)
        world.runs.loses_its_shim("j1.1")
        await wait_until(lambda: _job(world).ended == "lost", LIMIT_S, "the loss")
        assert ("j1.1", 0.0) in world.runs.stopped and not world.runs.survivors


async def test_survivors_of_a_leader_whose_exit_is_known_are_ended_too() -> None:
    async with LoopWorld(Scene(24)) as world:
        await world.loop.submit(AddJob(spec=job_spec("train")))
        await wait_until(lambda: world.s.holders["j1"].form == "running", LIMIT_S)
        world.runs.survivors.add("j1.1")
        world.runs.ends("j1.1", 0)
        world.runs.states["j1.1"] = replace(world.runs.states["j1.1"], gone=False)
        await wait_until(lambda: _job(world).ended == "done", LIMIT_S, "the end")
        await wait_until(lambda: not world.runs.survivors, LIMIT_S, "the survivors' end")


async def test_a_server_that_dies_is_closed_and_started_again_for_who_waits() -> None:
    async with LoopWorld(quiet_scene()) as world:
        world.hold("chat")
        await wait_until(lambda: world.is_open("chat"), LIMIT_S)
        world.forms["chat"] = "stopped"
        world.runs.ends("chat.1", -9)
        await wait_until(lambda: not world.is_open("chat"), LIMIT_S, "a closed gate")
        world.hold("chat")
        await wait_until(lambda: world.is_open("chat"), LIMIT_S, "a second start")
        assert [task.run_id for task in world.driver.tasks] == ["chat.1", "chat.2"]


async def test_a_probe_that_fails_is_no_news() -> None:
    async with LoopWorld(quiet_scene()) as world:
        world.driver.observe_error = errors.ServerSilent("silent")
        world.hold("chat")
        await wait_until(lambda: world.is_open("chat"), LIMIT_S)
        assert not world.failed


# -------------------------------------------------------------------- commands and the store


async def test_commands_of_one_turn_are_answered_after_it_was_saved() -> None:
    async with LoopWorld(Scene(24, policy=Policy(max_active_jobs=0))) as world:
        first = world.loop.submit(AddJob(spec=job_spec("a")))
        second = world.loop.submit(AddJob(spec=job_spec("b")))
        wrong = world.loop.submit(SetWish(target="nobody", verb="hold"))
        replies = await asyncio.gather(first, second, wrong)
        assert [r.holder for r in replies] == ["j1", "j2", None]
        assert [r.code for r in replies] == ["accepted", "accepted", "not_found"]
        assert replies[0].rev == replies[1].rev, "both in one turn"
        assert {"j1", "j2"} <= set(world.store.holders) and world.store.meta["next_job"] == "3"


@pytest.mark.parametrize("mode", ["hangs", "fails"])
async def test_a_command_that_could_not_be_saved_is_refused_and_leaves_nothing(mode: str) -> None:
    scene = Scene(24, policy=Policy(max_active_jobs=0))
    scene.queue(job_spec("old"))
    scene.job(job_spec("over"), "stopped", ended="done")
    async with LoopWorld(scene, store=FakeStore(mode)) as world:
        replies = await asyncio.gather(
            world.loop.submit(ClearJobs(targets=("over",))),
            world.loop.submit(AddJob(spec=job_spec("new"))),
            world.loop.submit(SetWish(target="j1", verb="hold")),
            world.loop.submit(SetMode(mode="shadow")),
            world.loop.submit(SetProdOnly(on=True)),
        )
        assert {(r.accepted, r.code) for r in replies} == {(False, "store_silent")}
        why = world.recorder.trouble
        assert {r.facts["trouble"] for r in replies} == {why} and (why is not None) == (mode == "fails")
        again = await world.loop.submit(AddJob(spec=job_spec("new")))
        assert again.code == "store_silent"
        world.store.speak()
        await wait_until(lambda: world.s.store_ok and world.recorder.ok, LIMIT_S, "the store")
        await wait_until(lambda: "j2" not in world.s.holders, LIMIT_S, "the job taken back")
        assert world.s.holders["j1"].wish == "run" and world.s.mode == "live"
        assert "over" in world.s.holders, "what was to be forgotten is known again"
        assert world.s.prod_only_by is None
        reply = await world.loop.submit(AddJob(spec=job_spec("new")))
        assert reply.accepted and reply.holder == "j3"
        assert {"j1", "j3"} <= set(world.store.holders) <= {"j1", "j3", "over"}  # rows followed


@pytest.mark.parametrize("mode", ["hangs", "fails"])
async def test_nothing_begins_by_a_command_that_is_taken_back(mode: str) -> None:
    async with LoopWorld(
        Scene(24).service(service_spec("chat"), form="stopped", active=0, wish="hold")
    ) as world:
        world.hold("chat")
        await wait_until(lambda: world.meter.reads > 1, LIMIT_S, "a reading")
        world.store.mode, turns = mode, world.loop.turns
        reply = await world.loop.submit(SetWish(target="chat", verb="release"))
        assert reply.code == "store_silent"
        await wait_until(lambda: world.loop.turns > turns + 20, LIMIT_S, "turns")
        assert world.driver.asked == []
        world.store.speak()
        await wait_until(lambda: world.recorder.ok and world.s.store_ok, LIMIT_S, "the store")
        assert world.s.holders["chat"].wish == "hold"
        assert (await world.loop.submit(SetWish(target="chat", verb="release"))).accepted
        await wait_until(lambda: world.driver.asked == [("chat", "awake")], LIMIT_S, "the start")


async def test_no_job_starts_while_the_store_is_silent() -> None:
    scene = Scene(24)
    scene.queue(job_spec("train"))
    async with LoopWorld(scene, store=FakeStore("hangs")) as world:
        await wait_until(lambda: not world.s.store_ok, LIMIT_S, "silence")
        assert world.driver.asked == []
        world.store.speak()
        await wait_until(lambda: world.s.holders["j1"].form == "running", LIMIT_S, "the start")
        assert world.journal.entries == [] and not world.failed


async def test_a_request_is_served_while_the_store_is_silent_and_rows_follow() -> None:
    async with LoopWorld(gap_scene(), store=FakeStore("hangs")) as world:
        world.hold("chat")
        await wait_until(lambda: world.is_open("chat"), LIMIT_S, "an open gate")
        assert not world.store.committed  # who left for it and who came are on file instead
        assert [entry["holder"] for entry in world.journal.entries] == ["train", "chat"]
        world.store.speak()
        await wait_until(
            lambda: "chat" in world.store.holders and not world.journal.entries, LIMIT_S, "the rows"
        )
        assert '"form":"awake"' in world.store.holders["chat"][1]
        assert not world.store.pending and not world.failed


async def test_a_stop_by_hand_ends_the_run_with_the_grace_of_its_wish() -> None:
    async with LoopWorld(Scene(24)) as world:
        await world.loop.submit(AddJob(spec=job_spec("train")))
        await wait_until(lambda: world.s.holders["j1"].form == "running", LIMIT_S)
        reply = await world.loop.submit(SetWish(target="j1", verb="kill"))
        assert reply.accepted
        await wait_until(lambda: world.s.holders["j1"].form == "stopped", LIMIT_S)
        assert world.driver.tasks[-1].kill and _job(world).wish == "hold"


async def test_the_engine_must_read_idle_after_the_gate_closed() -> None:
    spec = service_spec("chat", reads_busy=True)
    scene = Scene(24).service(spec, engine_active=0)
    async with LoopWorld(scene) as world:
        world.driver.engine_active = 1
        await world.loop.submit(SetWish(target="chat", verb="stop"))
        await wait_until(lambda: not world.is_open("chat"), LIMIT_S, "a closed gate")
        await wait_until(lambda: world.s.service("chat").engine_active == 1, LIMIT_S)  # type: ignore[union-attr]
        assert world.driver.asked == []
        world.driver.engine_active = 0
        await wait_until(lambda: world.s.holders["chat"].form == "stopped", LIMIT_S, "the stop")


async def test_a_viewer_hears_of_each_revision() -> None:
    async with LoopWorld(Scene(24)) as world:
        before = world.hub.revision
        reply = world.loop.submit(AddJob(spec=job_spec("train"), hold=True))
        while (after := await world.hub.wait(before, LIMIT_S)) and "j1" not in world.s.holders:
            pass
        assert after > before and "j1" in (world.hub.changed_since(before) or ())
        assert (await reply).holder == "j1"
        assert world.hub.changed_since(world.hub.revision) == frozenset()
        assert world.hub.changed_since(-5000) is None
