"""The order of wants: one for all, the same however records are kept, and not changed by time alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core import rank
from headway.core.decide import target
from headway.core.lifecycle import aside_form
from headway.core.model import Job, Rank, Service, Snapshot, Waiting, Want
from tests.core.make import Scene, job_spec, service_spec
from tests.core.messes import messy_scenes
from tests.core.scenes import deep

pytestmark = pytest.mark.core

LATER_S = st.sampled_from([0.1, 10.0, 31.0, 700.0, 1e5])


def wants(s: Snapshot) -> list[Want]:
    return list(rank.wants(s))


@given(messy_scenes())
@deep(90)
def test_the_order_is_total_and_everybody_is_in_it_once(scene: Scene) -> None:
    found = wants(scene.s)
    assert all(before.rank < after.rank for before, after in pairwise(found))
    assert len({want.holder.id for want in found}) == len(found)
    assert not [want for want in found if isinstance(want.holder, Job) and want.holder.ended]


@given(messy_scenes())
@deep(60)
def test_the_order_does_not_depend_on_how_records_are_kept(scene: Scene) -> None:
    again = replace(scene.s, holders=dict(reversed(list(scene.s.holders.items()))))
    assert wants(again) == wants(scene.s)


@given(messy_scenes(), LATER_S)
@deep(150)
def test_two_of_one_class_never_change_places_by_time_alone(scene: Scene, later_s: float) -> None:
    before = {want.holder.id: want.rank for want in wants(scene.s)}
    after = {want.holder.id: want.rank for want in wants(replace(scene.s, now_s=scene.s.now_s + later_s))}
    assert set(before) == set(after)
    for one in before:
        assert after[one][0] <= before[one][0], "time alone makes nobody weaker"
        assert after[one][1:] == before[one][1:], "the key within a class is constant"
        for other in before:
            if before[one][0] == before[other][0] and after[one][0] == after[other][0]:
                assert (before[one] < before[other]) == (after[one] < after[other])


@given(messy_scenes(), LATER_S)
@deep(150)
def test_only_one_who_waits_too_long_becomes_stronger(scene: Scene, later_s: float) -> None:
    s, later = scene.s, replace(scene.s, now_s=scene.s.now_s + later_s)
    before = {want.holder.id: want.rank[0] for want in wants(s)}
    for want in wants(later):
        if want.rank[0] == before[want.holder.id]:
            continue
        assert isinstance(want.holder, Service) and want.holder.demand
        policy, waiting = s.policy, want.holder.demand
        if attended := waiting.get("attended"):
            assert want.rank[0] == Rank.OVERDUE
            assert later.now_s - attended.since_s >= policy.switch_after_s["attended"]
        else:
            assert later.now_s - waiting["background"].since_s >= policy.background_max_wait_s


@given(messy_scenes())
@deep(90)
def test_the_overdue_come_first_and_those_who_only_may_stay_last(scene: Scene) -> None:
    s, found = scene.s, wants(scene.s)
    overdue = []
    for holder in (s.holders[sid] for sid in s.services):
        waiting = holder.demand.get("attended") if isinstance(holder, Service) else None
        away = holder.form != holder.top
        if waiting and away and s.now_s - waiting.since_s >= s.policy.switch_after_s["attended"]:
            overdue.append(holder.id)
    first = {want.holder.id for want in found if want.rank[0] == Rank.OVERDUE}
    assert set(overdue) <= first
    assert {want.holder.id for want in found[: len(first)]} == first
    homes = [want.rank[0] == Rank.HOME for want in found]
    assert homes == sorted(homes)


@given(messy_scenes())
@deep(60)
def test_a_want_is_settled_before_all_that_rank_lower(scene: Scene) -> None:
    plan, _ = target(scene.s)
    found = [want.holder.id for want in wants(scene.s)]
    assert sorted(plan.order, key=plan.order.__getitem__) == found


@given(messy_scenes())
@deep(60)
def test_one_that_loses_nothing_is_cheaper_to_push_than_one_that_does(scene: Scene) -> None:
    costs = {hid: rank.cost_to_push(scene.s.holders[hid]) for hid in scene.s.present}
    assert len(set(costs.values())) == len(costs)
    for one, cost in costs.items():
        job = scene.s.holders[one]
        form = aside_form(job)
        ways = [r for r in job.spec.moves if (r.source, r.to) == (job.form, form)]
        loses = isinstance(job, Job) and job.saved_age_s != 0.0 and bool(ways) and ways[0].loses_work
        assert cost[0] == int(loses)
        assert all(cost < costs[other] for other in costs if cost[0] < costs[other][0])


# ---------------------------------------------------------------- the edges of a class, two-sided

NOW_S = 1000.0
EDGES = {
    # name: (form, class, waited, expected rank)
    "an attended request a moment before switch_after": ("stopped", "attended", 29.9, Rank.REQUEST),
    "and at switch_after": ("stopped", "attended", 30.0, Rank.OVERDUE),
    "one of a model that is up is never overdue": ("awake", "attended", 30.0, Rank.REQUEST),
    "a background request": ("stopped", "background", 1.0, Rank.BACKGROUND),
    "a moment before background_max_wait": ("stopped", "background", 899.9, Rank.BACKGROUND),
    "and at background_max_wait": ("stopped", "background", 900.0, Rank.OVERDUE),
    "one of a model that is up is a request then": ("awake", "background", 900.0, Rank.REQUEST),
}


@pytest.mark.parametrize(("form", "cls", "waited_s", "expected"), EDGES.values(), ids=EDGES.keys())
def test_the_class_of_a_request(form: str, cls: str, waited_s: float, expected: Rank) -> None:
    demand = {cls: Waiting(n=1, since_s=NOW_S - waited_s)}
    scene = Scene(24).service(service_spec(), form, demand=demand)
    assert [want.rank[0] for want in wants(scene.s)] == [expected]


def test_of_two_requests_the_one_that_waits_longer_is_first_whatever_their_classes_were() -> None:
    scene = Scene(24)
    scene.service(service_spec("new"), "stopped", demand={"attended": Waiting(n=9, since_s=NOW_S - 31)})
    scene.service(service_spec("old"), "stopped", demand={"background": Waiting(n=1, since_s=NOW_S - 950)})
    scene.job(job_spec(priority=100), "stopped", key=-1e9)
    assert [want.holder.id for want in wants(scene.s)] == ["old", "new", "train"]
