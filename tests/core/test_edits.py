"""Other values for what was said of a job, and forgetting jobs that are over."""

from __future__ import annotations

from typing import Any

import pytest

from headway.core import wishes
from headway.core.commands import ClearJobs, Command, EditJob, Reply, SetWish
from headway.core.edits import AGE_S
from headway.core.model import Job
from tests.core.make import Scene, job_spec

pytestmark = pytest.mark.core


def says(scene: Scene, command: Command) -> Reply:
    draft = scene.draft()
    reply = wishes.apply(draft, command)
    scene.s = draft.done()
    return reply


def edited(scene: Scene, target: str, **changes: Any) -> Reply:
    return says(scene, EditJob(target=target, changes=changes, by="ana"))


def of(scene: Scene, hid: str) -> Job:
    found = scene.s.holders[hid]
    assert isinstance(found, Job)
    return found


def order(scene: Scene) -> list[str]:
    return [hid for _, hid in scene.s.queue.get("gpu", ())]


def line(*specs: Any) -> Scene:
    scene = Scene(24)
    for spec in specs or (job_spec(), job_spec(), job_spec()):
        scene.queue(spec)
    return scene


def test_a_new_priority_is_a_new_place_in_the_line() -> None:
    scene = line()
    assert edited(scene, "j3", priority=51).accepted
    assert order(scene) == ["j3", "j1", "j2"]
    assert edited(scene, "j3", priority=50).accepted
    assert order(scene) == ["j1", "j2", "j3"], "and the old one is the old place"


def test_more_retries_are_more_attempts() -> None:
    scene = line(job_spec(retries=2))
    edited(scene, "j1", retries=5)
    assert of(scene, "j1").attempts_left == 5
    edited(scene, "j1", retries=0)
    assert of(scene, "j1").attempts_left == 0


def test_one_at_the_front_after_its_max_wait_stays_there_and_has_its_new_rank_after_its_run() -> None:
    scene = Scene(24).job(job_spec(priority=50), "stopped", key=-1e9, own_key=7.0, fronted=True)
    edited(scene, "train", priority=51)
    job = of(scene, "train")
    assert (job.key, job.own_key, job.fronted) == (-1e9, 7.0 - AGE_S, True)


def test_an_edit_holds_beside_what_its_recipe_says_from_its_next_start_on() -> None:
    scene = Scene(24).job(
        job_spec(goal="old"), "running", recipe="train", coming=job_spec(goal="old", retries=2)
    )
    edited(scene, "train", goal="new")
    coming = of(scene, "train").coming
    assert coming is not None and (coming.goal, coming.retries) == ("new", 2)


WRONG = {
    "nobody": ("nobody", {"priority": 1}, "not_found"),
    "its command": ("j1", {"argv": ("rm",)}, "not_editable"),
    "after nobody": ("j1", {"after": ("nobody",)}, "unknown_after"),
    "after itself, by way of two others": ("j1", {"after": ("j3",)}, "cycle"),
    "after one that waits for it": ("j2", {"after_ok": ("j3",)}, "cycle"),
}


@pytest.mark.parametrize(("target", "changes", "code"), WRONG.values(), ids=WRONG.keys())
def test_what_is_refused_changes_nothing(target: str, changes: dict[str, Any], code: str) -> None:
    scene = line()
    edited(scene, "j2", after=("j1",))
    edited(scene, "j3", after_ok=("j2",))
    before = scene.s.holders
    assert edited(scene, target, **changes).code == code
    assert scene.s.holders == before


def test_the_ring_is_told_in_its_order() -> None:
    scene = line()
    edited(scene, "j2", after=("j1",))
    edited(scene, "j3", after=("j2",))
    assert edited(scene, "j1", after=("j3",)).facts["ring"] == ["j1", "j3", "j2", "j1"]


def test_following_one_that_never_ran_is_held() -> None:
    scene = line()
    says(scene, SetWish(target="j1", verb="cancel"))
    edited(scene, "j2", after=("j1",))
    assert of(scene, "j2").wish == "hold"


# ---------------------------------------------------------------- clear


def test_what_is_over_is_forgotten_all_or_none() -> None:
    scene = Scene(24).job(job_spec("a"), "stopped", ended="done").job(job_spec("b"), "stopped")
    assert says(scene, ClearJobs(targets=("a", "b"))).code == "not_ended"
    assert set(scene.s.holders) == {"a", "b"}
    assert says(scene, ClearJobs(targets=("a",))).accepted
    assert set(scene.s.holders) == {"b"}


FOLLOWS = {
    # name: (how A ended, whether it ran, (the follower's after, after_ok) once A is forgotten)
    "a good end frees both": ("done", True, ((), ())),
    "a bad end frees who waits for any": ("failed", True, ((), ("a",))),
    "one that never ran frees nobody": ("cancelled", False, (("a",), ("a",))),
}


@pytest.mark.parametrize(("ended", "ran", "left"), FOLLOWS.values(), ids=FOLLOWS.keys())
def test_who_follows_what_is_forgotten(ended: Any, ran: bool, left: Any) -> None:
    scene = Scene(24).job(job_spec("a"), "stopped", ended=ended, started_s=900.0 if ran else None)
    scene.job(job_spec("b", after=("a",)), "stopped").job(job_spec("c", after_ok=("a",)), "stopped")
    assert says(scene, ClearJobs(targets=("a",))).accepted
    assert (of(scene, "b").spec.after, of(scene, "c").spec.after_ok) == left
