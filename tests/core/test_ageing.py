"""Waiting makes a job's rank better; being held, and following another job, is no waiting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core import rank
from headway.core.commands import EditJob, MoveJob, SetWish
from headway.core.line import AGE_S
from headway.core.model import Job
from tests.core.make import T0_S, Scene, job_spec
from tests.core.test_lanes import order
from tests.core.test_wishes import asks, says

pytestmark = pytest.mark.core

HOUR_S = 3600.0  # worth two points


def spec(priority: int = 50, **given: Any) -> Any:
    return job_spec(running=900, priority=priority, **given)  # it can never start: only its place matters


def job(scene: Scene, hid: str) -> Job:
    found = scene.s.holders[hid]
    assert isinstance(found, Job)
    return found


def at(scene: Scene, hours: float) -> Scene:
    return scene.at(T0_S + hours * HOUR_S)


def held(scene: Scene, hid: str, begin_h: float, end_h: float) -> None:
    at(scene, begin_h)
    assert asks(scene, "hold", hid) == "hold"
    at(scene, end_h)
    assert asks(scene, "release", hid) == "run"


def test_what_is_held_does_not_age() -> None:
    scene = Scene(24)
    old = scene.queue(spec(50))
    young = at(scene, 2.0).queue(spec(53))  # three points are an hour and a half
    assert order(scene) == [old, young]
    held(scene, old, 2.0, 3.0)
    assert order(scene) == [young, old]
    assert job(scene, old).unaged_s == HOUR_S


def test_nor_what_was_added_on_hold() -> None:
    scene = Scene(24)
    old = scene.queue(spec(50), hold=True)
    young = at(scene, 2.0).queue(spec(50))
    at(scene, 3.0)
    assert asks(scene, "release", old) == "run"
    assert order(scene) == [young, old]


def test_what_is_held_for_less_than_a_minute_keeps_its_place() -> None:
    scene = Scene(24)
    first, second = scene.queue(spec()), scene.queue(spec())
    scene.at(T0_S + 10.0)
    assert asks(scene, "hold", first) == "hold"
    scene.at(T0_S + 69.0)
    assert asks(scene, "release", first) == "run"
    assert order(scene) == [first, second]


def test_all_that_are_held_and_released_together_keep_their_order() -> None:
    scene = Scene(24)
    ids = [scene.queue(spec()) for _ in range(5)]
    for hid in ids:
        assert asks(scene, "hold", hid) == "hold"
    at(scene, 7.3)
    for hid in reversed(ids):
        assert asks(scene, "release", hid) == "run"
    assert order(scene) == ids


def test_a_place_given_by_hand_stays_over_a_hold() -> None:
    scene = Scene(24)
    first, second = scene.queue(spec(90)), scene.queue(spec(10))
    assert says(scene, MoveJob(target=second, where="top")).accepted
    held(scene, second, 1.0, 9.0)
    assert order(scene) == [second, first]


def test_what_follows_another_begins_to_age_when_that_is_over() -> None:
    scene = Scene(24)
    leader = scene.queue(spec(99))
    follower = scene.queue(spec(50, after=(leader,)))
    young = at(scene, 2.0).queue(spec(50))
    assert order(scene) == [leader, follower, young]
    leader_over(scene, leader, 3.0)
    assert order(scene) == [young, follower]
    assert (job(scene, follower).unaged_s, job(scene, follower).follows_s) == (3 * HOUR_S, None)


def leader_over(scene: Scene, hid: str, at_h: float) -> None:
    """It ran and was cancelled: over in a way that an `after` waits for."""
    at(scene, at_h)
    scene.put(replace(job(scene, hid), started_s=T0_S))
    assert asks(scene, "cancel", hid) == "cancelled"


def test_one_that_follows_two_waits_for_both() -> None:
    scene = Scene(24)
    one, two = scene.queue(spec()), scene.queue(spec())
    follower = scene.queue(spec(after=(one, two)))
    leader_over(scene, one, 1.0)
    assert job(scene, follower).follows_s == T0_S
    leader_over(scene, two, 2.0)
    assert job(scene, follower).unaged_s == 2 * HOUR_S


def test_one_that_follows_by_the_name_of_its_own_recipe_does_not_follow_itself() -> None:
    scene = Scene(24)
    first = scene.queue(spec(name="train"), recipe="train")
    second = scene.queue(spec(name="train", after=("train",)), recipe="train")
    leader_over(scene, first, 1.0)
    assert (job(scene, second).unaged_s, job(scene, second).follows_s) == (HOUR_S, None)


def test_held_while_it_follows_is_one_time_and_not_two() -> None:
    scene = Scene(24)
    leader = scene.queue(spec())
    follower = scene.queue(spec(after=(leader,)))
    held(scene, follower, 1.0, 2.0)
    assert job(scene, follower).unaged_s == 0.0
    at(scene, 3.0)
    assert asks(scene, "hold", follower) == "hold"
    leader_over(scene, leader, 4.0)
    at(scene, 5.0)
    assert asks(scene, "release", follower) == "run"
    assert job(scene, follower).unaged_s == 5 * HOUR_S


def test_one_that_is_told_later_whom_it_follows_keeps_what_it_has_waited() -> None:
    scene = Scene(24)
    leader, other = scene.queue(spec()), scene.queue(spec())
    at(scene, 1.0)
    assert says(scene, EditJob(target=other, changes={"after": (leader,)})).accepted
    leader_over(scene, leader, 4.0)
    assert job(scene, other).unaged_s == 3 * HOUR_S


def test_one_that_follows_what_never_ran_is_held_and_released_as_if_it_came_then() -> None:
    scene = Scene(24)
    leader = scene.queue(spec())
    follower = scene.queue(spec(after=(leader,)))
    at(scene, 1.0)
    assert asks(scene, "cancel", leader) == "cancelled"
    at(scene, 2.0)
    assert asks(scene, "release", follower) == "run"
    assert (job(scene, follower).unaged_s, job(scene, follower).wish) == (2 * HOUR_S, "run")


def test_its_place_is_not_kept_for_time_in_which_it_did_not_wait() -> None:
    scene = Scene(24)
    hid = scene.queue(spec(), hold=True)
    held(scene, hid, 0.0, 5.0)
    (want,) = (want for want in rank.wants(at(scene, 5.2).s) if want.holder.id == hid)
    assert want.waited_s == pytest.approx(0.2 * HOUR_S)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 100), min_size=2, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.floats(0, 9000), st.floats(0, 9000)), max_size=6),
)
def test_holding_one_changes_the_order_of_no_two_others_and_brings_it_no_further(
    priorities: list[int], holds: list[tuple[int, float, float]]
) -> None:
    scene, now_s = Scene(24), T0_S
    for priority in priorities:
        now_s += 700.0
        scene.at(now_s).queue(spec(priority))
    for number, before_s, held_s in holds:
        hid = f"j{number % len(priorities) + 1}"
        now_s += before_s
        was = order(scene.at(now_s))
        assert says(scene, SetWish(target=hid, verb="hold")).accepted
        now_s += held_s
        assert says(scene.at(now_s), SetWish(target=hid, verb="release")).accepted
        line = order(scene)
        assert [one for one in line if one != hid] == [one for one in was if one != hid]
        assert line.index(hid) >= was.index(hid)
    for found in scene.s.holders.values():
        assert isinstance(found, Job)
        aged_s = scene.s.now_s - found.enqueued_s - found.unaged_s
        assert aged_s >= 0 and found.key == pytest.approx(
            scene.s.now_s - aged_s - AGE_S * found.spec.priority, abs=0.01
        )
