"""The line of jobs: ids, priorities, lanes, and moving by hand."""

from __future__ import annotations

import pytest

from headway.core import wishes
from headway.core.commands import MoveJob
from headway.core.draft import Draft
from tests.core.make import Scene, job_spec
from tests.core.test_wishes import asks, job, says

pytestmark = pytest.mark.core


def order(scene: Scene) -> list[str]:
    return [hid for _, hid in scene.s.queue.get("gpu", ())]


def test_ids_are_never_used_twice() -> None:
    scene = Scene(24)
    first = scene.queue()
    asks(scene, "cancel", first)
    draft = scene.draft()
    draft.drop(first)
    scene.s = draft.done()
    assert scene.queue() == "j2"


def test_priority_is_worth_half_an_hour_a_point() -> None:
    scene = Scene(24)
    normal = scene.queue(job_spec(priority=50))
    scene.at(scene.s.now_s + 1799)
    better = scene.queue(job_spec(priority=51))
    assert order(scene) == [better, normal]
    scene = Scene(24)
    normal = scene.queue(job_spec(priority=50))
    scene.at(scene.s.now_s + 1801)
    assert order(scene) == [normal] and scene.queue(job_spec(priority=51)) == "j2"
    assert order(scene) == ["j1", "j2"]


MOVES = {
    "to the top": (MoveJob(target="j3", where="top"), ["j3", "j1", "j2", "j4"]),
    "to the bottom": (MoveJob(target="j1", where="bottom"), ["j2", "j3", "j4", "j1"]),
    "before another": (MoveJob(target="j4", where="before", other="j2"), ["j1", "j4", "j2", "j3"]),
    "after another": (MoveJob(target="j1", where="after", other="j3"), ["j2", "j3", "j1", "j4"]),
    "to where it is": (MoveJob(target="j2", where="after", other="j1"), ["j1", "j2", "j3", "j4"]),
}


@pytest.mark.parametrize("name", MOVES)
def test_moving_by_hand(name: str) -> None:
    command, expected = MOVES[name]
    scene = Scene(24)
    for _ in range(4):
        scene.queue()
    assert says(scene, command).accepted
    assert order(scene) == expected


def test_moving_again_and_again_between_the_same_two_never_loses_its_place() -> None:
    scene = Scene(24)
    for _ in range(3):
        scene.queue()
    for _ in range(200):
        first, _, last = order(scene)
        says(scene, MoveJob(target=last, where="after", other=first))
        assert order(scene)[:2] == [first, last]


def test_a_move_in_an_order_that_its_asker_did_not_see_is_refused() -> None:
    """Also when the order changed in the very turn that carries the move out."""
    scene = Scene(24)
    for _ in range(3):
        scene.queue()
    seen = scene.s.queue["gpu"]
    first = MoveJob(target="j3", where="top", seen=seen)
    draft = Draft(scene.s, scene.s.now_s)
    assert wishes.apply(draft, first).accepted
    assert wishes.apply(draft, MoveJob(target="j2", where="top", seen=seen)).code == "order_changed"
    assert [hid for _, hid in draft.done().queue["gpu"]] == ["j3", "j1", "j2"]


def test_what_has_ended_is_not_moved() -> None:
    scene = job(ended="done")
    assert says(scene, MoveJob(target="train", where="top")).code == "already_ended"
    assert says(Scene(24).service(), MoveJob(target="chat", where="top")).code == "not_a_job"


def test_lanes() -> None:
    scene = Scene(24)
    gpu, cpu, held = scene.queue(), scene.queue(job_spec(count=0)), scene.queue(hold=True)
    assert {lane: [hid for _, hid in line] for lane, line in scene.s.queue.items()} == {
        "gpu": [gpu],
        "cpu": [cpu],
        "held": [held],
    }
