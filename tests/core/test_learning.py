"""What is learned of a need that nobody declared: never less than it is, whatever happens while it is looked at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.make import T0_S, Scene, dev, gib, job_spec, service_spec
from tests.core.test_facts import gone

pytestmark = pytest.mark.core

GPU = (dev("gpu0"),)
LEARNED = {
    # name: (from, to, or None for no move; learned GiB or None)
    "it ended at work": (None, 14.0),
    "it ended while it was being parked": (("running", "parked"), None),
    "it ended while it was being frozen": (("running", "frozen"), None),
    "it ended while it was being stopped": (("running", "stopped"), None),
}


def working(held: float, since_s: float = T0_S - 400.0) -> Scene:
    """A job whose need nobody declared, and what it holds now."""
    spec = job_spec(running=None, parked=1, resumable=True)
    return Scene(24).job(spec, seen_bytes={GPU[0]: gib(held)}, since_s=since_s)


@pytest.mark.parametrize(("move", "learned"), LEARNED.values(), ids=LEARNED.keys())
def test_what_it_held_last_is_its_need_unless_it_was_giving_it_back(
    move: tuple[str, str] | None, learned: float | None
) -> None:
    scene = working(14)
    if move is not None:
        scene.under_way("train", *move)
    scene.happens(gone(code=1))
    assert scene.s.holders["train"].need_bytes("running") == (None if learned is None else gib(learned))


@given(
    st.sampled_from(["parked", "frozen", "stopped"]),
    st.floats(0.1, 13.9),
    st.floats(1.0, 1e5),
    st.sampled_from([0, 1, -9, None]),
)
def test_a_part_that_is_left_while_it_leaves_is_never_taken_for_its_need(
    to: str, left: float, ran_s: float, code: int | None
) -> None:
    scene = working(left, since_s=T0_S - ran_s).under_way("train", "running", to)
    scene.happens(gone(code=code))
    assert scene.s.holders["train"].need_bytes("running") is None


@given(st.floats(0.1, 13.9), st.sampled_from(["asleep", "stopped"]))
def test_nor_is_it_of_a_model(left: float, to: str) -> None:
    scene = Scene(24).service(service_spec(awake=None, asleep=1), seen_bytes={GPU[0]: gib(left)})
    scene.under_way("chat", "awake", to)
    scene.happens(gone("chat", -9))
    assert scene.s.holders["chat"].need_bytes("awake") is None
