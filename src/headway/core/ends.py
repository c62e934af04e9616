"""What becomes of a holder when a run of it ends, when it stepped aside, and when a start failed."""

from __future__ import annotations

from dataclasses import replace

from headway.core import freezing, line, worked
from headway.core.attempts import another
from headway.core.draft import Draft
from headway.core.facts import MoveAnswered
from headway.core.lifecycle import ENDS_AS
from headway.core.model import Ended, Exit, Holder, HolderId, Job, Lease, Pending, Run, Service
from headway.core.rules import find_job

PORT_TRIES = 3  # each with a port chosen anew
LEARNS_S = 60.0  # after this long a job has taken the memory it needs
NOT_RUN = 127  # what shells answer for a command that could not be executed
NOT_MADE, NOT_MADE_S = "run_not_made", 60.0  # the machine's trouble; looked at again at least so often
START_TRIES = 3  # a job that fails to start this often in a row is held with its last lines


def measured(holder: Holder, now_s: float) -> Holder:
    """It leaves a form whose need was not known: what it held last is what is known from now on.

    Not what a job held that was over before it can have taken all its memory: that would be less than it needs.
    Not of a lease: who asked for a device alone keeps it alone.
    """
    if isinstance(holder, Lease):
        return holder
    form = holder.form_named(holder.form)
    held = max(holder.seen_bytes.values(), default=0)
    if form is None or form.need_bytes is not None or form.name == holder.bottom or not held:
        return holder
    whole = holder.run is not None and holder.run.exit is not None and holder.run.exit.code == 0
    if isinstance(holder, Job) and not whole and now_s - holder.since_s < LEARNS_S:
        return holder
    forms = tuple(replace(f, learned_bytes=held) if f.name == form.name else f for f in holder.forms)
    return replace(holder, forms=forms)


def run_ended(d: Draft, holder: Holder) -> None:
    """No process of the run lives any more."""
    pending = d.pending.get(holder.id)
    if pending is None or not pending.frees:  # else it may have given back a part already
        holder = measured(holder, d.now_s)
    if pending is None and holder.form == holder.bottom:
        return  # its release was verified first, and what becomes of it is settled
    by_itself = pending is not None and (_ended_before(holder, pending) or _done_meanwhile(holder, pending))
    if pending is not None and pending.frees and not by_itself:
        # the process is gone; the meter still has to say so of its memory
        d.move(replace(pending, to=holder.bottom, step="answered", answered_s=d.now_s))
        d.put(replace(holder, seen_bytes={}))
        return
    d.end_move(holder.id)
    down = _down(d, holder, pending)
    d.put(down)
    if isinstance(down, Job):
        _job_ended(d, down)
    elif isinstance(down, Service):
        died(d, down, holder.since_s, starting=pending is not None and not pending.frees)
    at_rest(d, holder.id)


def _done_meanwhile(holder: Holder, pending: Pending) -> bool:
    """Did a job come to a good end while it was only being parked, or killed? One that died of it is started anew.

    Code 0 after a KILL without grace is its own: what such a signal ends has no say in its code.

    What is left of its tree may have to be ended afterwards, by a move that asks for its end only then.
    """
    exit_ = holder.run.exit if holder.run else None
    if not isinstance(holder, Job) or not pending.frees or exit_ is None or exit_.code != 0:
        return False
    if pending.to != holder.bottom or pending.kill:
        return True
    return pending.ends_s is not None and exit_.at_s is not None and exit_.at_s < pending.ends_s


def died(d: Draft, service: Service, since_s: float, starting: bool) -> None:
    """A server ended by itself: while starting, or before it answered anything, that is a failure."""
    exit_ = service.run.exit if service.run else None
    code = exit_.code if exit_ else None
    if starting:
        why = exit_.error if exit_ else None
        note, facts = ("cannot_start", {"why": why}) if why else ("server_exited", {"exit_code": code})
        d.event("move.failed", service.id, form=service.top, reason=note, **facts)
        failed(d, service, note, **facts)
        return
    d.event("service.died", service.id, exit_code=code)
    if max(service.last_end_s or 0.0, service.idle_since_s or 0.0) >= since_s:
        d.put(replace(service, failures=0))
    else:
        failed(d, service, "server_exited", exit_code=code)


def _down(d: Draft, holder: Holder, pending: Pending | None) -> Holder:
    down = replace(holder, form=holder.bottom, since_s=d.now_s, seen_bytes={}, devices=())
    if isinstance(down, Service):
        return _off(down)
    if isinstance(down, Job) and isinstance(holder, Job):
        down = line.waits_from(d, freezing.thawed(down, d.now_s), d.now_s)
        began_s = holder.since_s if holder.form == holder.top else None
        if pending is not None and not pending.frees:
            began_s = pending.started_s
        if began_s is not None:
            first_s = down.started_s if down.started_s is not None else began_s
            worked_s = max(0.0, ended_s(d, holder, began_s) - began_s - (holder.ran_s - down.ran_s))
            down = replace(down, started_s=first_s, ran_s=max(0.0, holder.ran_s + worked_s))
    return down


def ended_s(d: Draft, holder: Holder, began_s: float) -> float:
    """When its leader ended, where its shim noted that: no daemon may have been there to see it. Else now."""
    run = holder.run
    at_s = run.exit.at_s if run is not None and run.exit is not None else None
    same = run is not None and run.boot_id == d.base.boot_id
    return at_s if same and at_s is not None and began_s <= at_s <= d.now_s else d.now_s


def _off(service: Service) -> Service:
    return replace(service, ready=False, upstream=None, engine_active=None, engine_read_s=None, slept=False)


def at_rest(d: Draft, hid: HolderId) -> None:
    """At the bottom, with no move under way, the wishes that ask for that are fulfilled."""
    holder = d.holders[hid]
    if hid in d.pending or holder.form != holder.bottom or (isinstance(holder, Job) and holder.ended):
        return
    if holder.wish == "cancel" and isinstance(holder, Job):
        _finish(d, holder, "cancelled")
    elif holder.wish in ENDS_AS:
        d.put(replace(holder, wish=ENDS_AS[holder.wish]))


def _ended_before(holder: Holder, pending: Pending) -> bool:
    """Did its leader end by itself before it was asked to leave? A start that is given up is not asked: it failed."""
    if isinstance(holder, Service) and holder.form != holder.top:
        return False
    exit_ = holder.run.exit if holder.run else None
    return exit_ is not None and exit_.at_s is not None and exit_.at_s < pending.started_s


def _job_ended(d: Draft, job: Job) -> None:
    """The run of a job ended without our doing: done, tried again, failed or lost."""
    exit_ = job.run.exit if job.run else None
    at_s = ended_s(d, job, job.started_s if job.started_s is not None else d.now_s)
    if job.wish == "cancel":
        _finish(d, job, "cancelled", exit_.code if exit_ else None, at_s)
    elif exit_ is None and job.run is not None and job.run.pid is None:
        d.put(replace(job, run=None))  # nothing of it was ever started
    elif exit_ is None:
        job = lose(d, job, "lost")
        d.event("job.lost", job.id, run=job.run.id if job.run else None)
        if job.spec.resumable or job.spec.saved:
            d.put(replace(job, note="lost", run=None))
        else:
            _finish(d, job, "lost")
    elif exit_.code == 0:
        _finish(d, job, "done", exit_.code, at_s)
    elif exit_.error:  # trying again would not find the program either
        never = replace(job, note="cannot_start", note_facts={"why": exit_.error})
        _finish(d, never, "failed", exit_.code, at_s)
    else:
        _again(d, job, exit_, at_s)


def _again(d: Draft, job: Job, exit_: Exit, at_s: float) -> None:
    """It ended badly: another attempt, if it has one."""
    policy = d.base.policy
    if (again := another(d, job, exit_, policy.backoff_min_s, policy.backoff_max_s)) is None:
        _finish(d, lose(d, job, "exit"), "failed", exit_.code, at_s)
    else:
        d.put(lose(d, again, "exit"))


def lose(d: Draft, job: Job, cause: str) -> Job:
    """What it did since its last saved point is gone with its process; that is told."""
    job, lost_s = worked.lose(job, cause)
    if lost_s:
        d.event("job.lost_work", job.id, cause=cause, lost_s=lost_s)
    return job


def _finish(d: Draft, job: Job, how: Ended, code: int | None = None, at_s: float | None = None) -> None:
    """`at_s`: when its run ended, where that is its end; None: now."""
    never_ran = (
        {"reason": job.note, **job.note_facts} if job.note == "cannot_start" and how == "failed" else {}
    )
    d.event(f"job.{how}", job.id, **never_ran, exit_code=code, ran_s=job.ran_s)
    d.put(replace(job, ended=how, ended_s=d.now_s if at_s is None else at_s, exit_code=code, devices=()))
    hold_followers(d, job.id)
    line.followed(d, job)


def hold_followers(d: Draft, hid: HolderId) -> None:
    """Jobs that were to follow one that did not end well, or that never ran, are held: a person decides."""
    job = d.holders[hid]
    if not isinstance(job, Job) or job.ended in (None, "done"):
        return
    never_ran = job.ended == "cancelled" and job.started_s is None
    names = {job.id, job.recipe, job.spec.name}
    view = d.view()
    waiting = [
        other for hid in d.followers if isinstance(other := d.holders[hid], Job) and other.wish == "run"
    ]
    for other in sorted(waiting, key=lambda other: (other.enqueued_s, other.id)):
        words = (*other.spec.after_ok, *(other.spec.after if never_ran else ()))
        if any(word in names and find_job(word, view, other) == job for word in words):
            note = "after_gone" if never_ran else "after_failed"
            d.event("job.held", other.id, reason=note, after=job.id)
            d.put(replace(other, wish="hold", wish_by="headway", wish_s=d.now_s, note=note))


def stepped_aside(d: Draft, holder: Holder, pending: Pending) -> None:
    """Its release was verified: it is in the form it went to. `holder` is as it was until now."""
    down = replace(holder, form=pending.to, since_s=d.now_s)
    half = holder.form not in (None, holder.top, holder.bottom)
    if pending.rung == 0 and (holder.form == holder.top or half):
        down = replace(down, failures=0)  # it did as it was told; from the bottom it is tried anew
    if half and pending.to == holder.bottom:
        down = replace(down, failures=0, retry_at_s=None)
    if isinstance(down, Service):
        down = replace(down, stayed=0, stayed_until_s=None, slept=True)
    if isinstance(down, Job) and holder.form == holder.top:
        ran_s = down.ran_s + max(0.0, pending.started_s - holder.since_s)
        down = replace(down, ran_s=ran_s, crashes=0)
    if pending.to != holder.bottom:
        d.put(replace(down, wish="hold") if down.wish == "pause" else down)
        return
    down = replace(down, devices=(), seen_bytes={})
    if isinstance(down, Job):
        if not _ended_before(down, pending) and holder.form != holder.bottom:
            down = lose(d, down, pending.cause or "stop")
        down = line.waits_from(d, down, d.now_s)
    d.put(_off(down) if isinstance(down, Service) else down)
    if isinstance(down, Job) and _ended_before(down, pending):
        _job_ended(d, down)
    elif pending.source == holder.top and holder.form == holder.bottom:
        _held_after_failures(d, holder.id)  # a start that was given up
    at_rest(d, holder.id)


def not_taken(d: Draft, holder: Holder, pending: Pending, fact: MoveAnswered) -> None:
    """A start, wake or resume failed. The driver has ended what it began."""
    d.end_move(holder.id)
    d.touch(pending.devices)
    if isinstance(holder, Job) and fact.error == "cannot_start" and holder.wish != "cancel":
        run = holder.run
        if pending.creates and pending.run_id is not None and (run is None or run.id != pending.run_id):
            run = Run(id=pending.run_id, lock_held=False, gone=True)  # its log is the one that says why
        code = run.exit.code if run is not None and run.exit is not None else NOT_RUN
        job = replace(holder, run=run, note=fact.error, note_facts=dict(fact.facts))
        _finish(d, job, "failed", code)
        return
    failed(d, holder, fact.error or "failed", **fact.facts)
    _held_after_failures(d, holder.id)
    at_rest(d, holder.id)


def _held_after_failures(d: Draft, hid: HolderId) -> None:
    job = d.holders[hid]
    if not isinstance(job, Job) or job.note == NOT_MADE:
        return
    if job.form == job.bottom and job.failures >= START_TRIES and job.wish == "run":
        d.event("job.held", job.id, reason="start_failed", failures=job.failures)
        d.put(replace(job, wish="hold", wish_by="headway", wish_s=d.now_s))


def failed(d: Draft, holder: Holder, note: str, **facts: object) -> None:
    """Count a failure. The first is tried again at once, later ones after a growing pause.

    What the machine did not let begin is no failure of the holder's: it pauses from the first one on, and a failure of
    its own is counted anew after it.
    """
    failures = 1 if holder.note == NOT_MADE and note != NOT_MADE else holder.failures + 1
    at_once = PORT_TRIES if note == "port_taken" else 2
    retry_at_s = None if failures < at_once else d.now_s + backoff_s(d, failures - 1)
    if note == NOT_MADE:
        retry_at_s = d.now_s + min(NOT_MADE_S, backoff_s(d, failures))
    gone = holder.form == holder.bottom and holder.id not in d.pending
    devices = () if gone else holder.devices
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
    if isinstance(holder, Service) and failures == at_once:
        d.event("service.failed", holder.id, reason=note, **facts)


def backoff_s(d: Draft, failures: int) -> float:
    """15 s, 30 s, ... 5 min."""
    policy = d.base.policy
    return min(policy.backoff_max_s, policy.backoff_min_s * 2.0 ** (failures - 1))
