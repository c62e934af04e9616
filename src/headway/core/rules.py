"""Who may stay, and who may come. Each rule answers None (no objection) or a Verdict.

The order of a tuple is the order in which people see reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headway.core import calling, floors, host_fit, windows
from headway.core.fit import Plan, excludes
from headway.core.host_fit import aside_now
from headway.core.lanes import NAMED
from headway.core.lifecycle import aside_form, gated, is_active
from headway.core.model import Holder, Job, Lease, Service, Snapshot, Verdict, Want

StayRule = Callable[[Holder, Snapshot], Verdict | None]
LEAVING_S = 0.5
AdmitRule = Callable[[Want, Plan, Snapshot], Verdict | None]


# ---------------------------------------------------------------- STAY: (holder, s); facts["form"] says where to


def wish_aside(holder: Holder, s: Snapshot) -> Verdict | None:
    """Somebody asked it to leave."""
    if holder.wish in ("stop", "kill", "cancel"):
        return Verdict(code="asked_" + holder.wish, facts={"form": holder.bottom, "by": holder.wish_by})
    if holder.wish == "pause":
        form = aside_form(holder)
        if host_fit.refused(holder, s):  # a person who said pause meant no stop: it waits for room to park
            form = aside_now(holder, s) if holder.wish_by == "headway" else None
        return Verdict(code="asked_pause", facts={"form": form, "by": holder.wish_by})
    if (
        holder.wish == "wind_down"
        and isinstance(holder, Job)
        and holder.spec.saved
        and holder.saved_age_s == 0.0
    ):
        return Verdict(code="asked_wind_down", facts={"form": holder.bottom, "by": holder.wish_by})
    if holder.wish == "hold" and isinstance(holder, Service) and holder.form == holder.top:
        return Verdict(code="held", facts={"form": aside_now(holder, s), "by": holder.wish_by})
    return None


def left_over(holder: Holder, s: Snapshot) -> Verdict | None:
    """Its leader ended, but something of its tree lives: that is ended too, so that "done" is true.

    Most trees are gone a few milliseconds after their leader, and need no help.
    """
    run = holder.run
    if (
        run is not None
        and run.exit is not None
        and run.alive
        and s.now_s - (run.exit.at_s or 0.0) > LEAVING_S
    ):
        return Verdict(code="left_over", facts={"form": holder.bottom, "pid": run.pid})
    return None


def gap_over(holder: Holder, s: Snapshot) -> Verdict | None:
    """A job of placement gap is beside a model that is awake."""
    if not isinstance(holder, Job) or holder.form != holder.top:
        return None
    for sid in s.services:
        service = s.holders[sid]
        beside = set(service.devices) & set(holder.devices)
        if (
            service.form == service.top
            and gated(service)
            and beside
            and excludes(holder, service, service.top)
        ):
            return Verdict(code="gap_over", facts={"form": aside_now(holder, s), "service": sid})
    return None


def jobs_leave(holder: Holder, s: Snapshot) -> Verdict | None:
    """Only models run, by a person's word."""
    if s.prod_only_by is None or not isinstance(holder, Job) or holder.form != holder.top:
        return None
    return Verdict(code="prod_only", facts={"form": aside_now(holder, s), "by": s.prod_only_by})


def window_over(holder: Holder, s: Snapshot) -> Verdict | None:
    """A job that runs in windows only, and none is open, or none over a model that uses its device."""
    if not isinstance(holder, Job) or holder.form != holder.top or not windows.bound(holder):
        return None
    if holder.spec.placement != "window":
        no = windows.barred(holder, holder.devices, s)
        return no and replace(no, facts={**no.facts, "form": aside_now(holder, s)})
    if any(windows.is_open(one, s.now_s) for one in s.windows):
        return None
    return Verdict(
        code="outside_window", facts={"form": aside_now(holder, s)}, until_s=windows.next_begin_s(s)
    )


def idle_ttl(holder: Holder, s: Snapshot) -> Verdict | None:
    """A service that nobody used for its idle_ttl. While only models run, nobody else could use its memory."""
    if s.prod_only_by is not None:
        return None
    if not isinstance(holder, Service) or holder.spec.idle_ttl_s is None or holder.form != holder.top:
        return None
    if holder.active != 0 or holder.demand or holder.id in s.pending:
        return None
    since_s = max(holder.since_s, holder.last_end_s or 0.0, holder.idle_since_s or 0.0)
    if s.now_s - since_s < holder.spec.idle_ttl_s:
        return None
    return Verdict(code="idle_ttl", facts={"form": aside_now(holder, s), "idle_s": s.now_s - since_s})


def no_way_back(holder: Holder, s: Snapshot) -> Verdict | None:
    """It failed to wake or resume twice: it is stopped, and started anew from there."""
    half = holder.form not in (None, holder.top, holder.bottom)
    if half and holder.failures >= 2 and holder.spec.argv:
        return Verdict(code="no_way_back", facts={"form": holder.bottom, "failures": holder.failures})
    return None


def retired(holder: Holder, s: Snapshot) -> Verdict | None:
    """The config does not have it any more. A server of somebody else's is only let go: see configuring."""
    if isinstance(holder, Service) and holder.retired and holder.spec.argv:
        return Verdict(code="retired", facts={"form": holder.bottom})
    return None


STAY: tuple[StayRule, ...] = (
    wish_aside,
    retired,
    left_over,
    no_way_back,
    windows.keeps_aside,
    jobs_leave,
    window_over,
    gap_over,
    calling.dismissed,
    idle_ttl,
)


# ---------------------------------------------------------------- ADMIT: (want, plan, s)


def shadow(want: Want, plan: Plan, s: Snapshot) -> Verdict | None:
    return Verdict(code="shadow") if s.mode == "shadow" else None


def models_only(want: Want, plan: Plan, s: Snapshot) -> Verdict | None:
    """Only models run, by a person's word: no job and no lease begins."""
    if s.prod_only_by is None or not isinstance(want.holder, Job | Lease):
        return None
    return Verdict(code="prod_only", facts={"by": s.prod_only_by})


def window(want: Want, plan: Plan, s: Snapshot) -> Verdict | None:
    """A model that a window closed, and a job that runs in windows only while none is open."""
    return windows.closed(want, s) or windows.not_yet(want, s)


def held(want: Want, plan: Plan, s: Snapshot) -> Verdict | None:
    if want.holder.wish == "run" or (want.holder.wish == "wind_down" and want.holder.form == want.holder.top):
        return None
    facts = {"by": want.holder.wish_by, "since_s": want.holder.wish_s, "note": want.holder.note}
    return Verdict(code="held", facts=facts)


def queue_held(want: Want, plan: Plan, s: Snapshot) -> Verdict | None:
    """No job starts or goes on, by a person's word or after a crash loop."""
    if s.queue_hold is None or not isinstance(want.holder, Job):
        return None
    facts = {"by": s.queue_hold.by, "crashes": s.queue_hold.crashes or None}
    return Verdict(code="queue_held", facts={key: value for key, value in facts.items() if value is not None})


def after(want: Want, plan: Plan, s: Snapshot) -> Verdict | None:
    """`after` waits for any end of A, `after_ok` for a good one."""
    if not isinstance(want.holder, Job) or want.holder.started_s is not None:
        return None
    for word in (*want.holder.spec.after, *want.holder.spec.after_ok):
        other = find_job(word, s, want.holder)
        if other is None:
            return Verdict(code="after_gone", facts={"after": word})
        if other.ended is None:
            return Verdict(code="after", facts={"after": other.id, "held": other.wish == "hold"})
        if other.ended == "cancelled" and other.started_s is None:
            return Verdict(code="after_gone", facts={"after": other.id})
        if word in want.holder.spec.after_ok and other.ended != "done":
            return Verdict(code="after_failed", facts={"after": other.id, "ended": other.ended})
    return None


def find_job(word: str, s: Snapshot, asking: Holder | None = None) -> Job | None:
    """The job of that id, else the latest of that recipe; never the one that asks."""
    found = s.holders.get(word)
    if isinstance(found, Job):
        return found
    jobs = (s.holders.get(hid) for hid in s.named.get(word, ()))
    same = [job for job in jobs if isinstance(job, Job) and (asking is None or job.id != asking.id)]
    return max(same, key=lambda job: job.enqueued_s, default=None)


def slots(want: Want, plan: Plan, s: Snapshot) -> Verdict | None:
    """max_active_jobs: one per device unless set; the CPU lane has four places of its own."""
    if not isinstance(want.holder, Job):
        return None
    hid, lane, limit = want.holder.id, plan.lane(want.holder.lane), job_places(want.holder.lane, s)
    active = len(lane.active) - (hid in lane.active)
    if active < limit:
        return None
    others = tuple(other for other in lane.named if other != hid)[:NAMED]
    return Verdict(code="slots", facts={"active": active, "limit": limit, "others": others})


def job_places(lane: str, s: Snapshot) -> int:
    if lane == "cpu":
        return 4
    return len(s.devices) if s.policy.max_active_jobs is None else s.policy.max_active_jobs


def slots_now(job: Job, starting: int, s: Snapshot) -> Verdict | None:
    """Is its place free already? The plan may count on one whose holder has not left yet.

    Args:
        starting: jobs of its lane that are started in this same turn.
    """
    limit, active = job_places(job.lane, s), starting
    for hid in s.present:
        other, moving = s.holders[hid], s.pending.get(hid)
        if isinstance(other, Job) and hid != job.id and other.lane == job.lane:
            active += is_active(other) or (moving is not None and not moving.frees)
    return Verdict(code="slots", facts={"active": active, "limit": limit}) if active >= limit else None


def backoff(want: Want, plan: Plan, s: Snapshot) -> Verdict | None:
    """It failed to start a moment ago."""
    retry_at_s = want.holder.retry_at_s
    if retry_at_s is None or retry_at_s <= s.now_s:
        return None
    facts = {"failures": want.holder.failures, "note": want.holder.note, **want.holder.note_facts}
    return Verdict(code="backoff", facts=facts, until_s=retry_at_s)


def cannot_move(want: Want, plan: Plan, s: Snapshot) -> Verdict | None:
    """A server that somebody else starts, and that is down."""
    service = want.holder
    if isinstance(service, Service) and not service.spec.argv and service.form == service.bottom:
        return Verdict(code="not_ours", facts={"upstream": service.spec.upstream})
    return None


def demand_unknown(want: Want, plan: Plan, s: Snapshot) -> Verdict | None:
    """Right after a start a request may be held at a gate that has not spoken yet."""
    if not isinstance(want.holder, Job | Lease):
        return None
    until_s = s.booted_s + s.policy.demand_grace_s
    silent = [sid for sid in s.services if isinstance(x := s.holders[sid], Service) and x.active is None]
    if silent and s.now_s < until_s and want.holder.spec.count:
        return Verdict(code="demand_unknown", facts={"services": silent}, until_s=until_s)
    return None


def store_silent(want: Want, plan: Plan, s: Snapshot) -> Verdict | None:
    """Nothing is created without a row; a service's way back goes ahead with its intent in the journal."""
    if s.store_ok or not isinstance(want.holder, Job | Lease):
        return None
    return Verdict(code="store_silent", facts={"trouble": s.store_trouble})


def floor(want: Want, plan: Plan, s: Snapshot) -> Verdict | None:
    """Too little main memory or disk is free for anything new, or for all that this job takes."""
    if no := floors.below(want, s):
        return no
    begins = isinstance(want.holder, Job) and want.holder.form == want.holder.bottom
    return host_fit.lacks(want.holder, want.form, s) if begins else None


ADMIT: tuple[AdmitRule, ...] = (
    shadow,
    held,
    queue_held,
    models_only,
    window,
    after,
    backoff,
    cannot_move,
    slots,
    store_silent,
    floor,
    demand_unknown,
)
