"""What may never be planned or begun, whatever the scene: more than there is, beside the unknown, on dead bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headway.core import fit, rank
from headway.core.decide import decide, target
from headway.core.fit import Plan
from headway.core.lifecycle import step_forms
from headway.core.model import GIB, Device, Holder, Job, Move, Rank, Run, Service, Snapshot, Want
from tests.core.make import Scene, gib
from tests.core.messes import messy_scenes, readable
from tests.core.scenes import crowds, deep, scenes

pytestmark = pytest.mark.core


# ---------------------------------------------------------------- the same sums, made once more


def need_of(holder: Holder, form: str) -> int | None:
    """Bytes of a form: the larger of its word and its peak; a residue not known is nothing, a top not known is None."""
    found = next(f for f in holder.forms if f.name == form)
    known = [b for b in (found.declared_bytes, found.learned_bytes) if b is not None]
    if form == holder.forms[-1].name:
        return 0
    return max(known) if known else (None if form == holder.forms[0].name else 0)


def counted(holder: Holder, form: str, device: Device, s: Snapshot) -> int:
    """Bytes of one holder in the plan; what is measured counts as long as it stays where it is."""
    stays = form == holder.form and holder.id not in s.pending
    return max(need_of(holder, form) or 0, holder.seen_bytes.get(device.id, 0) if stays else 0)


def reserve(device: Device) -> int:
    return min(2 * GIB, int((device.total_bytes or 0) * 0.05))


def overfull(plan: Plan, s: Snapshot, newcomers: set[str]) -> list[str]:
    """Devices on which somebody comes, and that hold more than total minus reserve with everybody where he goes."""
    where = {hid: plan.form_of(s.holders[hid]) for hid in {*plan.placed, *plan.standing}}
    found = []
    for device in s.devices.values():
        here = {hid: form for hid, (form, devices) in where.items() if device.id in devices}
        tops = {hid for hid, form in here.items() if form == s.holders[hid].forms[0].name}
        if not tops & newcomers:
            continue
        taken = device.foreign_bytes + sum(counted(s.holders[h], form, device, s) for h, form in here.items())
        if taken > (device.total_bytes or 0) - (reserve(device) if len(tops) > 1 else 0):
            known = all(need_of(s.holders[hid], here[hid]) is not None for hid in tops)
            found += [f"{device.name}: {taken} bytes in {here}"] if known else []
        if len(tops) > 1 and any(need_of(s.holders[hid], here[hid]) is None for hid in tops):
            found.append(f"{device.name}: {sorted(tops)}, one of them of unknown need")
    return found


@given(st.one_of(messy_scenes(), crowds()))
@deep(500)
def test_a_plan_never_holds_more_than_there_is_minus_the_reserve(scene: Scene) -> None:
    plan, verdicts = target(scene.s)
    assert overfull(plan, scene.s, {hid for hid, no in verdicts.items() if no.code == "goes"}) == []


def test_the_sums_here_find_what_is_too_much() -> None:
    """Or the property above would prove nothing."""
    scene = Scene(24).service()
    plan, want = Plan(scene.s), next(rank.wants(scene.s))
    plan.keep(want, want.holder.devices)
    assert overfull(plan, scene.s, {"chat"}) == []
    plan.s = replace(
        scene.s, devices={d.id: replace(d, foreign_bytes=gib(9)) for d in scene.s.devices.values()}
    )
    assert overfull(plan, plan.s, {"chat"}) != []


# ---------------------------------------------------------------- room


def want_of(holder: Holder) -> Want:
    return Want(holder=holder, form=holder.top, rank=(Rank.REQUEST, 0.0, holder.id))


@given(messy_scenes(), st.data())
@deep(120)
def test_one_more_holder_aside_never_leaves_less_room(scene: Scene, data: st.DataObject) -> None:
    s = scene.s
    assume(len(s.present) > 1)
    want = want_of(s.holders[data.draw(st.sampled_from(sorted(s.holders)))])
    plan, devices = Plan(s), tuple(sorted(s.devices))
    leaving: dict[str, str] = {}
    short = set(plan.short_on(devices, want, leaving))
    for hid in data.draw(st.permutations([hid for hid in s.present if hid != want.holder.id])):
        victim = s.holders[hid]
        for form in step_forms(victim, plan.form_of(victim)[0]):
            leaving = {**leaving, hid: form}
            then = set(plan.short_on(devices, want, leaving))
            assert then <= short, (want.holder.id, leaving)
            short = then


def everybody_away(s: Snapshot, want: Want) -> Plan:
    """A plan in which all others of ours have stepped aside as far as their drivers can, one after the other."""
    plan = Plan(s)
    for hid in s.present:
        if hid != want.holder.id:
            plan.aside(s.holders[hid], s.holders[hid].bottom, want.holder.id)
    return plan


@given(scenes())
@deep(120)
def test_what_is_possible_fits_once_everybody_else_stepped_aside(scene: Scene) -> None:
    s = scene.s
    for holder in s.holders.values():
        want = want_of(holder)
        plan = everybody_away(s, want)
        fits = any(not plan.short_on(devices, want) for devices in fit.placements(want, plan))
        assert fits == fit.possible(want, s), holder


@given(messy_scenes())
@deep(90)
def test_what_is_not_possible_is_neither_planned_nor_begun(scene: Scene) -> None:
    s = scene.s
    never = {hid for hid, holder in s.holders.items() if not fit.possible(want_of(holder), s)}
    plan, verdicts = target(s)
    assert not never & {hid for hid, no in verdicts.items() if no.code == "goes"}
    assert not never & set(plan.reserved.values())
    begun = {move.holder for move in decide(s).actions if isinstance(move, Move) and not move.frees}
    assert not never & begun


# ---------------------------------------------------------------- steps


@given(messy_scenes())
@deep(120)
def test_nothing_is_begun_on_a_device_without_a_reading_except_by_a_model_that_is_alone(scene: Scene) -> None:
    s = scene.s
    for move in decide(s).actions:
        if not isinstance(move, Move) or move.frees:
            continue
        unread = {d for d in move.devices if d not in s.devices or not readable(s, d)}
        if not unread:
            continue
        assert isinstance(s.holders[move.holder], Service), move
        others = [h for h in s.holders.values() if h.id != move.holder and set(h.devices) & set(move.devices)]
        assert not [h for h in others if h.run is not None and h.run.lock_held and not h.run.gone], move


@given(messy_scenes())
@deep(120)
def test_what_is_begun_fits_beside_everybody_in_the_form_he_is_in(scene: Scene) -> None:
    s = scene.s
    for move in decide(s).actions:
        if not isinstance(move, Move) or move.frees:
            continue
        holder = s.holders[move.holder]
        for device in (s.devices[d] for d in move.devices if readable(s, d)):
            wanted = need_of(holder, move.form)
            others = [h for h in s.holders.values() if h.id != holder.id]
            held = sum(present_bytes(other, device, s) for other in others)
            assert wanted is not None or not any(at_its_top(other, device, s) for other in others), move
            own = 0
            if holder.run is None or (holder.run.lock_held and not holder.run.gone):
                own = (
                    holder.seen_bytes.get(device.id, 0)
                    if device.per_process
                    else need_of(holder, holder.form or "") or 0
                )
            assert (wanted or 0) <= (device.total_bytes or 0) - device.foreign_bytes - held, move
            assert (wanted or 0) - own <= (device.free_bytes or 0), move


def present_form(other: Holder, s: Snapshot) -> str:
    """The form a step counts: under a release the one it leaves, under a taking move the one it goes to."""
    moving = s.pending.get(other.id)
    if moving is None:
        return other.form or other.forms[0].name
    return (moving.source or other.forms[0].name) if moving.frees else moving.to


def present_bytes(other: Holder, device: Device, s: Snapshot) -> int:
    seen = other.seen_bytes.get(device.id, 0)
    if isinstance(other, Job) and other.ended and other.id not in s.pending:
        return seen
    here = device.id in other.devices
    return max(seen, need_of(other, present_form(other, s)) or 0) if here else seen


def at_its_top(other: Holder, device: Device, s: Snapshot) -> bool:
    return device.id in other.devices and present_form(other, s) == other.forms[0].name


@given(messy_scenes(), st.data())
@deep(90)
def test_bytes_of_a_run_that_ended_are_not_its_own(scene: Scene, data: st.DataObject) -> None:
    s = scene.s
    held = sorted(h.id for h in s.holders.values() if h.seen_bytes and h.run)
    assume(held)
    holder = s.holders[data.draw(st.sampled_from(held))]
    dead = replace(holder, run=Run(id="dead", lock_held=False))
    forgotten = replace(holder, run=Run(id="dead", lock_held=False), seen_bytes={})
    for device in s.devices.values():
        if device.per_process:
            found = fit.measured(dead, holder.top, (device.id,), s)
            assert found == fit.measured(forgotten, holder.top, (device.id,), s)


@given(messy_scenes(), st.sampled_from(["N/A", "trouble", "stale", "changed", "never", "meter"]))
@deep(90)
def test_unknown_is_never_free(scene: Scene, how: str) -> None:
    s = scene.s
    for device in s.devices.values():
        worse = {
            "N/A": replace(device, free_bytes=None, used_bytes=None),
            "trouble": replace(device, trouble="lost"),
            "stale": replace(device, read_at_s=s.now_s - s.policy.reading_max_age_s - 0.1),
            "changed": replace(device, last_change_s=s.now_s),
            "never": replace(device, read_at_s=None),
            "meter": device,
        }[how]
        blind = replace(
            s,
            devices={**s.devices, device.id: worse},
            meter_trouble="hangs" if how == "meter" else s.meter_trouble,
        )
        for holder in s.holders.values():
            assert fit.measured(holder, holder.top, (device.id,), blind) is not None
