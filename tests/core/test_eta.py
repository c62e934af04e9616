"""How much longer jobs take, and when all of them would be over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core import eta, view
from headway.core.decide import decide
from headway.core.facts import JobTold
from headway.core.model import Job
from tests.core.make import T0_S, Scene, job_spec

pytestmark = pytest.mark.core

SPEC = job_spec(placement="share")


def of(scene: Scene) -> Job:
    found = scene.s.holders["train"]
    assert isinstance(found, Job)
    return found


def tells(scene: Scene, *told: tuple[float, float]) -> Scene:
    """At these seconds after its start it says that it is so far."""
    for at_s, progress in told:
        scene.at(T0_S + at_s).happens(JobTold(job="train", progress=progress))
    return scene


def left(scene: Scene) -> eta.Left | None:
    return eta.left(of(scene), scene.s, eta.lengths(scene.s))


def test_at_an_even_pace_it_is_exact_and_goes_down_between_two_words() -> None:
    scene = tells(Scene(24).job(SPEC, since_s=T0_S), (0, 0.0), (10, 0.1), (20, 0.2))
    found = left(scene)
    assert found is not None and found.s == pytest.approx(80.0)
    scene.at(T0_S + 25.0)
    found = left(scene)
    assert found is not None and found.s == pytest.approx(75.0)


def test_one_word_alone_says_nothing_of_a_pace() -> None:
    assert left(tells(Scene(24).job(SPEC, since_s=T0_S), (5, 0.5))) is None


@given(st.lists(st.tuples(st.floats(0.5, 50.0), st.floats(0.011, 0.09)), min_size=2, max_size=10))
def test_the_interval_holds_the_guess_and_what_is_left_is_never_negative(
    steps: list[tuple[float, float]],
) -> None:
    scene, at_s, progress = Scene(24).job(SPEC, since_s=T0_S), 0.0, 0.0
    for wait_s, more in [(0.0, 0.0), *steps]:
        at_s, progress = at_s + wait_s, min(1.0, progress + more)
        tells(scene, (at_s, progress))
    found = left(scene)
    assert found is not None
    assert 0.0 <= found.low_s <= found.s + 1e-6 and found.s <= found.high_s + 1e-6


def test_parked_time_is_no_time_of_its_pace() -> None:
    scene = Scene(24).job(job_spec(parked=1, placement="share"), since_s=T0_S)
    tells(scene, (0, 0.0), (10, 0.1))
    scene.put(replace(of(scene), form="parked", since_s=T0_S + 10.0, ran_s=10.0))
    scene.at(T0_S + 5000.0)
    scene.put(replace(of(scene), form="running", since_s=T0_S + 5000.0))
    tells(scene, (5010, 0.2))
    found = left(scene)
    assert found is not None and found.s == pytest.approx(80.0)


def test_one_that_began_anew_forgets_what_lies_ahead_of_it() -> None:
    scene = tells(Scene(24).job(SPEC, since_s=T0_S), (0, 0.0), (10, 0.5), (20, 0.9), (30, 0.5))
    assert [progress for _, progress in of(scene).marks] == [0.0, 0.5]


def test_a_recipe_takes_as_long_as_it_took_before() -> None:
    scene = Scene(24)
    for number, ran_s in enumerate((100.0, 300.0, 200.0)):
        scene.job(SPEC, "stopped", id=f"old{number}", recipe="train", ended="done", ran_s=ran_s)
    scene.job(SPEC, "stopped", recipe="train")
    assert left(scene) == eta.Left(200.0, 100.0, 300.0)
    scene.job(SPEC, recipe="train", since_s=T0_S - 250.0)
    assert left(scene) == eta.Left(0.0, 0.0, 50.0)


def test_work_that_was_lost_has_to_be_done_again() -> None:
    scene = Scene(24).job(SPEC, "stopped", id="old", recipe="train", ended="done", ran_s=100.0)
    scene.job(SPEC, "stopped", recipe="train", ran_s=60.0, lost_s=60.0)
    found = left(scene)
    assert found is not None and found.s == 100.0


def test_the_outlook_is_over_all_that_run_or_wait_and_counts_whom_it_knows_nothing_of() -> None:
    scene = Scene(24)
    two = job_spec(placement="share", count=2)
    scene.job(SPEC, "stopped", id="old", recipe="train", ended="done", ran_s=3600.0)
    scene.job(SPEC, id="a", recipe="train", since_s=T0_S - 1800.0)
    scene.job(two, "stopped", id="b", recipe="train").job(job_spec("new"), "stopped")
    scene.job(SPEC, "stopped", id="c", recipe="train", wish="hold")
    found = view.outlook(scene.s, decide(scene.s).verdicts)
    assert (found.jobs, found.unknown) == (3, 1)
    assert found.left_s == 1800.0 + 3600.0 and found.gpu_hours == pytest.approx(0.5 + 2.0)


def test_who_is_next_is_who_waits_for_room_not_for_another_job() -> None:
    scene = Scene(24).job(SPEC, id="a")
    scene.job(job_spec("b", after=("a",)), "stopped", key=-9.0).job(job_spec("c"), "stopped")
    assert view.outlook(scene.s, decide(scene.s).verdicts).next == "c"


def test_nothing_to_do_is_an_empty_outlook() -> None:
    found = view.outlook(Scene(24).s, {})
    assert (found.jobs, found.next, found.left_s) == (0, None, 0.0)
