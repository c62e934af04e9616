"""What becomes of a holder when a run of it ends, when it stepped aside, and when a start failed."""

from __future__ import annotations

from dataclasses import replace

from headway.core.draft import Draft
from headway.core.facts import MoveAnswered
from headway.core.lifecycle import ENDS_AS
from headway.core.model import Ended, Holder, Job, Pending, Service

START_TRIES = 3  # a job that fails to start this often in a row is held with its last lines


def run_ended(d: Draft, holder: Holder) -> None:
    """No process of the run lives any more."""
    pending = d.pending.get(holder.id)
    if pending is not None and pending.frees:
        if isinstance(holder, Job) and _ended_before(holder, pending):
            d.end_move(holder.id)
        else:  # the process is gone; the meter still has to say so of its memory
            answered_s = d.now_s if pending.step == "asked" else pending.answered_s
            d.move(replace(pending, to=holder.bottom, step="answered", answered_s=answered_s))
            d.put(replace(holder, seen_bytes={}))
            return
    elif pending is not None:
        d.end_move(holder.id)
        if isinstance(holder, Service):
            code = holder.run.exit.code if holder.run and holder.run.exit else None
            failed(d, holder, "server_exited", exit_code=code)
            holder = d.holders[holder.id]
    d.put(_down(d, holder))
    down = d.holders[holder.id]
    if isinstance(down, Job):
        _job_ended(d, down)
    elif pending is None:
        code = holder.run.exit.code if holder.run and holder.run.exit else None
        d.event("service.died", holder.id, exit_code=code)
        if holder.wish in ENDS_AS:
            d.put(replace(d.holders[holder.id], wish=ENDS_AS[holder.wish]))


def _down(d: Draft, holder: Holder) -> Holder:
    down = replace(holder, form=holder.bottom, since_s=d.now_s, seen_bytes={}, devices=())
    if isinstance(down, Service):
        return replace(down, ready=False, upstream=None, engine_active=None, engine_read_s=None)
    if isinstance(down, Job) and isinstance(holder, Job) and holder.form == holder.top:
        return replace(down, ran_s=down.ran_s + d.now_s - holder.since_s)
    return down


def _ended_before(job: Job, pending: Pending) -> bool:
    """Did its leader end by itself before it was asked to leave?"""
    exit_ = job.run.exit if job.run else None
    return exit_ is not None and exit_.at_s is not None and exit_.at_s < pending.started_s


def _job_ended(d: Draft, job: Job) -> None:
    """The run of a job ended without our doing: done, tried again, failed or lost."""
    exit_ = job.run.exit if job.run else None
    if job.wish == "cancel":
        _finish(d, job, "cancelled")
    elif exit_ is None:
        d.event("job.lost", job.id, run=job.run.id if job.run else None)
        if job.spec.resumable or job.spec.saved:
            d.put(replace(job, note="lost", run=None))
        else:
            _finish(d, job, "lost")
    elif exit_.code == 0:
        _finish(d, job, "done", exit_.code)
    elif job.attempts_left > 0:
        tries = job.failures + 1
        retry_at_s = d.now_s + backoff_s(d, tries)
        d.event("job.retry", job.id, exit_code=exit_.code, attempts_left=job.attempts_left - 1)
        d.put(
            replace(
                job, attempts_left=job.attempts_left - 1, failures=tries, retry_at_s=retry_at_s, note="exit"
            )
        )
    else:
        _finish(d, job, "failed", exit_.code)


def _finish(d: Draft, job: Job, how: Ended, code: int | None = None) -> None:
    d.event(f"job.{how}", job.id, exit_code=code, ran_s=job.ran_s)
    d.put(replace(job, ended=how, ended_s=d.now_s, exit_code=code, devices=()))


def stepped_aside(d: Draft, holder: Holder, pending: Pending) -> None:
    """A release was verified. At the bottom, the wishes that ended there become what they end as."""
    if isinstance(holder, Job) and pending.source == holder.top:
        holder = replace(
            holder, ran_s=holder.ran_s + max(0.0, pending.started_s - _top_since(holder, pending))
        )
    if holder.form != holder.bottom:
        if holder.wish == "pause":
            holder = replace(holder, wish="hold")
        d.put(holder)
        return
    holder = replace(holder, devices=(), seen_bytes={})
    if isinstance(holder, Service):
        holder = replace(holder, ready=False, upstream=None, engine_active=None, engine_read_s=None)
    if holder.wish == "cancel" and isinstance(holder, Job):
        d.put(holder)
        _finish(d, holder, "cancelled")
        return
    d.put(replace(holder, wish=ENDS_AS.get(holder.wish, holder.wish)))


def _top_since(holder: Holder, pending: Pending) -> float:
    return min(holder.since_s, pending.started_s)


def not_taken(d: Draft, holder: Holder, pending: Pending, fact: MoveAnswered) -> None:
    """A start, wake or resume failed. The driver has ended what it began."""
    d.end_move(holder.id)
    d.touch(pending.devices)
    if isinstance(holder, Job) and fact.error == "cannot_start":
        d.put(replace(holder, note=fact.error, note_facts=dict(fact.facts)))
        job = d.holders[holder.id]
        assert isinstance(job, Job)
        _finish(d, job, "failed", 127)
        return
    failed(d, holder, fact.error or "failed", **fact.facts)
    holder = d.holders[holder.id]
    if isinstance(holder, Job) and holder.form == holder.bottom and holder.failures >= START_TRIES:
        d.event("job.held", holder.id, reason="start_failed", failures=holder.failures)
        d.put(replace(holder, wish="hold", wish_by="headway", wish_s=d.now_s))


def failed(d: Draft, holder: Holder, note: str, **facts: object) -> None:
    """Count a failure. The first is tried again at once, later ones after a growing pause."""
    failures = holder.failures + 1
    retry_at_s = None if failures < 2 else d.now_s + backoff_s(d, failures - 1)
    devices = () if holder.form == holder.bottom else holder.devices
    d.put(
        replace(
            holder,
            failures=failures,
            retry_at_s=retry_at_s,
            note=note,
            note_facts=dict(facts),
            devices=devices,
        )
    )
    if isinstance(holder, Service) and failures == 2:
        d.event("service.failed", holder.id, reason=note, **facts)


def backoff_s(d: Draft, failures: int) -> float:
    """15 s, 30 s, ... 5 min."""
    policy = d.base.policy
    return min(policy.backoff_max_s, policy.backoff_min_s * 2.0 ** (failures - 1))
