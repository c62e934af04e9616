"""Facts into records. What the world says, and nothing of what should be done about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headway.core import (
    budgets,
    calling,
    configuring,
    ends,
    engines,
    fit,
    floors,
    freezing,
    gaps,
    host_fit,
    leases,
    line,
    staying,
    told,
    window_wishes,
    windows,
)
from headway.core.draft import Draft
from headway.core.facts import (
    ConfigRefused,
    DeviceRead,
    Fact,
    GateState,
    GateStuck,
    HostRead,
    JobTold,
    LeaseGone,
    MeterSilent,
    MoveAnswered,
    Observed,
    RunSeen,
    StoreState,
    WindowsDue,
)
from headway.core.model import (
    CloseGate,
    Decision,
    Gate,
    GateWish,
    Holder,
    HolderId,
    Job,
    Lease,
    Move,
    OpenGate,
    Pending,
    Run,
    Service,
    Signal,
)
from headway.core.readings import device_read, timed, verify
from headway.core.staying import tell_shortfall


def fold(d: Draft, fact: Fact) -> None:
    """Apply one fact. A fact about somebody who is not there any more changes nothing."""
    match fact:
        case DeviceRead():
            device_read(d, fact)
        case MeterSilent():
            d.set(meter_trouble=fact.trouble)
            d.event("meter.silent" if fact.trouble else "meter.speaks", None, trouble=fact.trouble)
        case RunSeen():
            _run_seen(d, fact)
        case Observed():
            _observed(d, fact)
        case MoveAnswered():
            _answered(d, fact)
        case GateState():
            _gate_state(d, fact)
        case JobTold():
            told.told(d, fact)
        case GateStuck():
            service = d.holders.get(fact.service)
            if isinstance(service, Service):
                d.put(replace(service, gate=replace(service.gate, stuck_s=d.now_s)), save=False)
                d.event("gate.stuck", service.id, gate=fact.gate)
        case LeaseGone():
            lease = d.holders.get(fact.lease)
            if isinstance(lease, Lease):
                leases.end(d, lease, "gone")
                if (moving := d.pending.get(lease.id)) is not None:
                    verify(d, moving)  # what has no device is free at once
        case ConfigRefused():
            d.event("config.refused", None, problems=list(fact.problems), by=fact.by)
        case WindowsDue():
            window_wishes.due(d, fact)
        case HostRead():
            floors.read(d, fact)
        case StoreState():
            d.set(store_ok=fact.ok, store_trouble=fact.trouble)
            if fact.ok:
                d.event("store.speaks", None)
            else:
                d.event("store.silent", None, trouble=fact.trouble)


# ---------------------------------------------------------------- what was decided


def decided(d: Draft, decision: Decision) -> None:
    """Note what the loop is about to do, before it is done: intents, and the revision of each gate order."""
    for action in decision.actions:
        if isinstance(action, Move):
            _move_asked(d, action, decision.asides)
        elif isinstance(action, Signal) and isinstance(job := d.holders[action.holder], Job):
            changed = freezing.frozen if action.what == "freeze" else freezing.thawed
            d.put(changed(job, d.now_s))
        elif isinstance(action, OpenGate | CloseGate):
            service = d.holders[action.holder]
            assert isinstance(service, Service)
            wish: GateWish = "open" if isinstance(action, OpenGate) else "closed"
            gate = Gate(
                wish=wish,
                rev=service.gate.rev + 1,
                closing_since_s=d.now_s if wish == "closed" else None,
                pinning=service.gate.pinning,
                stuck_s=service.gate.stuck_s,
            )
            d.put(replace(service, gate=gate, drained_s=None), save=False)
            d.event(f"gate.{wish}", service.id, rev=gate.rev)
    leases.decided(d, decision.verdicts)
    staying.decided(d, decision.verdicts)
    configuring.forget_retired(d)
    windows.turned(d)
    calling.turned(d)
    line.turned(d)
    if d.base.mode == "live":
        budgets.look(d, d.present)
    told.look(d, d.present)


def _move_asked(d: Draft, move: Move, asides: Mapping[HolderId, str]) -> None:
    holder, before = d.holders[move.holder], d.pending.get(move.holder)
    if move.frees and before is None:
        gaps.taken(d, move.holder, move.cause, [hid for hid, cause in asides.items() if cause == move.cause])
        holder = ends.measured(holder, d.now_s)
    changes: dict[str, object] = {"runs": holder.runs + 1} if move.creates and move.run_id else {}
    if not move.frees:
        changes["devices"] = move.devices
    if move.cause in d.holders:
        changes |= {"pushed_by": move.cause, "pushed_s": d.now_s}
    d.put(replace(holder, **changes))  # type: ignore[arg-type]
    used = {i: d.devices[i].used_bytes or 0 for i in move.devices if i in d.devices}
    source = before.source if before else holder.form
    if before and not before.frees:
        source = before.to  # a start that is given up: what it was going to is what must be freed
        if move.cause == "limit_passed":
            ends.failed(d, d.holders[holder.id], "limit_passed", limit_s=before.limit_at_s - before.started_s)
    told = before is not None and (before.shortfall_told or tell_shortfall(d, before))
    ends_s = before.ends_s if before and before.frees else None
    if ends_s is None and move.form == holder.bottom:
        ends_s = d.now_s
    d.move(
        Pending(
            holder=move.holder,
            source=source,
            to=move.form,
            devices=move.devices,
            exclusive=move.exclusive,
            frees=move.frees,
            started_s=before.started_s if before and before.frees else d.now_s,
            limit_at_s=d.now_s + move.limit_s,
            rung=move.rung,
            ends_s=ends_s,
            creates=move.creates,
            run_id=move.run_id,
            kill=move.kill,
            shortfall_told=told,
            cause=before.cause if before and before.frees else move.cause,
            used_before=before.used_before if before and before.frees else used,
        )
    )
    if move.rung == 0 and move.frees:
        host_fit.tell_lower(d, holder, move.form, move.cause)
    d.event("move.asked", move.holder, form=move.form, cause=move.cause, rung=move.rung, run=move.run_id)


# ---------------------------------------------------------------- runs


def _run_seen(d: Draft, fact: RunSeen) -> None:
    holder, pending = d.holders.get(fact.holder), d.pending.get(fact.holder)
    if holder is None:
        return
    ours = holder.run is not None and holder.run.id == fact.run_id
    coming = pending is not None and pending.run_id == fact.run_id
    if not (ours or coming):
        return
    before = holder.run if ours else None
    run = Run(
        id=fact.run_id,
        lock_held=fact.lock_held,
        pid=fact.pid,
        start_ticks=fact.start_ticks,
        boot_id=fact.boot_id,
        exit=fact.exit or (before.exit if before else None),  # its file may be damaged since then
        gone=fact.gone,
        port=fact.port,
        seen_s=d.now_s,
    )
    d.put(replace(holder, run=run))
    if run.exit and not (before and before.exit):
        d.event("run.exit", holder.id, run=run.id, exit_code=run.exit.code)
    another = pending is not None and pending.creates and not coming  # the late end of an older run
    if not run.alive and (before is None or before.alive) and not another:
        d.touch(holder.devices)
        ends.run_ended(d, d.holders[holder.id])
        if holder.id in d.pending:
            verify(d, d.pending[holder.id])  # what has no device is free at once


# ---------------------------------------------------------------- drivers


def _observed(d: Draft, fact: Observed) -> None:
    service = d.holders.get(fact.holder)
    if not isinstance(service, Service):
        return
    service = replace(
        service,
        engine_active=fact.engine_active,
        engine_read_s=fact.at_s if fact.engine_active is not None else service.engine_read_s,
        engine=engines.told(service.engine, fact.engine, fact.at_s),
    )
    d.put(service, save=False)
    if service.id in d.pending or fact.at_s < service.since_s:
        return  # a probe older than the last move, or beside one, says nothing of the form
    form = fact.form
    if fact.down and not (service.run and service.run.alive):
        form = service.bottom
    if form is None:
        return
    if form == service.bottom and service.run and service.run.alive:
        return  # the end of its run is told by the run itself, with its exit code: see _run_seen
    if form != service.form:
        d.event("service.observed", service.id, form=form, before=service.form)
        known = service.form is not None
        since_s = d.now_s if known else service.since_s
        d.touch(service.devices)
        slept = form != service.bottom and (service.slept or form != service.top)
        service = replace(service, form=form, since_s=since_s, slept=slept)
        if known and form == service.top:
            service = calling.came_up(service, None)
    up = form == service.top
    devices = service.devices or (fit.resolve(service.spec, d.view()) or () if up else ())
    if not service.spec.argv and form == service.bottom:
        devices = ()  # where its owner starts it next is not known
    elif up and not devices and len(d.devices) <= service.spec.count:
        devices = tuple(sorted(d.devices))  # it can be nowhere else
    d.put(
        replace(service, ready=up and fact.ready, upstream=fact.upstream or service.upstream, devices=devices)
    )


def _answered(d: Draft, fact: MoveAnswered) -> None:
    holder, pending = d.holders.get(fact.holder), d.pending.get(fact.holder)
    if holder is None or pending is None or pending.to != fact.to or pending.step != "asked":
        return
    if fact.run_id is not None and fact.run_id != pending.run_id:
        return
    if fact.refused:
        d.end_move(holder.id)
        d.event("move.refused", holder.id, form=fact.to, reason=fact.error, **fact.facts)
        if holder.form == holder.bottom and not pending.frees:
            d.put(replace(holder, devices=()))
        ends.at_rest(d, holder.id)
        return
    if fact.error is not None:
        d.event(
            "move.failed", holder.id, form=fact.to, source=pending.source, reason=fact.error, **fact.facts
        )
        if pending.frees:  # the ladder goes on at once
            d.move(replace(pending, limit_at_s=d.now_s, failed=True))
            if isinstance(holder, Service) and not holder.spec.argv:  # where it may be the last rung
                d.put(replace(holder, note=fact.error, note_facts=dict(fact.facts)))
        else:
            ends.not_taken(d, holder, pending, fact)
        return
    if pending.frees:
        d.move(replace(pending, step="answered", answered_s=d.now_s))
        d.event("move.answered", holder.id, form=fact.to, took_s=d.now_s - pending.started_s)
        verify(d, d.pending[holder.id])
        return
    _taken(d, holder, pending, fact)


def _taken(d: Draft, holder: Holder, pending: Pending, fact: MoveAnswered) -> None:
    took_s = d.now_s - pending.started_s
    d.end_move(holder.id)
    d.touch(pending.devices)
    d.event(
        "move.done",
        holder.id,
        form=pending.to,
        source=pending.source,
        took_s=took_s,
        **calling.wanted(holder),
    )
    forms = timed(holder, pending.source, leave_s=took_s) if pending.source else holder.forms
    done: Holder = replace(
        holder, form=pending.to, since_s=d.now_s, forms=forms, retry_at_s=None, note=None, note_facts={}
    )
    if isinstance(done, Service):  # it has yet to answer before it counts as healthy: see ends.died
        done = replace(done, ready=True, upstream=fact.upstream or done.upstream, engine_active=None)
        done = calling.came_up(done, pending)
    else:
        done = replace(done, failures=0)
    if isinstance(done, Job):
        first_s = done.started_s if done.started_s is not None else d.now_s
        done = replace(done, started_s=first_s, rushed=False, stalled=False, active_s=d.now_s)
        if pending.creates:
            done = replace(done, run_from_s=done.ran_s, log_bytes=None, busy_s=None, unhealthy=0)
    if isinstance(done, Lease):
        done = leases.granted(d, done)
    d.put(done)


# ---------------------------------------------------------------- the gate


def _gate_state(d: Draft, fact: GateState) -> None:
    service = d.holders.get(fact.service)
    if not isinstance(service, Service) or fact.rev != service.gate.rev:
        return
    gate = replace(service.gate, closed=fact.closed, pinning=fact.pinning)
    active, before = fact.active, service.active
    active_since_s, idle_since_s = service.active_since_s, service.idle_since_s
    if active and not before:
        active_since_s = d.now_s
    if not active:
        active_since_s = None
        idle_since_s = d.now_s if before else idle_since_s
    drained_s = (service.drained_s or d.now_s) if gate.drained else None
    last_end_s = max(filter(None, (service.last_end_s, fact.last_end_s)), default=None)
    d.put(
        replace(
            service,
            gate=gate,
            active=active,
            active_since_s=active_since_s,
            idle_since_s=idle_since_s,
            drained_s=drained_s,
            last_end_s=last_end_s,
            demand={name: w for name, w in fact.demand.items() if w.n},
        ),
        save=False,
    )
