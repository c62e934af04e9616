"""Commands about jobs that change no wish: new values for what was said of them, and forgetting those that are over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

from headway.core.commands import ClearJobs, EditJob, Reply
from headway.core.draft import Draft
from headway.core.ends import hold_followers
from headway.core.line import AGE_S as AGE_S
from headway.core.line import follows
from headway.core.model import HolderId, Job, JobSpec, Snapshot
from headway.core.replies import accepted, refused, resolve
from headway.core.rules import find_job

EDITABLE = frozenset(
    {
        "priority", "placement", "after", "after_ok", "retries", "max_runtime_s", "stall_after_s", "oom_exit_code",
        "goal", "tags", "labels", "colour",
    }
)  # fmt: skip


def edit(d: Draft, command: EditJob) -> Reply:
    """Change what may be changed of a job that is not over."""
    job = resolve(d, command.target)
    if not isinstance(job, Job):
        return refused(d, job if isinstance(job, str) else "not_a_job", target=command.target)
    if job.ended:
        return refused(d, "already_ended", job.id, target=job.id, ended=job.ended)
    changes = dict(command.changes)
    if unknown := sorted(changes.keys() - EDITABLE):
        return refused(d, "not_editable", job.id, fields=unknown)
    spec: JobSpec = replace(job.spec, **changes)  # type: ignore[arg-type]
    view = d.view()
    for word in (*spec.after, *spec.after_ok):
        other = find_job(word, view, job)
        if other is None:
            return refused(d, "unknown_after", job.id, after=word)
        if ring := _ring(job, other, view):
            return refused(d, "cycle", job.id, ring=ring)
    left = max(0, job.attempts_left + spec.retries - job.spec.retries)
    by_s = AGE_S * (job.spec.priority - spec.priority)
    # One that waited long enough stays at the front; its own rank counts again after its next run.
    places = {"key": job.key + by_s} if job.own_key is None else {"own_key": job.own_key + by_s}
    coming = replace(job.coming, **changes) if job.coming is not None else None  # type: ignore[arg-type]
    changed = sorted(f.name for f in fields(spec) if getattr(spec, f.name) != getattr(job.spec, f.name))
    d.put(follows(d, replace(job, spec=spec, coming=coming, attempts_left=left, **places)))  # type: ignore[arg-type]
    for word in (*spec.after, *spec.after_ok):
        if (other := find_job(word, view, job)) is not None:
            hold_followers(d, other.id)
    d.event("job.edited", job.id, fields=changed, by=command.by)
    return accepted(d, job.id, done=True, fields=changed)


def _ring(job: Job, other: Job, s: Snapshot) -> list[HolderId] | None:
    """The way from `other` back to `job` along what each waits for; None: there is none."""
    came: dict[HolderId, HolderId | None] = {other.id: None}
    line = [other]
    for one in line:
        if one.id == job.id:
            way: list[HolderId] = []
            at: HolderId | None = one.id
            while at is not None:
                way.append(at)
                at = came[at]
            return [job.id, *reversed(way)]
        for word in (*one.spec.after, *one.spec.after_ok) if one.ended is None else ():
            following = find_job(word, s, one)
            if following is not None and following.id not in came:
                came[following.id] = one.id
                line.append(following)
    return None


# ---------------------------------------------------------------- clear


def clear(d: Draft, command: ClearJobs) -> Reply:
    """Drop jobs that are over. What waited for the end of one has seen it; what never will is held already."""
    gone: dict[HolderId, Job] = {}
    for target in command.targets:
        job = resolve(d, target)
        if not isinstance(job, Job):
            return refused(d, job if isinstance(job, str) else "not_a_job", target=target)
        if job.ended is None:
            return refused(d, "not_ended", job.id, target=job.id)
        if job.id in d.present or job.id in d.pending:
            return refused(d, "still_there", job.id, target=job.id)
        gone[job.id] = job
    _seen(d, gone.values())
    for hid in gone:
        d.event("job.cleared", hid, name=gone[hid].spec.name, by=command.by)
        d.drop(hid)
    return accepted(d, None, cleared=sorted(gone), done=True)


def _seen(d: Draft, gone: Iterable[Job]) -> None:
    """Followers that name one of them go on without it where its end was what they waited for."""
    view, ids = d.view(), {job.id for job in gone}
    for lane in ("gpu", "cpu", "held"):
        for _, hid in list(d.lane(lane)):
            job = d.holders[hid]
            if not isinstance(job, Job) or job.started_s is not None:
                continue
            fulfilled = {
                word
                for word in (*job.spec.after, *job.spec.after_ok)
                if (other := find_job(word, view, job)) is not None
                and other.id in ids
                and _ran(other)
                and (word not in job.spec.after_ok or other.ended == "done")
            }
            if fulfilled:
                after = tuple(word for word in job.spec.after if word not in fulfilled)
                after_ok = tuple(word for word in job.spec.after_ok if word not in fulfilled)
                d.put(replace(job, spec=replace(job.spec, after=after, after_ok=after_ok)))


def _ran(job: Job) -> bool:
    return not (job.ended == "cancelled" and job.started_s is None)
