"""The next hours as expected: what is known of them, and what nobody can know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core.decide import decide
from headway.core.facts import JobTold
from headway.core.model import Job, Window
from headway.core.timeline import MOST, Span, timeline
from tests.core.make import T0_S, Scene, job_spec

pytestmark = pytest.mark.core

LIMITED = job_spec("first", running=14, placement="share", max_runtime_s=600.0)


def spans(scene: Scene) -> dict[str, Span]:
    return {one.id: one for one in timeline(scene.s, decide(scene.s).verdicts).spans}


def begins(one: Span) -> tuple[float | None, float | None, float | None]:
    return one.begins_low_s, one.begins_s, one.begins_high_s


def ends(one: Span) -> tuple[float | None, float | None, float | None]:
    return one.ends_low_s, one.ends_s, one.ends_high_s


def then(scene: Scene, **given: Any) -> Scene:
    """`second` waits in line."""
    return scene.job(job_spec("second", running=14, placement="share", **given), "stopped")


def scene_with_pace() -> Scene:
    """A job that is half done after 100 s: once at 0.25 in 40 s, once in 60 s."""
    scene = (
        Scene(24).ruled(max_active_jobs=4).job(job_spec("first", running=14, placement="share"), since_s=T0_S)
    )
    for at_s, progress in ((0.0, 0.0), (40.0, 0.25), (100.0, 0.5)):
        scene.at(T0_S + at_s).happens(JobTold(job="first", progress=progress))
    return scene


def test_the_next_begins_when_the_one_before_it_is_over_within_its_interval() -> None:
    scene = scene_with_pace()
    then(scene, max_runtime_s=50.0)
    found = spans(scene)
    assert ends(found["first"]) == (80.0, 100.0, 120.0)
    assert begins(found["second"]) == (80.0, 100.0, 120.0)
    assert found["second"].ends_s == 150.0 and found["second"].devices == ("gpu0",)


def test_what_says_nothing_of_its_length_leaves_the_next_without_a_latest_start() -> None:
    scene = Scene(24).job(job_spec("first", running=14, placement="share"))
    then(scene)
    found = spans(scene)
    assert ends(found["first"]) == (0.0, None, None)
    assert begins(found["second"]) == (0.0, None, None)


def test_an_awake_model_may_step_aside_at_once_or_never() -> None:
    scene = Scene(24).service()
    then(scene)
    assert begins(spans(scene)["second"]) == (0.0, None, None)


def test_one_that_fits_beside_what_runs_begins_now() -> None:
    scene = Scene(40).ruled(max_active_jobs=4).job(LIMITED)
    then(scene)
    assert begins(spans(scene)["second"]) == (0.0, 0.0, 0.0)


def test_the_places_of_a_lane_count_as_the_memory_does() -> None:
    scene = Scene(80).ruled(max_active_jobs=1).job(replace(LIMITED, max_runtime_s=None))
    then(scene)
    assert begins(spans(scene)["second"]) == (0.0, None, None)


def test_who_follows_another_begins_after_it_and_not_before_a_held_one_is_released() -> None:
    scene = Scene(80).ruled(max_active_jobs=4).job(LIMITED)
    then(scene, after=("first",))
    found = spans(scene)
    assert found["second"].begins_high_s == found["first"].ends_high_s is not None
    held = scene.s.holders["first"]
    assert isinstance(held, Job)
    scene.put(replace(held, form="stopped", wish="hold", started_s=None))
    assert begins(spans(scene)["second"]) == (None, None, None)


@pytest.mark.parametrize(("wish", "code"), [("hold", None), ("run", "never_fits")])
def test_what_time_alone_does_not_start_has_no_time_and_takes_no_place(wish: str, code: str | None) -> None:
    scene = Scene(24)
    stuck = job_spec("stuck", running=14 if wish == "hold" else 99, placement="share")
    scene.job(stuck, "stopped", wish=wish, key=-1e9)
    then(scene)
    found = spans(scene)
    assert begins(found["second"]) == (0.0, 0.0, 0.0)
    if code:
        assert (found["stuck"].code, begins(found["stuck"])) == (code, (None, None, None))
    else:
        assert "stuck" not in found, "held jobs are in no line"


@pytest.mark.parametrize("code", ["outside_window", "no_way_aside"])
def test_while_no_window_is_to_come_who_waits_for_one_has_no_time_and_nobody_waits_for_it(code: str) -> None:
    scene = Scene(24).ruled(max_active_jobs=1)
    if code == "outside_window":
        first = job_spec("first", running=14, placement="window")
    else:
        first = job_spec("first", running=14, steps_aside=False)
        scene.service(form="stopped")
    scene.job(first, "stopped", key=-1e9)
    scene.job(job_spec("follows", running=1, placement="share", after=("first",)), "stopped", key=-1e8)
    then(scene)
    found = spans(scene)
    assert (found["first"].code, begins(found["first"])) == (code, (None, None, None))
    assert begins(found["follows"]) == (None, None, None)
    assert begins(found["second"]) == (0.0, 0.0, 0.0)
    window = Window(id="w1", kind="slow_wake", begin_s=T0_S + 500.0, end_s=T0_S + 900.0)
    scene.s = replace(scene.s, windows=(window,))
    assert spans(scene)["first"].begins_low_s == 500.0


def test_only_the_first_of_a_long_line_are_guessed_and_the_rest_is_counted() -> None:
    scene = Scene(24)
    for number in range(MOST + 5):
        scene.job(job_spec(f"n{number:02}", running=14, placement="share"), "stopped")
    found = timeline(scene.s, {})
    assert (len(found.spans), found.more) == (MOST, 5)


def test_a_parked_job_is_the_first_to_come_back() -> None:
    spec = job_spec("parks", running=14, parked=1, placement="share", max_runtime_s=600.0)
    scene = Scene(24).job(spec, "parked")
    then(scene)
    found = spans(scene)
    assert begins(found["parks"]) == (0.0, 0.0, 0.0)
    assert isinstance(scene.s.holders["parks"], Job)
    assert (found["second"].begins_s or 0.0) > 0.0


def test_several_ways_are_always_in_order() -> None:
    scene = scene_with_pace()
    for number in range(6):
        size = (3, 20, 9)[number % 3]
        limit_s = (30.0, None)[number % 2]
        scene.job(job_spec(f"n{number}", running=size, placement="share", max_runtime_s=limit_s), "stopped")
    for one in spans(scene).values():
        for three in (begins(one), ends(one)):
            known = [value for value in three if value is not None]
            assert known == sorted(known)
