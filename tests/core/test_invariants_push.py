"""Who is put aside for whom: never a stronger one, never an innocent, never by a way its driver does not have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core import decide, rank, rules
from headway.core.decide import settle, target
from headway.core.fit import Devices, Leaving, Plan
from headway.core.model import (
    Gate,
    Holder,
    Job,
    Lease,
    Policy,
    Rank,
    Service,
    Snapshot,
    Verdict,
    Waiting,
    Want,
)
from headway.core.push import PUSH
from headway.core.room import cheapest_room, place_of
from tests.core.make import SLEEP, START, STOP, WAKE, Scene, dev, job_spec, moving, service_spec
from tests.core.messes import messy_scenes
from tests.core.scenes import crowds, deep, scenes

pytestmark = pytest.mark.core

NOW_S = 1000.0
GPU = (dev("gpu0"),)


def settled(s: Snapshot) -> list[tuple[Want, Plan, Verdict]]:
    """Each want with the plan as it stood before and the verdict it got, strongest first."""
    seen = []

    def recorded(want: Want, plan: Plan, s: Snapshot) -> Verdict:
        before = copied(plan)
        seen.append((want, before, settle(want, plan, s)))
        return seen[-1][2]

    with mock.patch.object(decide, "settle", recorded):
        decide.target(s)
    return seen


def copied(plan: Plan) -> Plan:
    again = Plan(plan.s)
    again.placed, again.causes, again.reserved = dict(plan.placed), dict(plan.causes), dict(plan.reserved)
    again.waiting = set(plan.waiting)
    return again


def room_of(want: Want, plan: Plan, s: Snapshot) -> tuple[Devices, Leaving, Leaving] | None:
    """(devices, who leaves, who of them gives his place in the count of jobs), as the pass finds them."""
    must: Leaving = {}
    for rule in rules.ADMIT:
        if (no := rule(want, plan, s)) and not (must := place_of(want, no, plan, s)):
            return None
    found, _ = cheapest_room(want, plan, s, must)
    return (*found, must) if found else None


def ways_down(holder: Holder, form: str | None) -> set[str]:
    """Every form that its driver's table reaches from there by moves that free memory."""
    found, todo = set(), [form]
    while todo:
        here = todo.pop()
        for way in holder.spec.moves:
            ends = way.to == holder.forms[-1].name and not holder.spec.argv and not isinstance(holder, Lease)
            if way.source == here and way.frees and way.to not in found and not ends:
                found.add(way.to)
                todo.append(way.to)
    return found


@given(st.one_of(messy_scenes(), crowds()))
@deep(150)
def test_nobody_stronger_is_pushed_and_nobody_who_has_his_place(scene: Scene) -> None:
    s = scene.s
    order = [want.holder.id for want in rank.wants(s)]
    gives_way = {hid for hid, no in target(s)[1].items() if no.code in decide.GIVES_WAY}
    for want, before, verdict in settled(s):
        for victim in verdict.facts.get("victims", ()):
            assert victim not in before.placed
            if victim in order and victim not in gives_way:
                assert order.index(victim) > order.index(want.holder.id)


@given(st.one_of(messy_scenes(), crowds()))
@deep(150)
def test_nobody_is_pushed_whose_staying_would_do_no_harm(scene: Scene) -> None:
    s = scene.s
    for want, before, verdict in settled(s):
        if not verdict.facts.get("victims"):
            continue
        found = room_of(want, before, s)
        assert found is not None
        devices, leaving, must = found
        assert sorted(leaving) == verdict.facts["victims"]
        assert not before.short_on(devices, want, leaving)
        for hid in set(leaving) - set(must):
            rest = {other: form for other, form in leaving.items() if other != hid}
            assert before.short_on(devices, want, rest), f"{hid} is pushed for nothing"


@given(st.one_of(messy_scenes(), crowds()))
@deep(150)
def test_no_rule_objects_and_every_driver_has_a_way(scene: Scene) -> None:
    s = scene.s
    for want, before, verdict in settled(s):
        victims = verdict.facts.get("victims", ())
        if not victims:
            continue
        found = room_of(want, before, s)
        assert found is not None
        for hid in victims:
            holder = s.holders[hid]
            form, _ = before.form_of(holder)
            assert found[1][hid] in ways_down(holder, form)
            assert not [no for rule in PUSH if (no := rule(want, holder, before, s))]


@given(st.one_of(messy_scenes(), crowds()))
@deep(150)
def test_a_job_pushes_no_job_that_loses_work(scene: Scene) -> None:
    s = scene.s
    for want, before, verdict in settled(s):
        if not isinstance(want.holder, Job) or not verdict.facts.get("victims"):
            continue
        found = room_of(want, before, s)
        assert found is not None
        for hid, to in found[1].items():
            victim = s.holders[hid]
            if isinstance(victim, Job) and victim.saved_age_s != 0.0 and victim.form != victim.forms[-1].name:
                straight = [way for way in victim.spec.moves if (way.source, way.to) == (victim.form, to)]
                assert not [way for way in straight if way.loses_work], (want.holder.id, hid, to)


@given(st.one_of(messy_scenes(), crowds()))
@deep(120)
def test_a_kept_place_is_taken_by_nobody_weaker(scene: Scene) -> None:
    for want, before, verdict in settled(scene.s):
        kept = {d for d, hid in before.reserved.items() if hid != want.holder.id}
        if verdict.code == "goes" and kept:
            found = room_of(want, before, scene.s)
            assert found is not None and not kept & set(found[0])


@given(scenes())
@deep(120)
def test_several_devices_are_given_all_or_none(scene: Scene) -> None:
    plan, verdicts = target(scene.s)
    for hid, (form, devices) in plan.placed.items():
        holder = scene.s.holders[hid]
        if form == holder.top:
            assert len(set(devices)) == len(devices) == holder.spec.count
        else:
            assert devices == holder.devices
    for hid, verdict in verdicts.items():
        assert (verdict.code in ("goes", "keeps")) == (
            plan.placed.get(hid, ("",))[0] == scene.s.holders[hid].top
        )


@given(st.one_of(messy_scenes(), crowds()))
@deep(120)
def test_requests_that_nobody_awaits_and_homes_push_no_job(scene: Scene) -> None:
    s = scene.s
    for want, _, verdict in settled(s):
        jobs = [hid for hid in verdict.facts.get("victims", ()) if isinstance(s.holders[hid], Job)]
        if want.rank[0] in (Rank.BACKGROUND, Rank.HOME):
            assert not jobs
        if want.rank[0] == Rank.HOME:
            assert not verdict.facts.get("victims")
        beside = isinstance(want.holder, Job) and want.holder.spec.placement == "share"
        assert not beside or set(jobs) == set(verdict.facts.get("victims", ()))


# ---------------------------------------------------------------- guards, each from both sides


def objection(scene: Scene, want: str, victim: str) -> str | None:
    s = scene.read().s
    wanted = next(w for w in rank.wants(s) if w.holder.id == want)
    plan = Plan(s)
    return next((no.code for rule in PUSH if (no := rule(wanted, s.holders[victim], plan, s))), None)


def asked(waited_s: float = 40.0, cls: str = "attended") -> Scene:
    demand = {cls: Waiting(n=1, since_s=NOW_S - waited_s)}
    return Scene(24).service(service_spec("code"), "stopped", demand=demand)


def loads(waiting: int) -> Scene:
    demand = {"attended": Waiting(n=waiting, since_s=NOW_S - 5)} if waiting else {}
    scene = asked().service(service_spec("chat"), "stopped", devices=GPU, demand=demand)
    return scene.under_way("chat", "stopped", "awake")


def queued(**given: Any) -> Scene:
    return Scene(24).job(job_spec(parked=1), "stopped", **given)


SLEEPER = (START, SLEEP, WAKE, STOP)
TWO = {"attended": Waiting(n=2, since_s=NOW_S - 5)}

GUARDS: dict[str, tuple[Scene, str, str, str | None]] = {
    # name: (scene, who wants, victim, code of the objection)
    "a load that somebody waits for is not evicted": (loads(1), "code", "chat", "load_unserved"),
    "one that nobody waits for any more is": (loads(0), "code", "chat", None),
    "one that serves may be pushed after one answer": (
        asked().service(active=2, active_since_s=NOW_S - 9, since_s=NOW_S - 20, last_end_s=NOW_S - 19),
        "code",
        "chat",
        None,
    ),
    "one that serves and has not answered yet may not": (
        asked().service(active=2, active_since_s=NOW_S - 9, since_s=NOW_S - 20, last_end_s=NOW_S - 21),
        "code",
        "chat",
        "load_unserved",
    ),
    "requests wait at it too, and it is busy": (
        asked(29.9).service(demand=TWO, last_end_s=NOW_S - 1),
        "code",
        "chat",
        "model_busy",
    ),
    "until somebody waited too long for it": (
        asked(30.0).service(demand=TWO, last_end_s=NOW_S - 1),
        "code",
        "chat",
        None,
    ),
    "an engine that reads idle is idle": (
        asked(1.0).service(service_spec(reads_busy=True), engine_active=0),
        "code",
        "chat",
        None,
    ),
    "a background request pushes an idle model": (asked(1.0, "background").service(), "code", "chat", None),
    "a background request waits for a busy one": (
        asked(1.0, "background").service(active=1, active_since_s=NOW_S - 9, last_end_s=NOW_S - 20),
        "code",
        "chat",
        "model_busy",
    ),
    "residency protects a model from a job": (
        queued().service(since_s=NOW_S - 9.9, last_end_s=NOW_S - 500),
        "train",
        "chat",
        "residency",
    ),
    "and only at its top": (
        asked().service(service_spec(asleep=1), "asleep", since_s=NOW_S),
        "code",
        "chat",
        None,
    ),
    "a job may push one that parks, and is at its top for long enough": (
        queued().job(job_spec("other", 14, 1), since_s=NOW_S - 60),
        "train",
        "other",
        None,
    ),
    "one that just moved out of its way does not push it back": (
        queued(pushed_s=NOW_S - 1).job(job_spec("other", 14, 1)),
        "train",
        "other",
        "just_pushed",
    ),
    "but it may push a model": (queued(pushed_s=NOW_S - 1).service(), "train", "chat", None),
    "a sleeper that cannot be stopped from there stays": (
        asked().service(service_spec(awake=8, asleep=1, moves=SLEEPER), "asleep"),
        "code",
        "chat",
        "cannot_step_aside",
    ),
    "one that can is stopped": (
        asked().service(service_spec(awake=8, asleep=1), "asleep"),
        "code",
        "chat",
        None,
    ),
    "a window job takes no model's place while no window is open": (
        Scene(24).job(job_spec(placement="window"), "stopped").service(),
        "train",
        "chat",
        "outside_window",
    ),
    "one that yields does not": (
        Scene(24).job(job_spec(placement="yield"), "stopped").service(),
        "train",
        "chat",
        "beside_only",
    ),
    "a gate that is stuck protects no job": (
        asked().job().service(gate=Gate(wish="open", stuck_s=NOW_S)),
        "code",
        "train",
        None,
    ),
}


@pytest.mark.parametrize("name", GUARDS)
def test_guards(name: str) -> None:
    scene, want, victim, expected = GUARDS[name]
    assert objection(scene, want, victim) == expected


def parked(wish: str = "run", **given: Any) -> Scene:
    """A job that parked where a weaker one needs all there is."""
    scene = Scene(24).job(job_spec("first", 20, 1, priority=80), "parked", wish=wish, **given)
    return scene.job(job_spec(running=24), "stopped")


DOWN: dict[str, tuple[Scene, str, dict[str, str]]] = {
    # name: (scene, who wants, who goes where for it)
    "a weaker job does not stop a stronger one that waits parked": (
        parked(retry_at_s=NOW_S + 5, saved_age_s=0.0),
        "train",
        {},
    ),
    "nor one that is held, if that loses work": (parked("hold"), "train", {}),
    "one that is held and at a saved point is in nobody's way": (
        parked("hold", saved_age_s=0.0),
        "train",
        {"first": "stopped"},
    ),
    "one whose devices became too small for it is in nobody's way": (
        Scene(24)
        .job(job_spec("first", 25, 1, priority=80), "parked", saved_age_s=0.0)
        .job(job_spec(running=24), "stopped"),
        "train",
        {"first": "stopped"},
    ),
    "a job puts another aside as far as it keeps its work": (
        Scene(24).job(job_spec("other", 14, 1)).job(job_spec(running=20, priority=80), "stopped"),
        "train",
        {"other": "parked"},
    ),
    "and no further": (
        Scene(24).job(job_spec("other", 14, 1)).job(job_spec(running=24, priority=80), "stopped"),
        "train",
        {},
    ),
    "unless it is at a saved point": (
        Scene(24)
        .job(job_spec("other", 14, 1), saved_age_s=0.0)
        .job(job_spec(running=24, priority=80), "stopped"),
        "train",
        {"other": "stopped"},
    ),
    "a request puts it aside as far as it must": (
        Scene(24)
        .job(job_spec("other", 14, 1))
        .service(service_spec("code", 24), "stopped", demand={"attended": Waiting(n=1, since_s=NOW_S - 1)}),
        "code",
        {"other": "stopped"},
    ),
}


@pytest.mark.parametrize("name", DOWN)
def test_how_far_down(name: str) -> None:
    scene, want, expected = DOWN[name]
    plan, _ = target(scene.read().s)
    assert {hid: plan.placed[hid][0] for hid, cause in plan.causes.items() if cause == want} == expected


def test_residency_and_push_back_of_zero_protect_nobody() -> None:
    scene = Scene(24, policy=Policy(push_back_s=0.0))
    scene.job(job_spec(parked=1), "stopped", pushed_s=NOW_S, key=-1e9)
    scene.job(job_spec("other", 14, 1, min_residency_s=0.0), since_s=NOW_S)
    assert objection(scene, "train", "other") is None
    assert objection(scene.put(replace(scene.s.holders["train"], pushed_s=NOW_S)), "train", "other") is None


def test_one_under_way_to_its_place_is_pushed_only_by_a_stronger_one() -> None:
    scene = asked().job(job_spec("low", 14, 1), "stopped", devices=GPU)
    scene.put(scene.s.holders["low"], moving("low", "stopped", "running"))
    plan, verdicts = target(scene.read().s)
    assert plan.causes == {"low": "code"} and verdicts["code"].code == "goes"
    assert isinstance(scene.s.holders["code"], Service)
