"""Who has a place kept for him: only one who can come to it, by time alone, and never one who would wait for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from headway.core.decide import target
from headway.core.fit import Plan
from headway.core.model import Job, Policy, Service
from tests.core.make import SLEEP, START, WAKE, Scene, dev, job_spec, service_spec
from tests.core.scenes import crowds, deep, scenes

pytestmark = pytest.mark.core

NOW_S = 1000.0
IMMOVABLE = service_spec(moves=(START,))
NOT_OURS = service_spec(asleep=1, argv=(), moves=(START, SLEEP, WAKE))


def waiting(scene: Scene, need: float = 14, **given: Any) -> Scene:
    """One that has waited for more than half an hour, and behind it one that would fit now."""
    key = given.pop("key", -1e9)
    scene.job(job_spec("old", need, **given), "stopped", enqueued_s=NOW_S - 4000.0, key=key)
    return scene.job(job_spec("small", 2, placement="share"), "stopped").read()


def model(spec: Any = None, **given: Any) -> Scene:
    return Scene(24, policy=Policy(max_active_jobs=9)).service(spec, **given)


def work(**given: Any) -> Scene:
    return Scene(24, policy=Policy(max_active_jobs=9)).job(
        job_spec("busy", 14, placement="share", **given), key=-2e9
    )


KEPT = {
    # name: (scene, is the place kept?)
    "not for a gap job while the model is in use: it may not start there": (
        waiting(model(active=1, active_since_s=NOW_S - 1)),
        False,
    ),
    "for a gap job while the model was used a moment ago": (
        waiting(model(last_end_s=NOW_S - 1).ruled(gap_min_s=5.0)),
        True,
    ),
    "for one behind stronger work, which ends some day": (waiting(work()), True),
    "for one behind weaker work that it may not push": (waiting(work(), key=-3e9), True),
    "for one behind work that cannot step aside, and ends some day": (waiting(work(moves=())), True),
    "not for one whose place is only beside the model": (waiting(model(), placement="share"), False),
    "but for one that fits beside the model when another job is over": (
        waiting(
            model(service_spec(awake=8)).job(job_spec("busy", 10, placement="share"), key=-2e9),
            8,
            placement="share",
        ),
        True,
    ),
    "not behind a server that can never step aside": (waiting(model(IMMOVABLE)), False),
    "not behind one that somebody else starts and that sleeps too lightly": (
        waiting(model(replace(NOT_OURS, forms=service_spec(asleep=12).forms), run=None)),
        False,
    ),
    "but where that one sleeps deeply enough": (
        waiting(model(NOT_OURS, run=None, last_end_s=NOW_S - 1).ruled(gap_min_s=5.0)),
        True,
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_place_is_kept(name: str) -> None:
    scene, kept = KEPT[name]
    plan, verdicts = target(scene.s)
    assert plan.reserved == ({dev("gpu0"): "old"} if kept else {}), verdicts["old"]
    assert verdicts["small"].code == ("kept" if kept else "goes")


@given(scenes() | crowds())
@deep(200)
def test_whoever_has_a_place_kept_comes_when_all_work_is_over_and_all_models_are_quiet(scene: Scene) -> None:
    for holder in list(scene.s.holders.values()):
        if isinstance(holder, Job):
            scene.put(replace(holder, enqueued_s=holder.enqueued_s - 4000.0))
    plan, _ = target(scene.s)
    for hid in set(plan.reserved.values()):
        verdict = target(quiet(scene, plan, hid).s)[1][hid]
        assert verdict.code in ("goes", "backoff", "held"), (hid, verdict)


def quiet(scene: Scene, plan: Plan, but: str) -> Scene:
    """The same devices, and the models where the plan has them, without anybody who asks or works, but this one."""
    calm = Scene(*scene.totals.values(), policy=scene.s.policy)
    for hid, holder in scene.s.holders.items():
        if hid == but:
            calm.put(replace(holder, retry_at_s=None))
        elif isinstance(holder, Service):
            form, devices = plan.form_of(holder)
            devices = devices if form != holder.bottom else ()
            held = {device: holder.need_bytes(form) or 0 for device in devices}
            there = replace(holder, form=form, devices=devices, seen_bytes=held)
            calm.put(replace(there, demand={}, active=0, last_end_s=None, since_s=0.0))
    return calm.read()
