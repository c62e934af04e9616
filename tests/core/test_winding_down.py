"""`winddown`: it works on to its next saved point and stops there, so that nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.commands import SetWish
from headway.core.decide import decide
from headway.core.facts import JobTold
from headway.core.model import Job, Move
from headway.core.wishes import apply
from tests.core.make import T0_S, Scene, job_spec

pytestmark = pytest.mark.core

SPEC = job_spec(saved=("show", "point"), placement="share")


def asked(saved: JobTold | None = None) -> Scene:
    """A job that somebody asked to wind down, ten seconds ago; `saved` is what it said before that."""
    scene = Scene(24).job(SPEC)
    if saved is not None:
        scene.happens(saved)
    draft = scene.draft()
    assert apply(draft, SetWish(target="train", verb="wind_down", by="ana")).accepted
    scene.s = draft.done()
    return scene.at(T0_S + 10.0).read()


def says(point: str | None, age_s: float | None) -> JobTold:
    return JobTold(job="train", saved_point=point, saved_age_s=age_s, progress=0.5)


def stops(scene: Scene) -> bool:
    return [m.form for m in decide(scene.s).actions if isinstance(m, Move)] == ["stopped"]


TOLD = {
    # name: (said before it was asked, what it says ten seconds later, does it stop?)
    "nothing yet": (None, (), False),
    "a point from before it was asked": (None, (says("a", 12.0),), False),
    "the same point again, some seconds older": (says("a", 1.0), (says("a", 11.0),), False),
    "a point from after it was asked, which is older than a moment": (None, (says("b", 4.0),), True),
    "a point at the very moment that it was asked": (None, (says("b", 10.0),), True),
    "a point of right now": (None, (says("b", 0.0),), True),
    "one that it said before, saved anew under the same name": (says("a", 5.0), (says("a", 2.0),), True),
    "a new point, without its age": (says("a", None), (says("b", None),), True),
    "the same point, without its age": (says("a", None), (says("a", None),), False),
    "its progress only": (None, (says(None, None),), False),
    "an old point, then a new one, then the new one grown older": (
        None,
        (says("a", 40.0), says("b", 1.0), says("b", 6.0)),
        True,
    ),
}


@pytest.mark.parametrize(("before", "told", "expected"), TOLD.values(), ids=TOLD.keys())
def test_it_stops_at_the_first_point_that_it_saves_after_it_was_asked(
    before: JobTold | None, told: tuple[JobTold, ...], expected: bool
) -> None:
    scene = asked(before)
    scene.happens(*told)
    assert stops(scene) is expected


@given(st.floats(1.0, 300.0), st.floats(0.0, 300.0), st.floats(0.5, 10.0))
def test_whatever_the_pace_at_which_it_saves_and_is_asked_it_stops_soon_after_its_next_point(
    saves_every_s: float, first_s: float, told_every_s: float
) -> None:
    scene = asked()
    asked_s, looks = T0_S, 0
    next_point_s = asked_s + first_s
    while looks < 10_000:
        looks += 1
        scene.at(scene.s.now_s + told_every_s)
        now_s = scene.s.now_s
        points = int((now_s - next_point_s) // saves_every_s) + 1 if now_s >= next_point_s else 0
        last_s = next_point_s + (points - 1) * saves_every_s if points else asked_s - 50.0
        scene.happens(says(f"p{points}", now_s - last_s))
        if points:
            break
        assert not stops(scene), "it would lose what it did since its last point"
    assert stops(scene.read())


@pytest.mark.parametrize("wish", ["run", "hold"])
def test_one_that_was_not_asked_to_goes_on(wish: str) -> None:
    scene = Scene(24).job(SPEC, wish=wish)
    scene.happens(says("a", 3.0), says("b", 1.0))
    job = scene.s.holders["train"]
    assert isinstance(job, Job) and job.saved_age_s == 1.0, "its age is as it was told"
    assert not stops(scene.read())


def test_one_that_never_saves_ends_by_itself() -> None:
    scene = Scene(24).job(job_spec(placement="share"), wish="wind_down", wish_s=T0_S)
    scene.happens(says(None, None))
    assert not stops(scene.read())
