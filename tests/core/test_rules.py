"""Who may stay, who may come, and who may push whom. The name of a case is the sentence it proves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core import rank
from headway.core.decide import decide
from headway.core.fit import Plan
from headway.core.model import Exit, Gate, Policy, Run, Verdict, Waiting
from headway.core.push import PUSH
from headway.core.rules import STAY
from tests.core.make import Scene, dev, job_spec, service_spec

pytestmark = pytest.mark.core

NOW_S = 1000.0
GPU = (dev("gpu0"),)


def stays(scene: Scene, hid: str) -> tuple[str, Any] | None:
    holder = scene.s.holders[hid]
    found = next((no for rule in STAY if (no := rule(holder, scene.s))), None)
    return (found.code, found.facts["form"]) if found else None


PARKS = job_spec(parked=1, saved=("saved",))
SLEEPS = service_spec(asleep=1)

STAY_CASES = {
    # name: (scene, holder, (code, where to))
    "a job nobody asked to leave": (Scene(24).job(), "train", None),
    "stop goes to the bottom": (Scene(24).job(PARKS, wish="stop"), "train", ("asked_stop", "stopped")),
    "kill goes to the bottom": (Scene(24).job(PARKS, wish="kill"), "train", ("asked_kill", "stopped")),
    "cancel goes to the bottom": (Scene(24).job(PARKS, wish="cancel"), "train", ("asked_cancel", "stopped")),
    "pause parks": (Scene(24).job(PARKS, wish="pause"), "train", ("asked_pause", "parked")),
    "wind down stops at a fresh saved point": (
        Scene(24).job(PARKS, wish="wind_down", saved_age_s=0.0),
        "train",
        ("asked_wind_down", "stopped"),
    ),
    "wind down waits for a saved point": (
        Scene(24).job(PARKS, wish="wind_down", saved_age_s=9.0),
        "train",
        None,
    ),
    "wind down of a job without saved points finishes its run": (
        Scene(24).job(wish="wind_down", saved_age_s=0.0),
        "train",
        None,
    ),
    "hold on a running job lets it run": (Scene(24).job(wish="hold"), "train", None),
    "hold on a model puts it to sleep": (Scene(24).service(SLEEPS, wish="hold"), "chat", ("held", "asleep")),
    "a held model that sleeps is left asleep": (
        Scene(24).service(SLEEPS, "asleep", wish="hold"),
        "chat",
        None,
    ),
    "a leader that ended while its tree lives": (
        Scene(24).job(run=Run(id="train.1", lock_held=True, pid=1, exit=Exit(code=0))),
        "train",
        ("left_over", "stopped"),
    ),
    "a gap job beside a model that is awake": (
        Scene(48).service().job(PARKS),
        "train",
        ("gap_over", "parked"),
    ),
    "a gap job beside a model on another device": (
        Scene(24, 24).service(on=("gpu1",)).job(PARKS),
        "train",
        None,
    ),
    "a job that shares, beside a model": (
        Scene(48).service().job(job_spec(placement="share")),
        "train",
        None,
    ),
    "a model unused for its idle_ttl": (
        Scene(24).service(service_spec(asleep=1, idle_ttl_s=400.0)),
        "chat",
        ("idle_ttl", "asleep"),
    ),
    "a model unused for less": (Scene(24).service(service_spec(idle_ttl_s=400.1)), "chat", None),
    "a model whose last answer ended a moment ago": (
        Scene(24).service(service_spec(idle_ttl_s=60.0), last_end_s=NOW_S - 1),
        "chat",
        None,
    ),
    "a busy model has no idle_ttl": (
        Scene(24).service(service_spec(idle_ttl_s=1.0), active=1, active_since_s=NOW_S),
        "chat",
        None,
    ),
    "a model that failed to wake twice is stopped": (
        Scene(24).service(SLEEPS, "asleep", failures=2),
        "chat",
        ("no_way_back", "stopped"),
    ),
    "a model that failed to wake once is tried again": (
        Scene(24).service(SLEEPS, "asleep", failures=1),
        "chat",
        None,
    ),
}


@pytest.mark.parametrize("name", STAY_CASES)
def test_stay(name: str) -> None:
    scene, hid, expected = STAY_CASES[name]
    assert stays(scene, hid) == expected


# ---------------------------------------------------------------- ADMIT


def verdict(scene: Scene, hid: str) -> Verdict:
    return decide(scene.read().s).verdicts[hid]


def with_mode(scene: Scene, **fields: Any) -> Scene:
    scene.s = replace(scene.s, **fields)
    return scene


def followed(ended: str | None, ok: bool = False, **given: Any) -> Scene:
    scene = Scene(24).job(job_spec("first"), "stopped" if ended else "running", ended=ended, **given)
    words: dict[str, Any] = {"after_ok": ("first",)} if ok else {"after": ("first",)}
    return scene.job(job_spec(**words), "stopped")


FULL = Scene(24).job(job_spec("other", 1, placement="share"))
ASKED = {"attended": Waiting(n=1, since_s=NOW_S - 1)}

ADMIT_CASES = {
    # name: (scene, holder, code)
    "one that fits goes": (Scene(24).job(form="stopped"), "train", "goes"),
    "in shadow mode nothing moves": (
        with_mode(Scene(24).job(form="stopped"), mode="shadow"),
        "train",
        "shadow",
    ),
    "a parked job that is held stays parked": (Scene(24).job(PARKS, "parked", wish="hold"), "train", "held"),
    "after A waits while A runs": (followed(None), "train", "after"),
    "after A goes when A is done": (followed("done", started_s=1.0), "train", "goes"),
    "after A goes when A failed": (followed("failed", started_s=1.0), "train", "goes"),
    "after A, and A was cancelled before it ran": (
        followed("cancelled", started_s=None),
        "train",
        "after_gone",
    ),
    "after A, and A was cancelled while it ran": (followed("cancelled", started_s=1.0), "train", "goes"),
    "after A, and A is not known": (
        Scene(24).job(job_spec(after=("nobody",)), "stopped"),
        "train",
        "after_gone",
    ),
    "after_ok goes when A is done": (followed("done", True, started_s=1.0), "train", "goes"),
    "after_ok does not when A failed": (followed("failed", True, started_s=1.0), "train", "after_failed"),
    "a run after the last run of its own name": (
        Scene(24)
        .job(job_spec("train"), "stopped", id="j1", ended="done", started_s=1.0, enqueued_s=1.0)
        .job(job_spec("train", after=("train",)), "stopped", id="j2"),
        "j2",
        "goes",
    ),
    "in back-off after a failure": (Scene(24).job(form="stopped", retry_at_s=NOW_S + 5), "train", "backoff"),
    "back-off is over at its very moment": (Scene(24).job(form="stopped", retry_at_s=NOW_S), "train", "goes"),
    "a server that somebody else starts, and that is down": (
        Scene(24).service(service_spec(argv=()), "stopped", demand=ASKED),
        "chat",
        "not_ours",
    ),
    "one job per device unless set": (FULL.job(job_spec(running=1), "stopped"), "train", "slots"),
    "max_active_jobs lets more run": (
        Scene(24, policy=Policy(max_active_jobs=2))
        .job(job_spec("other", 1))
        .job(job_spec(running=1), "stopped"),
        "train",
        "goes",
    ),
    "max_active_jobs 0 closes the queue": (
        Scene(24, policy=Policy(max_active_jobs=0)).job(form="stopped"),
        "train",
        "slots",
    ),
    "a parked job takes no place": (
        Scene(24).job(job_spec("other", 1, 0.1), "parked", wish="hold").job(form="stopped"),
        "train",
        "goes",
    ),
    "a CPU job takes no place of the others": (
        Scene(24).job(job_spec("other", 1)).job(job_spec(running=0, count=0), "stopped"),
        "train",
        "goes",
    ),
    "nothing is created while the store is silent": (
        with_mode(Scene(24).job(form="stopped"), store_ok=False),
        "train",
        "store_silent",
    ),
    "a model comes back while the store is silent": (
        with_mode(Scene(24).service(form="stopped", demand=ASKED), store_ok=False),
        "chat",
        "goes",
    ),
    "right after a start no job starts before the gates spoke": (
        with_mode(Scene(24).service(form="stopped", active=None).job(form="stopped"), booted_s=NOW_S - 4),
        "train",
        "demand_unknown",
    ),
    "after the grace it does": (
        with_mode(Scene(24).service(form="stopped", active=None).job(form="stopped"), booted_s=NOW_S - 5),
        "train",
        "goes",
    ),
}


@pytest.mark.parametrize("name", ADMIT_CASES)
def test_admit(name: str) -> None:
    scene, hid, expected = ADMIT_CASES[name]
    assert verdict(scene, hid).code == expected


# ---------------------------------------------------------------- PUSH


def pushes(scene: Scene, want: str, victim: str) -> str | None:
    """The first objection to `want` pushing `victim` aside."""
    s = scene.read().s
    wanted = next(w for w in rank.wants(s) if w.holder.id == want)
    found = (rule(wanted, s.holders[victim], Plan(s), s) for rule in PUSH)
    return next((no.code for no in found if no), None)


def asking(name: str = "code", waited_s: float = 1.0, cls: str = "attended", **given: Any) -> Scene:
    """A model that is aside and asked for; its victim is added by the case."""
    demand = {cls: Waiting(n=1, since_s=NOW_S - waited_s)}
    return Scene(24).service(service_spec(name, **given), "stopped", demand=demand)


def job_waits(**given: Any) -> Scene:
    return Scene(24).job(job_spec(**{"parked": 1, **given}), "stopped")


BUSY: dict[str, Any] = {"active": 1, "active_since_s": NOW_S - 9, "last_end_s": NOW_S - 20}
OTHER = job_spec("other", 14, 1)

PUSH_CASES = {
    # name: (scene, who wants, victim, code of the objection)
    "a request pushes a job": (asking().job(), "code", "train", None),
    "a request pushes a job that came a moment ago": (asking().job(since_s=NOW_S), "code", "train", None),
    "a request pushes a job that would lose work": (asking().job(saved_age_s=500.0), "code", "train", None),
    "a background request pushes no job": (asking(cls="background").job(), "code", "train", "too_weak"),
    "a background request that waited 15 min does": (
        asking(cls="background", waited_s=900.0).job(),
        "code",
        "train",
        None,
    ),
    "a request pushes an idle model": (asking().service(), "code", "chat", None),
    "nobody pushes a model that others start": (
        asking().service(service_spec(argv=())),
        "code",
        "chat",
        "cannot_step_aside",
    ),
    "a request waits for a busy model": (asking().service(**BUSY), "code", "chat", "model_busy"),
    "a model whose gate did not speak is busy": (asking().service(active=None), "code", "chat", "model_busy"),
    "a model with requests waiting is busy": (
        asking().service(demand=ASKED, last_end_s=NOW_S - 20),
        "code",
        "chat",
        "model_busy",
    ),
    "an engine that reads busy is busy": (
        asking().service(service_spec(reads_busy=True), engine_active=1),
        "code",
        "chat",
        "model_busy",
    ),
    "an engine that was not read is busy": (
        asking().service(service_spec(reads_busy=True)),
        "code",
        "chat",
        "model_busy",
    ),
    "after switch_after a request pushes a busy model": (
        asking(waited_s=30.0).service(**BUSY),
        "code",
        "chat",
        None,
    ),
    "a moment before it does not": (asking(waited_s=29.9).service(**BUSY), "code", "chat", "model_busy"),
    "a load belongs to those who caused it": (
        asking(waited_s=60.0).service(active=1, active_since_s=NOW_S, since_s=NOW_S - 11, last_end_s=1.0),
        "code",
        "chat",
        "load_unserved",
    ),
    "one answer later it may go": (
        asking(waited_s=60.0).service(active=1, active_since_s=NOW_S, since_s=NOW_S - 11, last_end_s=NOW_S),
        "code",
        "chat",
        None,
    ),
    "a load that answers nobody for switch_after may go": (
        asking(waited_s=60.0).service(active=1, active_since_s=NOW_S, since_s=NOW_S - 30, last_end_s=1.0),
        "code",
        "chat",
        None,
    ),
    "a model with a gate that can be neither asked nor ended stays": (
        asking(waited_s=60.0).service(since_s=NOW_S - 99, gate=Gate(wish="open", stuck_s=NOW_S - 59)),
        "code",
        "chat",
        "gate_stuck",
    ),
    "and is tried again after a minute": (
        asking(waited_s=60.0).service(since_s=NOW_S - 99, gate=Gate(wish="open", stuck_s=NOW_S - 60)),
        "code",
        "chat",
        None,
    ),
    "a model keeps its min_residency": (
        asking(waited_s=60.0).service(since_s=NOW_S - 9.9),
        "code",
        "chat",
        "residency",
    ),
    "and not longer": (asking(waited_s=60.0).service(since_s=NOW_S - 10), "code", "chat", None),
    "a gap job pushes an idle model": (job_waits().service(), "train", "chat", None),
    "a gap job waits for a busy model": (job_waits().service(**BUSY), "train", "chat", "model_busy"),
    "a gap job waits until the gap is worth it": (
        job_waits().service(last_end_s=NOW_S - 4.9).ruled(gap_min_s=5.0),
        "train",
        "chat",
        "gap_too_short",
    ),
    "a gap that is long enough": (
        job_waits().service(last_end_s=NOW_S - 5).ruled(gap_min_s=5.0),
        "train",
        "chat",
        None,
    ),
    "a job that shares pushes no model": (
        job_waits(placement="share").service(),
        "train",
        "chat",
        "beside_only",
    ),
    "a job pushes a parkable job": (job_waits().job(OTHER), "train", "other", None),
    "a job pushes no job that would lose work": (
        job_waits().job(job_spec("other")),
        "train",
        "other",
        "would_lose_work",
    ),
    "a job pushes a job at its saved point": (
        job_waits().job(job_spec("other"), saved_age_s=0.0),
        "train",
        "other",
        None,
    ),
    "a job lets another its 60 s": (
        job_waits().job(OTHER, since_s=NOW_S - 59),
        "train",
        "other",
        "residency",
    ),
    "one that was pushed does not push back at once": (
        Scene(24).job(job_spec(parked=1), "stopped", pushed_s=NOW_S - 59).job(OTHER),
        "train",
        "other",
        "just_pushed",
    ),
    "a minute later it may": (
        Scene(24).job(job_spec(parked=1), "stopped", pushed_s=NOW_S - 60).job(OTHER),
        "train",
        "other",
        None,
    ),
    "a model that only may stay pushes nobody": (
        Scene(24).service(service_spec("code", keep_awake=True), "stopped").job(),
        "code",
        "train",
        "too_weak",
    ),
}


@pytest.mark.parametrize("name", PUSH_CASES)
def test_push(name: str) -> None:
    scene, want, victim, expected = PUSH_CASES[name]
    assert pushes(scene, want, victim) == expected
