"""What jobs say of themselves, and what their silence says: saved points, progress, health, signs of work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from headway.core import eta, worked
from headway.core.draft import Draft
from headway.core.facts import JobTold
from headway.core.model import Holder, HolderId, Job, Snapshot

UNHEALTHY = 3  # health commands that fail in a row before that is told
SAVES_TOLD_S = 60.0  # of one that saves more often, one point a minute is told: the log is for all
IDLE_SHARE = 0.01  # of a processor: less than this is no work


def told(d: Draft, fact: JobTold) -> None:
    """One answer of a job. What it does not say stays as it was."""
    job = d.holders.get(fact.job)
    if not isinstance(job, Job):
        return
    new_point = fact.saved_point is not None and fact.saved_point != job.saved_point
    age_s = fact.saved_age_s if fact.saved_age_s is not None else job.saved_age_s
    if job.wish == "wind_down" and _saved_since(job, fact, d.now_s, new_point):
        age_s = 0.0  # the point that it was to reach
    heard = _signs(d, job, fact, new_point)
    if new_point and job.form == job.top:
        heard = worked.saved(heard, d.now_s, fact.saved_age_s)
    if new_point and not _told_lately(job, heard):
        d.event("job.saved", job.id, point=fact.saved_point)
    heard = _health(d, heard, fact.healthy)
    if fact.progress is not None:
        heard = replace(heard, progress=fact.progress, marks=eta.marked(heard, fact.progress, d.now_s))
    heard = replace(
        heard,
        saved_point=fact.saved_point if fact.saved_point is not None else job.saved_point,
        saved_age_s=age_s,
        summary=fact.summary if fact.summary is not None else job.summary,
    )
    kept = [(one.summary, one.unhealthy, one.stalled) for one in (job, heard)]
    d.put(heard, save=new_point or kept[0] != kept[1])


def _saved_since(job: Job, fact: JobTold, now_s: float, new_point: bool) -> bool:
    """Did it save after it was asked to wind down? Where no age is told, a point that is new says so."""
    if fact.saved_age_s is None:
        return new_point
    return fact.saved_point is not None and now_s - fact.saved_age_s >= (job.wish_s or 0.0)


def _signs(d: Draft, job: Job, fact: JobTold, new_point: bool) -> Job:
    """Any sign of work: progress, a saved point, a line in its log, or processor time."""
    works = new_point or (fact.progress is not None and fact.progress != job.progress)
    works = works or (fact.log_bytes is not None and fact.log_bytes != job.log_bytes)
    if fact.busy_s is not None and job.busy_s is not None:
        works = works or fact.busy_s - job.busy_s > IDLE_SHARE * max(0.0, d.now_s - (job.told_s or d.now_s))
    heard = replace(
        job,
        log_bytes=fact.log_bytes if fact.log_bytes is not None else job.log_bytes,
        busy_s=fact.busy_s if fact.busy_s is not None else job.busy_s,
        told_s=d.now_s,
    )
    if not works:
        return heard
    if job.stalled:
        d.event("job.works_again", job.id)
    return replace(heard, active_s=d.now_s, stalled=False)


def _told_lately(before: Job, now: Job) -> bool:
    """Was a saved point told in this minute of its running time? One that it made while it left is told always."""
    if before.saved_ran_s is None or now.saved_ran_s is None or before.form != before.top:
        return False
    return before.saved_ran_s // SAVES_TOLD_S == now.saved_ran_s // SAVES_TOLD_S


def _health(d: Draft, job: Job, healthy: bool | None) -> Job:
    if healthy is None:
        return job
    if healthy:
        if job.unhealthy >= UNHEALTHY:
            d.event("job.healthy", job.id)
        return replace(job, unhealthy=0)
    if job.unhealthy + 1 == UNHEALTHY:
        d.event("job.unhealthy", job.id, failures=UNHEALTHY)
    return replace(job, unhealthy=job.unhealthy + 1)


# ---------------------------------------------------------------- silence


def stalls_s(job: Holder) -> float | None:
    """When it counts as stalled if nothing is heard of it until then; None: nobody asked, or it is known already."""
    if not isinstance(job, Job) or job.form != job.top or job.spec.stall_after_s is None or job.stalled:
        return None
    if job.frozen_by_gate:  # it cannot work
        return None
    return max(job.active_s or 0.0, job.since_s) + job.spec.stall_after_s


def times(s: Snapshot) -> Iterator[float]:
    """When one of those that run would count as stalled."""
    for hid in s.present:
        if (at_s := stalls_s(s.holders[hid])) is not None:
            yield at_s


def look(d: Draft, present: Iterable[HolderId]) -> None:
    """Whoever showed no sign of work for as long as its recipe says is flagged, once."""
    for hid in sorted(present):
        job = d.holders[hid]
        at_s = stalls_s(job)
        if at_s is not None and at_s <= d.now_s and isinstance(job, Job) and hid not in d.pending:
            d.event("job.stalled", hid, silent_s=d.now_s - max(job.active_s or 0.0, job.since_s))
            d.put(replace(job, stalled=True))
