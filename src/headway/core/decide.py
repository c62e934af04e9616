"""The pass: who should be in which form (the target), then the next safe steps towards it. Pure."""

from __future__ import annotations

from headway.core import fit, rank, steps
from headway.core.fit import Devices, Plan
from headway.core.lifecycle import aside_form
from headway.core.model import Decision, Holder, Job, Rank, Snapshot, Verdict, Want
from headway.core.push import PUSH
from headway.core.rules import ADMIT, STAY

FIRST_READING_S = 15.0  # after a start: what was not seen by then is not there


def decide(s: Snapshot) -> Decision:
    """Say what to do next and why everybody looked at is where he is. Same snapshot, same answer."""
    plan, verdicts = target(s)
    actions, waits = steps.towards(plan, s)
    verdicts |= waits
    times = [v.until_s for v in verdicts.values() if v.until_s is not None]
    times += [p.limit_at_s for p in s.pending.values() if p.limit_at_s > s.now_s]
    if s.mode == "shadow":
        actions = ()
    return Decision(actions=actions, verdicts=verdicts, recheck_at_s=min(times, default=None))


def target(s: Snapshot) -> tuple[Plan, dict[str, Verdict]]:
    """Who should be in which form, in one order over all who want a device."""
    plan, verdicts = Plan(s), {}
    for hid in s.present:
        holder = s.holders[hid]
        if no := _must_leave(holder, s):
            plan.aside(holder, no.facts["form"] or holder.bottom, no.code)
            verdicts[hid] = no
    for number, want in enumerate(rank.wants(s)):
        plan.order[want.holder.id] = number
        verdict = settle(want, plan, s)
        verdicts.setdefault(want.holder.id, verdict)
    return plan, verdicts


def _must_leave(holder: Holder, s: Snapshot) -> Verdict | None:
    for rule in STAY:
        if (no := rule(holder, s)) and no.facts["form"] != holder.form:
            return no
    return None


def settle(want: Want, plan: Plan, s: Snapshot) -> Verdict:
    """Give the want its form in the plan, or say why not. Several devices: all of them or none."""
    holder = want.holder
    if holder.id in plan.causes:
        return Verdict(code="made_room", facts={"for": plan.causes[holder.id]})
    form, devices = plan.form_of(holder)
    there = holder.id in plan.standing and form == want.form
    if there and holder.id in plan.standing:
        plan.keep(want, devices)
        return Verdict(code="keeps", facts={"form": form})
    for rule in ADMIT:
        if no := rule(want, plan, s):
            return no
    refusals = []
    for devices in fit.placements(want, plan):
        victims, refused = room_on(devices, want, plan, s)
        if refused is None:
            for victim in victims:
                standing, _ = plan.form_of(victim)
                plan.aside(victim, aside_form(victim, standing) or victim.bottom, holder.id)
            plan.keep(want, devices)
            return Verdict(code="goes", facts={"form": want.form, "victims": [v.id for v in victims]})
        refusals.append(refused)
    if not fit.possible(want, s):
        return _never_fits(want, s)
    if want.attended or (want.waited_s > s.policy.reserve_after_s and isinstance(holder, Job)):
        _reserve(want, plan)
    soonest = min(refusals, key=lambda no: (no.until_s is None, no.until_s or 0.0))
    return soonest


def _never_fits(want: Want, s: Snapshot) -> Verdict:
    facts = {
        "need_bytes": fit.need(want.holder, want.form),
        "count": want.holder.spec.count,
        "devices": {d.name: d.total_bytes for d in s.devices.values()},
        "wanted": list(want.holder.spec.pinned_devices),
    }
    unseen = len(s.devices) < want.holder.spec.count or fit.resolve(want.holder.spec, s) is None
    if unseen and s.now_s < (until_s := s.booted_s + FIRST_READING_S):
        return Verdict(code="first_reading", facts=facts, until_s=until_s)
    return Verdict(code="never_fits" if s.devices else "no_device", facts=facts)


def _reserve(want: Want, plan: Plan) -> None:
    """It keeps its place against weaker ones that would only fill the room it waits for."""
    for devices in fit.placements(want, plan)[:1]:
        for device in devices:
            plan.reserved.setdefault(device, want.holder.id)


def room_on(
    devices: Devices, want: Want, plan: Plan, s: Snapshot
) -> tuple[tuple[Holder, ...], Verdict | None]:
    """The cheapest set of weaker holders whose leaving makes the want fit on all of these devices.

    Returns:
        (victims, None) when it fits once they left; ((), verdict) when it does not.
    """
    taken = [plan.reserved[d] for d in devices if plan.reserved.get(d, want.holder.id) != want.holder.id]
    if taken:
        return (), Verdict(code="reserved", facts={"for": taken[0]})
    if want.rank[0] >= Rank.JOB:
        for device in devices:
            if no := fit.unmeasured(s.devices[device], s):
                return (), no
    short = plan.short_on(devices, want)
    victims: tuple[Holder, ...] = ()
    refused: list[Verdict] = []
    for victim in sorted(plan.weaker(want, devices), key=rank.cost_to_push):
        if not short:
            break
        if not set(short) & set(victim.devices) or plan.short_on(devices, want, (*victims, victim)) == short:
            continue  # its leaving changes nothing here
        if no := next((no for rule in PUSH if (no := rule(want, victim, plan, s))), None):
            refused.append(no)
            continue
        victims = (*victims, victim)
        short = plan.short_on(devices, want, victims)
    if short:
        timed = sorted(refused, key=lambda no: (no.until_s is None, no.until_s or 0.0))
        return (), (timed[0] if timed else next(iter(short.values())))
    for innocent in sorted(victims, key=rank.cost_to_push):  # push nobody whose staying still fits
        rest = tuple(v for v in victims if v is not innocent)
        if not plan.short_on(devices, want, rest):
            victims = rest
    return victims, None
