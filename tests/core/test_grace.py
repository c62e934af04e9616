"""Who could not step aside is stopped: with its grace where there is time for that, so that it may still save."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.core.decide import decide
from headway.core.facts import MoveAnswered
from headway.core.model import JobSpec, Move, ServiceSpec
from tests.core.make import T0_S, Scene, job_spec, service_spec

pytestmark = pytest.mark.core

PARKS = job_spec(parked=1, saved=("saved",), stop_grace_s=10.0)
SLEEPS = service_spec(asleep=1)
CASES = {
    # name: (spec, form, the move and for how long it is under way, does its driver say that it failed, killed at once?)
    "a job that cannot park may still save": (PARKS, ("running", "parked", 3.0), True, False),
    "also when its grace just ends with the longest wait": (PARKS, ("running", "parked", 50.0), True, False),
    "not when it would end after that": (PARKS, ("running", "parked", 50.1), True, True),
    "one that is stuck while it parks has no grace": (PARKS, ("running", "parked", 30.0), False, True),
    "nor one that does not stop when it is asked": (PARKS, ("running", "stopped", 30.0), False, True),
    "a model that cannot sleep is stopped with its grace": (SLEEPS, ("awake", "asleep", 3.0), True, False),
    "one that is stuck in its sleep too": (SLEEPS, ("awake", "asleep", 30.0), False, False),
    "one that does not stop when it is asked is killed": (SLEEPS, ("awake", "stopped", 30.0), False, True),
}


@pytest.mark.parametrize("name", CASES)
def test_how_it_is_ended(name: str) -> None:
    spec, (source, to, since_s), failed, killed = CASES[name]
    scene = Scene(24)
    if isinstance(spec, ServiceSpec):
        scene.service(spec)
    elif isinstance(spec, JobSpec):
        scene.job(spec)
    limit_at_s = T0_S + 60.0 if failed else T0_S
    scene.under_way(spec.name, source, to, started_s=T0_S - since_s, limit_at_s=limit_at_s)
    if failed:
        scene.fold(MoveAnswered(holder=spec.name, to=to, error="hook_failed"))
    move = next(a for a in decide(scene.s).actions if isinstance(a, Move))
    assert (move.form, move.kill) == ("stopped", killed)
    assert move.limit_s == (10.0 if killed else spec.stop_grace_s + 5.0)


def test_whoever_said_kill_gave_no_grace() -> None:
    scene = Scene(24).job(replace(PARKS, saved=()), wish="kill")
    scene.under_way("train", "running", "parked", started_s=T0_S - 3.0, limit_at_s=T0_S + 60.0)
    scene.fold(MoveAnswered(holder="train", to="parked", error="hook_failed"))
    assert next(a for a in decide(scene.s).actions if isinstance(a, Move)).kill
