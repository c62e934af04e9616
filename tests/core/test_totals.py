"""A device that shows only how much is used, not by whom: whose bytes those are is said by elimination."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.decide import decide, target
from headway.core.model import Move
from tests.core.make import T0_S, Scene, dev, gib, job_spec, reading, service_spec
from tests.core.test_facts import gone

pytestmark = pytest.mark.core

GPU = dev("gpu0")


def totals(scene: Scene, used: float) -> Scene:
    """Its meter shows that much of 24 GiB in use, and no processes."""
    bytes_: dict[str, Any] = {"used_bytes": gib(used), "free_bytes": gib(24) - gib(used)}
    return scene.at(scene.s.now_s + 1.0).fold(reading("gpu0", 24, scene.s.now_s, per_process=False, **bytes_))


def guessed(form: str = "awake", **more: Any) -> Scene:
    """A model of which nobody said what it needs."""
    return Scene(24).service(service_spec(awake=None, asleep=1), form, seen_bytes={}, **more)


def beside(scene: Scene, need: float | None, parked: bool = False) -> Scene:
    spec = job_spec("work", need, 2, placement="share")
    return scene.job(spec, "parked" if parked else "running", seen_bytes={})


WHOSE = {
    # name: (scene, GiB in use, whose GiB, GiB of strangers)
    "all of it is of the one whose need is not known": (guessed(), 17, {"chat": 17}, 0),
    "beside a parked job all but what that keeps": (beside(guessed(), 10, parked=True), 17, {"chat": 15}, 0),
    "what is needed by those who said so is theirs, not a stranger's": (
        beside(Scene(24), 10),
        12,
        {},
        2,
    ),
    "nothing is a stranger's where less is used than they said": (beside(Scene(24), 10), 7, {}, 0),
    "of one that sleeps what it keeps by its own word": (guessed("asleep"), 4, {}, 3),
    "of one that stopped nothing": (guessed("stopped"), 4, {}, 4),
    "of one that is coming nothing yet": (
        guessed("stopped", devices=(GPU,)).under_way("chat", "stopped", "awake"),
        4,
        {},
        4,
    ),
}


@pytest.mark.parametrize(("scene", "used", "whose", "strangers"), WHOSE.values(), ids=WHOSE.keys())
def test_whose_bytes_those_are(scene: Scene, used: float, whose: dict[str, float], strangers: float) -> None:
    totals(scene, used)
    held = {hid: h.seen_bytes[GPU] for hid, h in scene.s.holders.items() if h.seen_bytes}
    assert held == {hid: gib(size) for hid, size in whose.items()}
    assert scene.s.devices[GPU].foreign_bytes == gib(strangers)


@given(st.floats(0.0, 24.0), st.floats(0.5, 8.0), st.booleans())
def test_what_is_used_is_never_counted_twice_and_never_lost(used: float, need: float, unknown: bool) -> None:
    scene = beside(guessed() if unknown else Scene(24), need, parked=unknown)
    totals(scene, used)
    parts = [max(h.seen_bytes.get(GPU, 0), h.need_bytes(h.form) or 0) for h in scene.s.holders.values()]
    device = scene.s.devices[GPU]
    assert device.used_bytes is not None
    assert sum(parts) + device.foreign_bytes >= device.used_bytes - len(parts), "as much as is used"
    if unknown:
        assert device.foreign_bytes == 0, "it has the device alone"
    elif sum(parts) <= device.used_bytes:
        assert sum(parts) + device.foreign_bytes == device.used_bytes


def test_a_job_pushes_a_model_of_unknown_need_there_too() -> None:
    scene = guessed(since_s=T0_S - 400.0, last_end_s=T0_S - 300.0)
    scene.queue(job_spec("train", 14))
    assert target(totals(scene, 17).s)[1]["j1"].code == "goes"


def test_and_starts_where_it_left_when_the_total_fell() -> None:
    scene = guessed("stopped")
    scene.queue(job_spec("train", 14))
    assert list(begun(totals(scene, 17))) == []
    assert list(begun(totals(scene, 1))) == [("j1", "running")]


def begun(scene: Scene) -> Iterable[tuple[str, str]]:
    return ((move.holder, move.form) for move in decide(scene.s).actions if isinstance(move, Move))


def test_its_need_is_learned_when_it_leaves_and_only_then() -> None:
    scene = totals(guessed(since_s=T0_S - 400.0), 17)
    assert scene.s.holders["chat"].need_bytes("awake") is None
    scene.happens(gone("chat", -9))
    assert scene.s.holders["chat"].need_bytes("awake") == gib(17)


def let_in(used: float, since_s: float) -> Scene:
    """Strangers hold 15 GiB; then a job that needs 7 is let in, and so much is in use at the next reading."""
    scene = totals(Scene(24), 15)
    scene.job(job_spec("work", 7, placement="share"), "running", seen_bytes={}, since_s=since_s)
    return totals(scene, used)


ARRIVED = {
    # name: (GiB in use, how long it runs already, GiB of strangers)
    "that it was let in makes the strangers' no less": (15, 1.0, 15),
    "nor does half of its need": (18, 1.0, 15),
    "once it took all of it the sum is right": (22, 1.0, 15),
    "a stranger who left meanwhile is gone": (3, 1.0, 3),
    "after a minute it holds what it needs": (15, 61.0, 8),
}


@pytest.mark.parametrize(("used", "runs_s", "strangers"), ARRIVED.values(), ids=ARRIVED.keys())
def test_one_who_was_just_let_in(used: float, runs_s: float, strangers: float) -> None:
    assert let_in(used, T0_S - runs_s).s.devices[GPU].foreign_bytes == gib(strangers)


def test_nobody_else_is_let_in_to_what_it_has_yet_to_take() -> None:
    scene = let_in(15, T0_S - 1.0)
    scene.queue(job_spec("more", 7, placement="share"))
    assert list(begun(totals(scene, 15))) == []
