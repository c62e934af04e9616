"""Who may pass a head for whom a place is kept: only who is known to be over before that one starts."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core import eta, view
from headway.core.decide import decide, target
from headway.core.model import Job, Policy, Service
from tests.core.lease_scene import held
from tests.core.make import T0_S, Scene, dev, job_spec, service_spec
from tests.core.scenes import crowds, deep, scenes

pytestmark = pytest.mark.core

HOUR_S = 3600.0
ROOMY = Policy(max_active_jobs=9)


def over(scene: Scene, name: str, *ran_s: float) -> Scene:
    """Runs of that recipe that ended well, each after so long."""
    for n, time_s in enumerate(ran_s):
        done: dict[str, Any] = {"ended": "done", "ended_s": T0_S - 100.0 + n, "ran_s": time_s}
        scene.job(job_spec(name), "stopped", id=f"{name}-{n}", **done)
    return scene


def busy(name: str = "busy", need: float = 14, left_s: float | None = HOUR_S, **given: Any) -> Scene:
    """A job that runs, stronger than the head, and is over in so long."""
    scene = Scene(24, policy=given.pop("policy", ROOMY))
    return add_busy(scene, name, need, left_s, **given)


def add_busy(
    scene: Scene, name: str = "busy", need: float = 14, left_s: float | None = HOUR_S, **given: Any
) -> Scene:
    if left_s is not None:
        over(scene, name, 400.0 + left_s)  # it has run for 400 s
    return scene.job(job_spec(name, need, placement="share"), key=-2e9, **given)


def head(scene: Scene, need: float = 14, waited_s: float = 1801.0, **given: Any) -> Scene:
    enqueued_s = T0_S - waited_s
    return scene.job(job_spec("head", need, **given), "stopped", enqueued_s=enqueued_s, key=-1e9)


def small(scene: Scene, takes_s: float | None = 60.0, **given: Any) -> Scene:
    """One that would fit now, behind the head."""
    if takes_s is not None:
        over(scene, "small", takes_s)
    return scene.job(job_spec("small", **{"running": 2, "placement": "share", **given}), "stopped").read()


CASES = {
    # name: (scene, what is said of the one that would fit)
    "one that is over before the head starts goes": (small(head(busy()), HOUR_S), "goes"),
    "one that takes a second longer does not": (small(head(busy()), HOUR_S + 1), "kept"),
    "nor one of which nothing is known": (small(head(busy()), None), "kept"),
    "nor anybody, while nothing says when the head starts": (small(head(busy(left_s=None)), 1.0), "kept"),
    "the longest of its runs before counts, not the usual one": (
        small(over(head(busy()), "small", 60.0, 60.0, 60.0, 2 * HOUR_S)),
        "kept",
    ),
    "with a max_runtime its end is known": (small(head(busy()), None, max_runtime_s=HOUR_S), "goes"),
    "one that is too long is not": (small(head(busy()), None, max_runtime_s=HOUR_S + 1), "kept"),
    "and while it saves it may take longer than that": (
        small(head(busy()), None, max_runtime_s=HOUR_S, saved=("saved",)),
        "kept",
    ),
    "a head that has waited for less keeps nothing": (small(head(busy(), waited_s=1799.0), None), "goes"),
    "nor one that waits for another job": (small(head(busy(), after=("busy",)), None), "goes"),
    "nor one that runs in windows only": (small(head(busy(), placement="window"), None), "goes"),
    "nor one that could never fit": (small(head(busy(), 25.0), None), "goes"),
    "a job without a device passes": (small(head(busy()), None, running=0, count=0), "goes"),
    "with the max_runtime of who is there the head's start is known": (
        small(
            head(
                Scene(24, policy=ROOMY).job(
                    job_spec("busy", 14, placement="share", max_runtime_s=HOUR_S), key=-2e9, ran_s=0.0
                )
            ),
            HOUR_S - 400.0,
        ),
        "goes",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_who_may_pass(name: str) -> None:
    scene, code = CASES[name]
    verdicts = decide(scene.s).verdicts
    assert verdicts["small"].code == code, verdicts


@pytest.mark.parametrize(("takes_s", "code"), [(600.0, "goes"), (601.0, "kept")])
def test_a_lease_says_when_it_is_over_by_its_time(takes_s: float, code: str) -> None:
    scene = Scene(24, policy=ROOMY)
    held(scene, 12, expires_s=T0_S + 600.0)
    assert decide(small(head(scene), takes_s).s).verdicts["small"].code == code


def test_the_sentence_says_for_whom_it_is_kept_since_when_until_when_and_what_this_one_takes() -> None:
    scene = small(head(busy()), 2 * HOUR_S)
    facts = decide(scene.s).verdicts["small"].facts
    assert facts == {"for": "head", "waited_s": 1801.0, "starts_in_s": HOUR_S, "takes_s": 2 * HOUR_S}
    why = view.explain("small", scene.s, decide(scene.s).verdicts)
    assert "head" in why.sentence and "30 min" in why.sentence and why.help == "headway why head"


def test_the_place_is_where_the_head_starts_first_and_the_others_are_free() -> None:
    scene = Scene(24, 24, policy=ROOMY)
    add_busy(scene, "long", 20, 9 * HOUR_S, on=("gpu0",))
    add_busy(scene, "soon", 21, HOUR_S, on=("gpu1",))
    small(head(scene), None, running=2)
    plan, verdicts = target(scene.s)
    assert plan.reserved == {dev("gpu1"): "head"}
    assert verdicts["small"].code == "goes" and plan.placed["small"][1] == (dev("gpu0"),)


def test_a_head_for_two_devices_has_both_kept_and_starts_with_the_later_one() -> None:
    scene = Scene(24, 24, policy=ROOMY)
    add_busy(scene, "one", 20, HOUR_S, on=("gpu0",))
    add_busy(scene, "two", 20, 2 * HOUR_S, on=("gpu1",))
    small(head(scene, count=2), 2 * HOUR_S)
    plan, verdicts = target(scene.s)
    assert plan.reserved == {dev("gpu0"): "head", dev("gpu1"): "head"}
    assert plan.heads["head"].starts_s == T0_S + 2 * HOUR_S and verdicts["small"].code == "goes"


def test_the_last_place_of_a_line_is_kept_as_well() -> None:
    """On another device, where there would be room; but the head would find no place when its own is free."""
    scene = Scene(24, 24, policy=Policy(max_active_jobs=1, gap_min_s=5.0)).service(
        service_spec(awake=16), last_end_s=T0_S - 1
    )
    head(scene, 20, pinned_devices=("gpu0",))
    small(scene, None, pinned_devices=("gpu1",))
    assert decide(scene.s).verdicts["small"].code == "kept"
    scene = Scene(24, 24, policy=Policy(max_active_jobs=2, gap_min_s=5.0)).service(
        service_spec(awake=16), last_end_s=T0_S - 1
    )
    small(head(scene, 20, pinned_devices=("gpu0",)), None, pinned_devices=("gpu1",))
    assert decide(scene.s).verdicts["small"].code == "goes"


def test_who_is_on_the_heads_device_needs_no_place_when_it_starts() -> None:
    scene = add_busy(Scene(24, 24, policy=Policy(max_active_jobs=2)), on=("gpu0",))
    small(head(scene, 20, pinned_devices=("gpu0",)), None, pinned_devices=("gpu1",))
    assert decide(scene.s).verdicts["small"].code == "goes"
    assert isinstance(scene.s.holders["small"], Job)


def test_one_that_passed_and_runs_does_not_move_the_heads_start() -> None:
    scene = small(head(busy()), HOUR_S)
    before = target(scene.s)[0].heads["head"].starts_s
    scene.job(job_spec("small", 2, placement="share"), id="small").read()
    assert before == target(scene.s)[0].heads["head"].starts_s == T0_S + HOUR_S


@given(scenes() | crowds(), st.data())
@deep(200)
def test_nobody_passes_a_head_who_is_not_known_to_be_over_before_it_starts(
    scene: Scene, data: st.DataObject
) -> None:
    for holder in list(scene.s.holders.values()):
        if isinstance(holder, Job):
            long_s = data.draw(st.sampled_from([None, 10.0, 600.0, 9000.0]))
            spec = replace(holder.spec, max_runtime_s=long_s)
            scene.put(replace(holder, spec=spec, enqueued_s=holder.enqueued_s - 4000.0))
    s = scene.s
    plan, verdicts = target(s)
    for hid, (form, devices) in plan.placed.items():
        holder = s.holders[hid]
        came = verdicts[hid].code == "goes" and form == holder.top
        heads = {
            plan.heads[one]
            for d in devices
            if (one := plan.reserved.get(d, hid)) != hid and one in plan.heads
        }
        if not came or not heads or isinstance(holder, Service):
            continue
        for kept in heads:
            if plan.order[hid] > plan.order[kept.id]:
                assert isinstance(holder, Job) and kept.starts_s != inf
                left = eta.over_in(holder, s, eta.lengths(s))
                assert left is not None and s.now_s + left.high_s <= kept.starts_s
