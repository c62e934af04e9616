"""Who may push whom aside, and when. A rule answers None (no objection) or a Verdict."""

from __future__ import annotations

from collections.abc import Callable

from headway.core import gaps, host_fit, leases, windows
from headway.core.fit import Plan
from headway.core.lifecycle import aside_form, gap_placed, in_use, loses_work
from headway.core.model import Holder, Job, Rank, Service, Snapshot, Verdict, Want
from headway.core.staying import stayed

STUCK_S = 60.0
PushRule = Callable[[Want, Holder, Plan, Snapshot], Verdict | None]


def never(want: Want, victim: Holder, plan: Plan, s: Snapshot) -> Verdict | None:
    """Homes push nobody; background requests push no job; nobody pushes one that ranks higher and waits."""
    weak = want.rank[0] == Rank.HOME or (want.rank[0] == Rank.BACKGROUND and isinstance(victim, Job))
    weak = weak or victim.id in plan.waiting
    return Verdict(code="too_weak", facts={"holder": victim.id}) if weak else None


def yields(want: Want, victim: Holder, plan: Plan, s: Snapshot) -> Verdict | None:
    """A lease is asked to leave only where it said that it may be, by who declared at least its priority."""
    return leases.yields(want, victim, s)


def cannot(want: Want, victim: Holder, plan: Plan, s: Snapshot) -> Verdict | None:
    """It has no way to free memory from where it is, or the machine has no room for any of them."""
    form, _ = plan.form_of(victim)
    if host_fit.aside_now(victim, s, form) is not None:
        return None
    if aside_form(victim, form) is None:
        return Verdict(code="cannot_step_aside", facts={"holder": victim.id, "form": form})
    return host_fit.refused(victim, s, form)


def gate_stuck(want: Want, victim: Holder, plan: Plan, s: Snapshot) -> Verdict | None:
    """One of its gates may still forward and cannot be ended: it stays awake, and is tried again later."""
    if not isinstance(victim, Service) or victim.gate.stuck_s is None:
        return None
    until_s = victim.gate.stuck_s + STUCK_S
    return (
        Verdict(code="gate_stuck", facts={"service": victim.id}, until_s=until_s)
        if until_s > s.now_s
        else None
    )


def stays(want: Want, victim: Holder, plan: Plan, s: Snapshot) -> Verdict | None:
    """It did not step aside when it was asked a moment ago."""
    return stayed(victim, s)


def placement(want: Want, victim: Holder, plan: Plan, s: Snapshot) -> Verdict | None:
    """Only a gap job takes a model's memory; a job beside the model waits until it fits."""
    if isinstance(want.holder, Job) and isinstance(victim, Service) and not gap_placed(want.holder):
        return Verdict(code="beside_only", facts={"service": victim.id})
    return windows.in_place_of(want, victim, s)


def busy(want: Want, victim: Holder, plan: Plan, s: Snapshot) -> Verdict | None:
    """A service that answers, or that cannot be read, keeps its memory until somebody waited too long for it."""
    if not isinstance(victim, Service) or want.rank[0] == Rank.OVERDUE:
        return None
    if not in_use(victim):
        return None
    facts = {
        "service": victim.id,
        "active": victim.active,
        "waiting": sum(w.n for w in victim.demand.values()),
        "engine": victim.engine_active,
    }
    until_s = None
    if isinstance(want.holder, Service):
        until_s = s.now_s - want.waited_s + s.policy.switch_after_s["attended"]
    return Verdict(code="model_busy", facts=facts, until_s=until_s)


def unserved(want: Want, victim: Holder, plan: Plan, s: Snapshot) -> Verdict | None:
    """A load belongs to the requests that caused it: at least one is answered before it is evicted."""
    if not isinstance(victim, Service):
        return None
    loading = victim.form != victim.top and victim.id in s.pending
    if not victim.active and not any(w.n for w in victim.demand.values()):
        return None
    if loading:
        return Verdict(code="load_unserved", facts={"service": victim.id})
    # the end of a background request is not told: it had its chance after a while
    until_s = victim.since_s + s.policy.switch_after_s["attended"]
    ended_s = max(victim.last_end_s or 0.0, victim.idle_since_s or 0.0)
    if ended_s >= victim.since_s or until_s <= s.now_s:
        return None
    return Verdict(code="load_unserved", facts={"service": victim.id}, until_s=until_s)


def residency(want: Want, victim: Holder, plan: Plan, s: Snapshot) -> Verdict | None:
    """Nobody is pushed a moment after he came. It protects jobs from jobs only, never from requests.

    A model that was called back for the end of its window stays for that, or jobs would send it away in between.
    """
    if isinstance(victim, Service) and victim.called_back and isinstance(want.holder, Job):
        return Verdict(code="residency", facts={"holder": victim.id}, until_s=victim.back_s)
    if victim.form != victim.top or (isinstance(victim, Job) and not isinstance(want.holder, Job)):
        return None
    until_s = victim.since_s + victim.spec.min_residency_s
    if until_s <= s.now_s:
        return None
    return Verdict(code="residency", facts={"holder": victim.id}, until_s=until_s)


def unsaved(want: Want, victim: Holder, plan: Plan, s: Snapshot) -> Verdict | None:
    """A job pushes only a job that loses nothing by it; how far down is for room.py to say."""
    if not (isinstance(want.holder, Job) and isinstance(victim, Job)):
        return None
    form = host_fit.aside_now(victim, s)
    if form is None or not loses_work(victim, victim.form, form):
        return None
    return host_fit.refused(victim, s) or Verdict(code="would_lose_work", facts={"holder": victim.id})


def not_back(want: Want, victim: Holder, plan: Plan, s: Snapshot) -> Verdict | None:
    """The pushed one does not push back at once."""
    pushed_s = want.holder.pushed_s
    if not (isinstance(want.holder, Job) and isinstance(victim, Job)) or pushed_s is None:
        return None
    until_s = pushed_s + s.policy.push_back_s
    return (
        Verdict(code="just_pushed", facts={"holder": victim.id}, until_s=until_s)
        if until_s > s.now_s
        else None
    )


def gap_worth(want: Want, victim: Holder, plan: Plan, s: Snapshot) -> Verdict | None:
    """Is the gap worth a swap?"""
    if isinstance(want.holder, Job) and isinstance(victim, Service) and victim.form == victim.top:
        return gaps.worth_it(want.holder, (victim,), s)  # all of them together: see room.py
    return None


PUSH: tuple[PushRule, ...] = (
    never,
    yields,
    cannot,
    gate_stuck,
    stays,
    placement,
    busy,
    unserved,
    residency,
    not_back,  # before what no time changes: it says until when
    unsaved,
    gap_worth,
)
# For who only asks whether: what costs little and mostly says no comes first.
WHETHER: tuple[PushRule, ...] = (residency, *(rule for rule in PUSH if rule is not residency))


def lasting(victim: Holder) -> tuple[PushRule, ...]:
    """The rules about it that no time changes. A job or a lease that cannot step aside ends one day; no server does."""
    return (never, placement, cannot, stays) if isinstance(victim, Service) else (never, placement)
