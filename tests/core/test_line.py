"""max_wait: who has waited long enough goes to the front of the line, and nowhere past its rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.commands import MoveJob, SetWish
from headway.core.decide import decide
from headway.core.ends import run_ended
from headway.core.fold import decided
from headway.core.model import Job, Run
from headway.core.words import position
from tests.core.make import T0_S, Scene, job_spec
from tests.core.test_wishes import says

pytestmark = pytest.mark.core


def turn(scene: Scene, now_s: float) -> list[str]:
    """A turn at that time; the line after it."""
    draft = scene.at(now_s).draft()
    decided(draft, decide(draft.view()))
    scene.s = draft.done()
    return line(scene)


def line(scene: Scene) -> list[str]:
    return [hid for _, hid in scene.s.queue.get("gpu", ())]


def spec(max_wait_s: float | None = 100.0, **given: Any) -> Any:
    return job_spec(running=900, max_wait_s=max_wait_s, **given)  # it can never start: only its place matters


def test_who_has_waited_long_enough_goes_to_the_front_behind_those_that_went_before() -> None:
    scene = Scene(24)
    first = scene.queue(spec(priority=20))
    second = scene.at(T0_S + 10.0).queue(spec(priority=20))
    high = scene.queue(spec(None, priority=80))
    assert turn(scene, T0_S + 99.0) == [high, first, second]
    assert decide(scene.s).recheck_at_s == T0_S + 100.0
    assert turn(scene, T0_S + 100.0) == [first, high, second]
    assert turn(scene, T0_S + 110.0) == [first, second, high]
    late = scene.queue(spec(None, priority=100))
    assert turn(scene, T0_S + 120.0) == [first, second, late, high]
    assert position(job(scene, first), scene.s) == 1


def job(scene: Scene, hid: str) -> Job:
    found = scene.s.holders[hid]
    assert isinstance(found, Job)
    return found


def test_moving_by_hand_begins_its_wait_anew() -> None:
    scene = Scene(24)
    one, other = scene.queue(spec()), scene.queue(spec(None))
    scene.at(T0_S + 90.0)
    assert says(scene, MoveJob(target=one, where="bottom")).accepted
    assert turn(scene, T0_S + 189.0) == [other, one]
    assert turn(scene, T0_S + 190.0) == [one, other]


def test_what_is_held_does_not_wait() -> None:
    scene = Scene(24)
    one, other = scene.queue(spec(priority=20)), scene.queue(spec(None))
    scene.at(T0_S + 50.0)
    assert says(scene, SetWish(target=one, verb="hold")).accepted
    assert turn(scene, T0_S + 150.0) == [other]
    assert says(scene, SetWish(target=one, verb="release")).accepted
    assert turn(scene, T0_S + 199.0) == [other, one]
    assert turn(scene, T0_S + 200.0) == [one, other]


def test_one_that_follows_another_waits_for_that_and_not_for_its_turn() -> None:
    scene = Scene(24)
    first = scene.queue(spec(None))
    second = scene.queue(spec(after=(first,)))
    assert turn(scene, T0_S + 150.0) == [first, second]
    assert says(scene, SetWish(target=first, verb="cancel")).accepted
    scene.put(replace(job(scene, second), wish="run", spec=spec()))
    other = scene.queue(spec(None, priority=100))
    assert turn(scene, T0_S + 209.0) == [other, second]
    assert turn(scene, T0_S + 210.0) == [second, other]


def test_the_front_of_the_line_is_no_exemption() -> None:
    scene = Scene(24).service(active=1, active_since_s=T0_S)
    one = scene.queue(job_spec(max_wait_s=10.0))
    turn(scene, T0_S + 20.0)
    assert job(scene, one).fronted
    assert decide(scene.read().s).verdicts[one].code == "beside_model"


def test_one_that_comes_back_to_the_line_begins_to_wait_anew_with_its_own_rank() -> None:
    scene = Scene(24).job(job_spec(max_wait_s=10.0), key=-1e9, own_key=7.0, fronted=True)
    draft = scene.draft()
    run_ended(draft, replace(job(scene, "train"), run=Run(id="train.1", lock_held=False, pid=1)))
    back = draft.done().holders["train"]
    assert (back.key, back.fronted, back.waits_from_s) == (7.0, False, T0_S)  # type: ignore[attr-defined]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 500), st.integers(0, 100), st.sampled_from([None, 5.0, 60.0, 200.0])),
        max_size=8,
    )
)
def test_the_order_changes_by_itself_only_for_who_is_due(jobs: list[tuple[float, int, float | None]]) -> None:
    scene, now_s = Scene(24), T0_S
    for after_s, priority, max_wait_s in jobs:
        now_s += after_s
        before = turn(scene, now_s)
        scene.queue(spec(max_wait_s, priority=priority))
        after = turn(scene, now_s)
        assert [hid for hid in after if hid in before] == before
        assert [j.fronted for j in line_of(scene)] == sorted(
            (j.fronted for j in line_of(scene)), reverse=True
        )
    for _ in range(3):
        now_s += 70.0
        was = [(j.id, j.fronted) for j in line_of(scene)]
        turn(scene, now_s)
        there = line_of(scene)
        assert [j.fronted for j in there] == sorted((j.fronted for j in there), reverse=True)
        for kind in (
            True,
            False,
        ):  # within those that went before, and within those that stay, nothing changes
            stays = [hid for hid, fronted in was if fronted == kind and job(scene, hid).fronted == kind]
            assert [j.id for j in there if j.id in stays] == stays
        dues = [(j.waits_from_s or j.enqueued_s) + (j.spec.max_wait_s or 0.0) for j in there if j.fronted]
        assert dues == sorted(dues)


def line_of(scene: Scene) -> list[Job]:
    return [job(scene, hid) for hid in line(scene)]
