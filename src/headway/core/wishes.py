"""Commands into wishes and queue order. A command that cannot be done is refused here, with nothing half done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headway.core import budgets, calling, configuring, edits, lease_wishes, line, queue_hold, window_wishes
from headway.core.commands import (
    AddJob,
    AskLease,
    Claim,
    ClearJobs,
    Command,
    Configure,
    EditJob,
    EndLease,
    HoldQueue,
    MoveJob,
    RenewLease,
    Reply,
    SetMode,
    SetProdOnly,
    SetWish,
    StartWindow,
    StopWindow,
)
from headway.core.draft import Draft, lane_of
from headway.core.ends import hold_followers
from headway.core.lifecycle import REVIVING, rule, strengthened
from headway.core.line import ARRIVAL_S as ARRIVAL_S
from headway.core.line import rank_key as rank_key
from headway.core.model import Holder, HolderId, Job, JobSpec, Lease, Service, Wish
from headway.core.replies import accepted, refused, resolve
from headway.core.rules import find_job
from headway.core.words import job_state
from headway.core.worked import ran_s

QUEUE_MAX = 100_000  # jobs that wait, held ones too
JOB_LANES = ("gpu", "cpu", "held")
ASKED_AGAIN_MAX = 1000  # jobs that came between an ask and the same ask again, at most
TOLD_MAX = 20  # changes of a config that the audit names


def apply(d: Draft, command: Command) -> Reply:
    """Carry one command into the draft, or refuse it."""
    match command:
        case AddJob():
            return _add(d, command)
        case SetWish():
            return _set_wish(d, command)
        case MoveJob():
            return _move_job(d, command)
        case EditJob():
            return edits.edit(d, command)
        case ClearJobs():
            return edits.clear(d, command)
        case SetMode():
            return _set_mode(d, command)
        case SetProdOnly():
            return _set_prod_only(d, command)
        case HoldQueue():
            return queue_hold.hold(d, command)
        case StartWindow():
            return window_wishes.start(d, command)
        case StopWindow():
            return window_wishes.stop(d, command)
        case Configure():
            return _configure(d, command)
        case AskLease():
            return lease_wishes.ask(d, command)
        case EndLease():
            return lease_wishes.end(d, command)
        case RenewLease():
            return lease_wishes.renew(d, command)
        case Claim():
            return lease_wishes.claim(d, command)


def _set_mode(d: Draft, command: SetMode) -> Reply:
    """A mode other than the config's keeps the name of whoever set it; there are two, so the way back clears it."""
    mode, by = (d.other.get(key, getattr(d.base, key)) for key in ("mode", "mode_by"))
    if command.mode != mode:
        by = command.by if by is None else None
    d.set(mode=command.mode, mode_by=by)
    d.event("mode", None, mode=command.mode, by=command.by)
    return accepted(d, None, mode=command.mode)


def _set_prod_only(d: Draft, command: SetProdOnly) -> Reply:
    by = command.by if command.on else None
    if (d.other.get("prod_only_by", d.base.prod_only_by) is None) == command.on:
        d.set(prod_only_by=by)
        calling.all_may_come(d)
        d.event("prod_only", None, word="on" if command.on else "off", by=command.by)
    return accepted(d, None, prod_only=command.on)


# ---------------------------------------------------------------- new jobs


def _add(d: Draft, command: AddJob) -> Reply:
    if (before := _asked_before(d, command.ask_key)) is not None:
        return accepted(d, before.id, name=before.spec.name, held=before.wish == "hold")
    if command.spec.name in d.services:
        return refused(d, "name_taken", name=command.spec.name)
    waiting = sum(len(d.lanes[lane] if lane in d.lanes else d.base.queue.get(lane, ())) for lane in JOB_LANES)
    if waiting >= QUEUE_MAX:
        return refused(d, "queue_full", waiting=waiting)
    for word in (*command.spec.after, *command.spec.after_ok):
        if find_job(word, d.view()) is None:
            return refused(d, "unknown_after", after=word)
    job = _enqueue(d, command.spec, command.recipe, command.hold, command.by, command.ask_key)
    for word in (*command.spec.after, *command.spec.after_ok):
        if (other := find_job(word, d.view(), d.holders[job.id])) is not None:
            hold_followers(d, other.id)  # one that follows what is over already is held as well
    return accepted(d, job.id, name=job.spec.name, held=d.holders[job.id].wish == "hold")


def _asked_before(d: Draft, ask_key: str | None) -> Job | None:
    """The job that this ask made already: its answer was lost with a daemon. Only the newest are looked at."""
    if ask_key is None:
        return None
    number = int(d.other.get("next_job", d.base.next_job))
    newest = (d.holders.get(f"j{n}") for n in range(number - 1, max(0, number - 1 - ASKED_AGAIN_MAX), -1))
    return next((job for job in newest if isinstance(job, Job) and job.ask_key == ask_key), None)


def _enqueue(
    d: Draft, spec: JobSpec, recipe: str | None, hold: bool, by: str, ask_key: str | None = None
) -> Job:
    number = int(d.other.get("next_job", d.base.next_job))
    d.set(next_job=number + 1)
    job = Job(
        id=f"j{number}",
        spec=spec,
        wish="hold" if hold else "run",
        wish_by=by if hold else None,
        wish_s=d.now_s if hold else None,
        form=spec.forms[-1].name,
        forms=spec.forms,
        since_s=d.now_s,
        recipe=recipe,
        ask_key=ask_key,
        lane="cpu" if spec.count == 0 else "gpu",
        key=rank_key(d.now_s, spec.priority) + number * ARRIVAL_S,
        enqueued_s=d.now_s,
        attempts_left=spec.retries,
    )
    d.put(line.follows(d, job))
    line.noted(d, job)
    d.event("job.added", job.id, name=spec.name, recipe=recipe, hold=hold, by=by)
    return job


# ---------------------------------------------------------------- verbs


def _set_wish(d: Draft, command: SetWish) -> Reply:
    holder = resolve(d, command.target)
    if isinstance(holder, str):
        return refused(d, holder, target=command.target)
    if isinstance(holder, Lease):
        return lease_wishes.set_wish(d, holder, command)
    if isinstance(holder, Service) and command.verb in calling.VERBS:
        return calling.ask(d, holder, command)
    if command.verb in calling.VERBS and command.verb not in REVIVING:
        return refused(d, "not_for_jobs", holder.id, target=holder.id, verb=command.verb)
    if command.verb in REVIVING:
        return _revive(d, holder, command)
    if isinstance(holder, Job) and holder.ended:
        return refused(d, "already_ended", holder.id, target=holder.id, ended=holder.ended)
    if isinstance(holder, Service) and command.verb in ("cancel", "wind_down", "pause"):
        return refused(d, "not_for_services", holder.id, target=holder.id, verb=command.verb)
    verb: Wish = command.verb  # type: ignore[assignment]
    if no := _cannot_pause(d, holder, command):
        if not command.at_saved_point:
            return refused(d, no, holder.id, target=holder.id)
        if isinstance(holder, Job) and not holder.spec.saved:
            return refused(d, "no_saved_point", holder.id, target=holder.id)
        verb = "wind_down"
    waits = holder.form == holder.bottom and holder.id not in d.pending
    if isinstance(holder, Job) and waits:
        if verb == "cancel":
            gone = replace(holder, wish="cancel", ended="cancelled", ended_s=d.now_s, wish_by=command.by)
            d.put(gone)
            d.event("job.cancelled", holder.id, by=command.by)
            hold_followers(d, holder.id)
            line.followed(d, gone)
            return accepted(d, holder.id, done=True)
        verb = "hold"
    elif waits or (verb == "pause" and not _up(d, holder)):
        verb = "hold"
    wish = strengthened(holder.wish, verb)
    d.put(replace(holder, wish=wish, wish_by=command.by, wish_s=d.now_s, note=command.reason or holder.note))
    if isinstance(asked := d.holders[holder.id], Job):
        d.put(replace(asked, rushed=False))
    if isinstance(asked, Service):
        d.put(
            replace(asked, stayed_until_s=None, **calling.NOTHING_SAID)
        )  # a person asks: it is tried at once
    said = {"reason": command.reason} if command.reason else {}
    d.event(f"{holder.kind}.asked", holder.id, verb=command.verb, wish=wish, by=command.by, **said)
    return accepted(d, holder.id, wish=wish, done=verb == "hold")


def _up(d: Draft, holder: Holder) -> bool:
    """Is it at its top, or on its way there?"""
    moving = d.pending.get(holder.id)
    return holder.form in (None, holder.top) or (moving is not None and not moving.frees)


def _cannot_pause(d: Draft, holder: Holder, command: SetWish) -> str | None:
    if command.verb == "pause" and _up(d, holder) and rule(holder, holder.top, "parked") is None:
        return "cannot_pause"
    return None


def _revive(d: Draft, holder: Holder, command: SetWish) -> Reply:
    """release, resume and retry set the wish back to run, by name. Nothing revives what was cancelled."""
    if holder.wish == "cancel":
        return refused(d, "cancelled", holder.id)
    fresh: dict[str, Any] = {
        "wish": "run",
        "wish_by": command.by,
        "wish_s": d.now_s,
        "note": None,
        "failures": 0,
        "retry_at_s": None,
    }
    if isinstance(holder, Job):  # a person says that it goes without what it will never see end well
        held_s = d.now_s - (holder.wish_s or d.now_s) if holder.wish == "hold" else 0.0
        from_s = holder.enqueued_s if holder.waits_from_s is None else holder.waits_from_s
        spec = _without_lost(holder, d)
        # What is held does not wait.
        holder = line.not_held(replace(holder, waits_from_s=from_s + held_s, crashes=0), held_s)
        holder = line.follows(d, replace(holder, spec=spec, wish="run"))
        if holder.note == budgets.NOTE:  # and that it may run for as long again
            holder = replace(holder, allowed_from_s=ran_s(holder, d.now_s))
        line.noted(d, holder)
    if isinstance(holder, Job) and holder.ended:
        if command.verb != "retry":
            return refused(d, "already_ended", holder.id, target=holder.id, ended=holder.ended)
        again = {
            "ended": None,
            "ended_s": None,
            "exit_code": None,
            "attempts_left": holder.spec.retries,
            "run": None,
            "allowed_from_s": holder.ran_s,
            "alone": False,
        }
        d.put(replace(holder, **fresh, **again, form=holder.bottom))  # type: ignore[arg-type]
    elif command.verb == "retry" and isinstance(holder, Service):
        return refused(d, "not_for_services", holder.id, target=holder.id, verb=command.verb)
    elif command.verb == "retry":
        return refused(d, "not_ended", holder.id)
    else:
        if isinstance(holder, Service):
            fresh |= calling.NOTHING_SAID
        d.put(replace(holder, **fresh))
        if command.verb == "start":
            _first(d, holder.id, command.anyway)
    d.event(f"{holder.kind}.asked", holder.id, verb=command.verb, wish="run", by=command.by)
    return accepted(d, holder.id, wish="run", done=True)


def _first(d: Draft, hid: HolderId, anyway: bool) -> None:
    """A person wants it now: it is first in its line, and whether a gap is worth it is not asked."""
    job = d.holders[hid]
    assert isinstance(job, Job)
    job = replace(job, rushed=True, anyway=job.anyway or anyway)
    line.put_at(d, line.waits_from(d, job, d.now_s), 0)


def _without_lost(job: Job, d: Draft) -> JobSpec:
    """Its spec, following only what may still end as it must."""
    view = d.view()

    def lost(word: str, well: bool) -> bool:
        other = find_job(word, view, job)
        if other is None or (other.ended == "cancelled" and other.started_s is None):
            return True
        return well and other.ended not in (None, "done")

    spec = job.spec
    after = tuple(word for word in spec.after if not lost(word, well=False))
    after_ok = tuple(word for word in spec.after_ok if not lost(word, well=True))
    return (
        spec
        if (after, after_ok) == (spec.after, spec.after_ok)
        else replace(spec, after=after, after_ok=after_ok)
    )


# ---------------------------------------------------------------- order, config


def _move_job(d: Draft, command: MoveJob) -> Reply:
    """Moving by hand writes the rank key. All are looked at before the first is moved."""
    jobs: dict[HolderId, Job] = {}
    for target in (command.target, *command.behind):
        job = resolve(d, target)
        if not isinstance(job, Job):
            return refused(d, job if isinstance(job, str) else "not_a_job", target=target)
        if no := _stays(d, job, command):
            return no
        jobs[job.id] = job
    lanes = dict.fromkeys(job.lane for job in jobs.values())
    first = next(iter(jobs))
    if command.seen is not None and tuple(entry for lane in lanes for entry in d.lane(lane)) != command.seen:
        return refused(d, "order_changed", first, target=first)
    for hid in reversed(jobs) if command.where in ("top", "after") else jobs:
        _moved(d, hid, command)
    return accepted(d, first, done=True)


def _stays(d: Draft, job: Job, command: MoveJob) -> Reply | None:
    """Why it cannot be moved."""
    if job.ended:
        return refused(d, "already_ended", job.id, target=job.id, ended=job.ended)
    if lane_of(job, job.id in d.pending) is None:
        return refused(d, "not_queued", job.id, target=job.id, state=job_state(job, d.pending.get(job.id)))
    if command.where in ("top", "bottom"):
        return None
    other = resolve(d, command.other or "")
    if isinstance(other, Job) and other.id == job.id:
        return refused(d, "itself", job.id, target=job.id)
    if isinstance(other, str) or line.place_of(d, job.lane, other) is None:
        state = job_state(other, d.pending.get(other.id)) if isinstance(other, Job) else None
        return refused(d, "not_queued", target=command.other, state=state)
    return None


def _moved(d: Draft, hid: HolderId, command: MoveJob) -> None:
    job = d.holders[hid]
    assert isinstance(job, Job)
    own = line.place_of(d, job.lane, job)
    at = 0 if command.where == "top" else len(d.lane(job.lane)) - (own is not None)
    if command.where in ("before", "after"):
        other = resolve(d, command.other or "")
        there = None if isinstance(other, str) else line.place_of(d, job.lane, other)
        assert there is not None  # it was looked at
        at = there - (own is not None and own < there) + (command.where == "after")
    line.put_at(d, line.waits_from(d, job, d.now_s), at)
    d.event("job.moved", job.id, where=command.where, other=command.other, by=command.by)


def _configure(d: Draft, command: Configure) -> Reply:
    if used := configuring.in_use(d, command):
        return refused(d, "in_use", **used)
    facts = configuring.take(d, command)
    for job, before in configuring.take_recipes(d, command):
        now = (job.coming or job.spec).priority
        d.put(replace(job, key=job.key + rank_key(0.0, now) - rank_key(0.0, before)))
    seen = set(d.other.get("recipes_seen", d.base.recipes_seen))
    for recipe, hold in command.recipes:
        if recipe.name not in seen:
            seen.add(recipe.name)
            _enqueue(d, recipe, recipe.name, hold, by=command.by)
    d.set(recipes_seen=frozenset(seen))
    configuring.forget_retired(d)
    if command.told is not None:
        d.event("config.applied", None, by=command.by, changes=list(command.told[:TOLD_MAX]))
    return accepted(d, None, **facts, later=configuring.later(d))
