"""The pass: who should be in which form (the target), then the next safe steps towards it. Pure."""

from __future__ import annotations

from dataclasses import replace

from headway.core import backfill, budgets, fit, freezing, host_fit, leases, rank, steps, told, windows
from headway.core.fit import Plan
from headway.core.lifecycle import next_rung
from headway.core.model import Decision, FormName, Holder, Job, Lease, Signal, Snapshot, Verdict, Want
from headway.core.room import cheapest_room, place_of
from headway.core.rules import ADMIT, STAY

FIRST_READING_S = 15.0  # after a start: what was not seen by then is not there
GIVES_WAY = (
    "held",
    "queue_held",
    "prod_only",
    "no_model",
    "outside_window",
    "never_fits",
    "no_device",
)  # what it has is in nobody's way while it waits like that
PASSING = ("after", "slots")  # refusals that time ends: one who can never fit is told that instead


def decide(s: Snapshot) -> Decision:
    """Say what to do next and why everybody looked at is where he is. Same snapshot, same answer."""
    plan, verdicts = target(s)
    actions, waits = steps.towards(plan, s)
    verdicts |= waits
    verdicts |= leases.patience(s, verdicts, plan.placed, actions)
    actions, frozen = freezing.signals(s, actions)
    verdicts |= frozen
    times = [v.until_s for v in verdicts.values() if v.until_s is not None]
    times += [*leases.times(s), *budgets.times(s), *told.times(s), *windows.times(s)]
    times += [s.front_at_s] if s.front_at_s is not None else []
    times += [steps.limit_at_s(moving) for moving in s.pending.values()]
    if s.mode == "shadow":  # what was frozen before it was said is not left so
        actions = tuple(a for a in actions if isinstance(a, Signal) and a.what == "thaw")
        if leases.unrecorded(s):
            verdicts |= leases.would(s, target(replace(s, mode="live"))[1])
    return Decision(
        actions=actions,
        verdicts=verdicts,
        recheck_at_s=min((t for t in times if t > s.now_s), default=None),
        asides=plan.causes,
    )


def target(s: Snapshot) -> tuple[Plan, dict[str, Verdict]]:
    """Who should be in which form, in one order over all who want a device."""
    plan, verdicts = Plan(s), {}
    for hid in s.present:
        holder = s.holders[hid]
        if no := _must_leave(holder, s):
            plan.aside(holder, no.facts["form"], no.code)
            verdicts[hid] = no
    for number, want in enumerate(rank.wants(s)):
        plan.order[want.holder.id] = number
        verdict = settle(want, plan, s)
        if want.holder.id not in plan.placed and verdict.code not in GIVES_WAY:
            plan.waiting.add(want.holder.id)
        verdicts.setdefault(want.holder.id, verdict)
    return plan, verdicts


def _must_leave(holder: Holder, s: Snapshot) -> Verdict | None:
    for rule in STAY:
        if (no := rule(holder, s)) and no.facts["form"] not in (None, holder.form):
            moving = s.pending.get(holder.id)
            if moving or next_rung(holder, no.facts["form"])[1]:
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
        paused = holder.wish == "pause" and holder.form == holder.top
        return (host_fit.refused(holder, s) if paused else None) or Verdict(
            code="keeps", facts={"form": form}
        )
    must: dict[str, FormName] = {}
    for rule in ADMIT:
        if (no := rule(want, plan, s)) and not (must := place_of(want, no, plan, s)):
            return never_fits(want, s) or no if no.code in PASSING else no
    if never := never_fits(want, s):
        return never
    found, refusals = cheapest_room(want, plan, s, must)
    if found is not None:
        devices, leaving = found
        for victim, to in leaving.items():
            plan.aside(s.holders[victim], to, holder.id)
        plan.keep(want, devices)
        return Verdict(code="goes", facts={"form": want.form, "victims": sorted(leaving)})
    if not refusals:  # what it stands on was not read since this daemon began
        return Verdict(code="unmeasured", facts={"device": ", ".join(holder.devices), "trouble": None})
    long = isinstance(holder, Job | Lease) and want.waited_s > s.policy.reserve_after_s
    soonest = min(refusals, key=_when)
    if fit.crowded_out(want, s):
        return _crowded_out(want, soonest, s)
    if want.attended or long:
        backfill.reserve(want, plan, s)
    return soonest


def _when(no: Verdict) -> tuple[bool, float, bool]:
    """Which of several reasons is told: what time ends soonest, and last of all that a device is too small for it."""
    need_bytes, total_bytes = no.facts.get("need_bytes"), no.facts.get("total_bytes")
    return (
        no.until_s is None,
        no.until_s or 0.0,
        bool(need_bytes and total_bytes and need_bytes > total_bytes),
    )


def _crowded_out(want: Want, no: Verdict, s: Snapshot) -> Verdict:
    """Strangers hold the memory: nothing of ours can help, and after `free_limit_s` a request is told so."""
    limit_s = s.policy.free_limit_s
    if not want.attended or no.code not in ("memory", "memory_now") or want.waited_s < limit_s:
        return no
    return Verdict(code="crowded_out", facts=no.facts)


def never_fits(want: Want, s: Snapshot) -> Verdict | None:
    """Why it could not start even if everybody of ours were gone; None when it could."""
    if fit.possible(want, s):
        return None
    bound = fit.bound_to(want.holder, s)
    facts = {
        "need_bytes": fit.need(want.holder, want.form),
        "count": want.holder.spec.count,
        "devices": {s.devices[d].name: s.devices[d].total_bytes for d in bound or s.devices},
        "wanted": list(want.holder.spec.pinned_devices),
        "trouble": s.meter_trouble,
    }
    missing = not bound and fit.resolve(want.holder.spec, s) is None
    if missing:
        facts |= {"missing": facts["wanted"], "need_bytes": None}
    unseen = missing or len(s.devices) < (len(bound) or want.holder.spec.count)
    if unseen and s.now_s < (until_s := s.booted_s + FIRST_READING_S):
        return Verdict(code="first_reading", facts=facts, until_s=until_s)
    return Verdict(code="never_fits" if s.devices else "no_device", facts=facts)
