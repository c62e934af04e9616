"""Properties of the pass over random worlds, with time all but frozen and every decision carried out perfectly."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.decide import decide, target
from headway.core.model import Gate, JobSpec, Measure, Move, Waiting
from tests.core.make import Scene, dev, gib, job_spec, service_spec
from tests.core.scenes import carried_out, rest, scenes, wrong_together

pytestmark = pytest.mark.core


@given(scenes())
@settings(max_examples=400)
def test_no_plan_ever_puts_together_what_does_not_go_together(scene: Scene) -> None:
    s = scene.s
    for _ in range(30):
        plan, _ = target(s)
        planned = {hid: plan.form_of(s.holders[hid]) for hid in {*plan.placed, *plan.standing}}
        assert wrong_together(s, planned) == []
        for hid, (form, devices) in planned.items():
            holder = s.holders[hid]
            if form == holder.top:
                assert len(devices) == holder.spec.count  # all of its devices, or none
        decision = decide(s)
        if not [action for action in decision.actions if not isinstance(action, Measure)]:
            break
        s = carried_out(s, decision)
        forms = {h.id: (h.form or "", h.devices) for h in s.holders.values()}
        assert wrong_together(s, forms) == []


@given(scenes(), st.sampled_from(["job", "service"]))
@settings(max_examples=200)
def test_a_want_that_can_never_fit_reserves_nothing_and_changes_nothing_for_others(
    scene: Scene, kind: str
) -> None:
    before, _ = target(scene.s)
    if kind == "job":
        scene.job(job_spec("huge", 500, priority=100), "stopped", key=-1e9, enqueued_s=0.0)
    else:
        long_ago = Waiting(n=1, since_s=scene.s.now_s - 1e5)
        scene.service(service_spec("huge", 500), "stopped", demand={"attended": long_ago})
    after, verdicts = target(scene.s)
    assert verdicts["huge"].code in ("never_fits", "slots")
    assert "huge" not in after.placed
    assert after.reserved == before.reserved
    assert after.placed == before.placed


@given(scenes())
@settings(max_examples=150)
def test_the_same_snapshot_gives_the_same_decision(scene: Scene) -> None:
    again = replace(scene.s, holders=dict(reversed(list(scene.s.holders.items()))))
    assert decide(scene.s) == decide(again)


@given(scenes())
@settings(max_examples=150)
def test_at_most_one_move_per_holder_and_none_for_a_device_that_one_takes(scene: Scene) -> None:
    s = scene.s
    for _ in range(20):
        decision = decide(s)
        moves = [action for action in decision.actions if isinstance(action, Move)]
        assert len({move.holder for move in moves}) == len(moves)
        taken = [device for move in moves if not move.frees for device in move.devices]
        freed = {device for move in moves if move.frees for device in move.devices}
        assert len(set(taken)) == len(taken) and not freed & set(taken)
        if not moves:
            break
        s = carried_out(s, decision)


def test_the_scenes_here_are_worth_testing() -> None:
    """A scene with every kind of holder in it makes moves; or the properties above would prove nothing."""
    scene = Scene(24).service(form="stopped", demand={"attended": Waiting(n=1, since_s=990.0)}).job()
    assert scene.s.holders["chat"].need_bytes("awake") == gib(16) and dev("gpu0") in scene.s.devices
    _, moves, rounds = rest(scene.read().s)
    assert [(move.holder, move.form) for move in moves] == [("train", "stopped"), ("chat", "awake")]
    assert rounds == 3 and Gate().wish == "closed"


NEVER = {
    # name: (job, code)
    "too large, and no place": (job_spec("big", 100), "never_fits"),
    "too many devices, and no place": (job_spec("wide", 1, count=2), "never_fits"),
    "too large, and after another": (job_spec("late", 100, after=("train",)), "never_fits"),
    "fits, and no place": (job_spec("small", 1), "slots"),
    "fits, and after another": (job_spec("next", 1, after=("train",)), "after"),
}


@pytest.mark.parametrize(("spec", "code"), NEVER.values(), ids=NEVER.keys())
def test_one_that_can_never_fit_is_told_that_before_anything_that_passes(spec: JobSpec, code: str) -> None:
    scene = Scene(24).job(job_spec("train", 4))
    job = scene.queue(spec)
    assert decide(scene.s).verdicts[job].code == code
