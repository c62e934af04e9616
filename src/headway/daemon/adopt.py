"""After a start: what the rows say, corrected by what is alive. An intent without an outcome is never repeated."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headway.core import freezing, queue_hold, wishes
from headway.core.commands import Configure
from headway.core.draft import Draft
from headway.core.facts import LeaseGone, RunSeen
from headway.core.fold import fold
from headway.core.model import (
    Device,
    Gate,
    Holder,
    HolderId,
    Job,
    Lease,
    Move,
    Pending,
    Policy,
    Run,
    Service,
    Snapshot,
)
from headway.daemon import saved_rows
from headway.daemon.act import hook_id
from headway.daemon.run_ends import run_seen
from headway.ports import Journal, Runs, RunSpec, Saved

FIRST_REV = 1
UNREAD = "not read since this daemon began; if that stays, it is gone from the machine or from the config"
TOLD = "told"  # how the last daemon ended; "": not by our word, as far as the database knows
DIGITS_MAX = 9  # of the number of a run
ARGV_TOLD = 500  # signs of a command line
RUNS_KEPT = 200  # ended runs whose files and logs stay
OUTCOME_S = (
    15.0  # to find the outcome of a move whose limit passed meanwhile; a meter's first reading takes seconds
)


@dataclass(slots=True)
class Adopted:
    """What a new daemon begins with."""

    draft: Draft
    snapshot: Snapshot
    redo: list[tuple[Move, Pending]] = field(default_factory=list)  # moves to go on with
    watch: list[tuple[str, str]] = field(default_factory=list)  # (holder, run id) still alive
    orphans: list[RunSpec] = field(default_factory=list)  # living runs that no holder knows: to be ended


def adopt(
    saved: Saved,
    journal: Journal,
    runs: Runs,
    configure: Configure,
    policy: Policy,
    config_mode: str,
    open_services: Mapping[str, str | None],
    now_s: float,
    wall_s: float,
) -> Adopted:
    """Rows, journal and living processes into the first snapshot.

    Args:
        open_services: services that routes.json says are open, with their upstreams: they stay open until
            something shows that they are not awake.

    Raises:
        RowUnreadable, LineUnreadable: a row, or a line of the journal, is damaged.
    """
    saved_rows.check(saved)
    meta = saved.meta
    shift_s, had = saved_rows.shift(saved, runs.boot_id, now_s, wall_s), _runs_had(runs)
    mode = saved_rows.mode(saved, config_mode)
    base = Snapshot(
        now_s=now_s,
        booted_s=now_s,
        policy=policy,
        mode=mode,
        mode_by=None if mode == config_mode else meta.get("mode_by") or "hand",
        boot_id=runs.boot_id,
        **saved_rows.dated(saved, shift_s),
        **saved_rows.counted(saved, had),
    )
    draft = Draft(base, now_s)
    for holder in saved_rows.holders(saved, shift_s):
        draft.put(_fresh(holder, open_services, now_s))
    intents = saved_rows.intents(saved, journal, shift_s)
    rowless = [pending for pending in intents if pending.holder not in draft.holders]
    for pending in intents:
        if pending not in rowless:
            _restore(draft, pending, runs, pending.holder in open_services)
    _know_devices(draft)
    wishes.apply(draft, configure)
    for pending in rowless:  # the store has been silent since the first start of all
        if pending.holder in draft.holders:
            _restore(draft, pending, runs, pending.holder in open_services)
    for hid in sorted(had.keys() & draft.holders.keys()):
        if draft.holders[hid].runs < had[hid]:
            draft.put(replace(draft.holders[hid], runs=had[hid]))
    adopted = Adopted(draft=draft, snapshot=base)
    _see_runs(adopted, runs)
    _end_of_another_boot(draft)
    known = sum(kind in saved_rows.KINDS for _, kind, _ in saved.holders)
    queue_hold.started(draft, crashed=meta.get("ended", TOLD) != TOLD)
    draft.event("daemon.started", None, holders=known, boot_id=runs.boot_id)
    adopted.redo = [(again(p, now_s), p) for p in draft.pending.values() if p.step == "asked"]
    adopted.snapshot = draft.done()
    return adopted


def _runs_had(runs: Runs) -> dict[HolderId, int]:
    """By holder the highest number of a run whose files are there, also where no row knows of it any more.

    A run of such a number would be taken for that one, which ended long ago. A number that no run ever has is
    somebody else's.
    """
    found: dict[HolderId, int] = {}
    for run_id in runs.known():
        hid, _, number = run_id.rpartition(".")
        if number.isascii() and number.isdigit() and len(number) <= DIGITS_MAX:
            found[hid] = max(found.get(hid, 0), int(number))
    return found


def _know_devices(draft: Draft) -> None:
    """Devices that somebody is on exist before they are read; nothing of them is known yet."""
    for holder in draft.holders.values():
        moving = draft.pending.get(holder.id)
        for device in (*holder.devices, *(moving.devices if moving else ())):
            name = device.rpartition("/")[2]
            draft.devices.setdefault(device, Device(id=device, name=name, trouble=UNREAD))


def _fresh(holder: Holder, open_services: Mapping[str, str | None], now_s: float) -> Holder:
    """Only what is still true after a crash: no demand, no reading, no readiness, nobody frozen."""
    holder = replace(holder, seen_bytes={})
    if isinstance(holder, Job) and holder.frozen_by_gate:
        return freezing.thawed(holder, now_s)
    if not isinstance(holder, Service):
        return holder
    is_open = holder.id in open_services
    return replace(
        holder,
        gate=Gate(wish="open" if is_open else "closed", rev=FIRST_REV),
        ready=False,
        demand={},
        active=None,
        active_since_s=None,
        engine_active=None,
        engine_read_s=None,
        drained_s=None,
        upstream=open_services.get(holder.id) or holder.upstream,
    )


def _restore(draft: Draft, pending: Pending, runs: Runs, is_open: bool) -> None:
    """Keep a move only where something of it can be seen; else state is read anew and decided anew."""
    holder = draft.holders[pending.holder]
    if isinstance(holder, Lease):
        _restore_lease(draft, holder, pending)
        return
    number = int(n) if pending.creates and (n := (pending.run_id or "").rpartition(".")[2]).isdigit() else 0
    if reason := _over(holder, pending, number, is_open):
        _drop_intent(draft, pending, reason)
        return
    if pending.creates:
        draft.put(replace(holder, runs=max(holder.runs, number), devices=pending.devices))
        if not _began(runs, pending.run_id):
            draft.put(replace(draft.holders[pending.holder], devices=()))
            _drop_intent(draft, pending, "never_ran")
            return
    hooked = pending.run_id is not None and _began(runs, hook_id(pending.run_id, pending))
    ensured = pending.creates or pending.to == holder.bottom or isinstance(holder, Service)
    if ensured or hooked or pending.step == "answered":
        limit_at_s = max(pending.limit_at_s, draft.now_s + OUTCOME_S)
        draft.move(replace(pending, limit_at_s=limit_at_s))
    else:
        _drop_intent(draft, pending, "no_trace")


def _restore_lease(draft: Draft, lease: Lease, pending: Pending) -> None:
    """Its program may have heard of it already, so it is gone on with; nothing of it is to be seen anywhere."""
    if pending.started_s < lease.since_s:
        _drop_intent(draft, pending, "done")
        return
    if not pending.frees:
        draft.put(replace(lease, devices=pending.devices))
    draft.move(replace(pending, limit_at_s=max(pending.limit_at_s, draft.now_s + OUTCOME_S)))


def _end_of_another_boot(draft: Draft) -> None:
    """No process outlives its boot. Of this one whoever watches the processes of leases tells the end."""
    for holder in list(draft.holders.values()):
        if isinstance(holder, Lease) and holder.pid is not None and holder.boot_id != draft.base.boot_id:
            fold(draft, LeaseGone(lease=holder.id))


def _over(holder: Holder, pending: Pending, number: int, is_open: bool) -> str | None:
    """Why an intent is of the past: it was journaled, or its end was not saved, and things went on from there."""
    ours = holder.run is not None and holder.run.id == pending.run_id
    if pending.creates and (number < holder.runs or (ours and holder.form == pending.to)):
        return "done"
    if not pending.creates and pending.started_s < holder.since_s:
        return "done"
    if pending.frees and is_open:  # its gate was opened after that: it is not touched behind an open gate
        return "gate_open"
    return None


def _began(runs: Runs, run_id: str | None) -> bool:
    """Did anything of that run ever live? What a killed launcher left of one that did not is removed."""
    state = runs.read(run_id) if run_id is not None else None
    if state is not None and not (state.lock_held or state.ran):
        runs.forget(state.id)
    return state is not None and (state.lock_held or state.ran)


def _drop_intent(draft: Draft, pending: Pending, reason: str) -> None:
    draft.event("intent.dropped", pending.holder, to=pending.to, reason=reason)
    draft.intents.add(pending.holder)


def _see_runs(adopted: Adopted, runs: Runs) -> None:
    draft = adopted.draft
    ours: set[str] = set()
    for hid in sorted(draft.holders):
        holder, pending = draft.holders[hid], draft.pending.get(hid)
        ids = {holder.run.id if holder.run else None, pending.run_id if pending else None}
        for run_id in sorted(filter(None, ids)):
            state = runs.read(run_id)
            if state is None:
                if holder.run is not None and holder.run.id == run_id and holder.run.alive:
                    fold(draft, _vanished(hid, holder.run))
                continue
            ours.add(run_id)
            if state.lock_held or (state.ran and not state.gone):
                adopted.watch.append((hid, run_id))
            if state.ran and not (state.lock_held or state.gone or state.exit):
                continue  # lost: the watcher ends what survived before it says so
            if pending is None or not pending.creates or run_id == pending.run_id:
                fold(
                    draft, run_seen(runs, hid, state)
                )  # the end of an older run is not that of the start under way
    for run_id in runs.known():
        state = None if run_id in ours else runs.read(run_id)
        if state is not None and state.kind == "main" and not state.ended:
            spec = runs.spec(run_id) or RunSpec(id=run_id, holder=state.holder, argv=())
            adopted.orphans.append(spec)
            command = shlex.join(spec.argv)[:ARGV_TOLD]
            told = {"run": spec.id, "of": spec.holder, "argv": command, "grace_s": spec.stop_grace_s}
            draft.event("run.orphaned", None, **told)  # the last that anybody hears of it


def _vanished(hid: HolderId, run: Run) -> RunSeen:
    """Somebody removed its directory: of a run without files nothing is known but that it was."""
    return RunSeen(
        holder=hid, run_id=run.id, lock_held=False, pid=run.pid, boot_id=run.boot_id, exit=run.exit, gone=True
    )


def again(pending: Pending, now_s: float) -> Move:
    """The same move for act.py: an `ensure`, so what is under way is found and not begun twice."""
    return Move(
        holder=pending.holder,
        form=pending.to,
        devices=pending.devices,
        limit_s=max(1.0, pending.limit_at_s - now_s),
        creates=pending.creates,
        frees=pending.frees,
        exclusive=pending.exclusive,
        run_id=pending.run_id,
        kill=pending.kill,
        rung=pending.rung,
        cause="adopted",
    )


def outdated(runs: Runs, s: Snapshot) -> list[str]:
    """Ended runs that nobody needs any more: all but the newest, and never one that a holder may still ask for.

    A job that is over keeps its last run, and so its log, as long as it is among the newest jobs that ended.
    """
    over = [h for h in s.holders.values() if isinstance(h, Job) and h.ended is not None]
    over.sort(key=lambda job: job.ended_s or 0.0, reverse=True)
    dropped = {job.id for job in over[RUNS_KEPT:]}
    kept = {h.run.id for h in s.holders.values() if h.run is not None and h.id not in dropped}
    kept |= {pending.run_id for pending in s.pending.values() if pending.run_id is not None}
    ended = []
    for run_id in runs.known():
        state = runs.read(run_id)
        if state is None or not state.ended or runs.pids(run_id):
            continue
        ended.append((_changed_s(runs, run_id), run_id))
    old = [run_id for _, run_id in sorted(ended, reverse=True)[RUNS_KEPT:]]
    return [run_id for run_id in old if not any(run_id == k or run_id.startswith(k + ".") for k in kept)]


def _changed_s(runs: Runs, run_id: str) -> float:
    """When its directory last changed, by the wall clock: the order of runs over restarts of the machine."""
    try:
        return runs.directory(run_id).stat().st_mtime
    except OSError:
        return 0.0
