"""What people see: rows, the board, and why. The one document that API, events, page, CLI and alerts show. Pure.

Ages are in seconds and sizes in bytes; the readers make them into words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from itertools import islice
from typing import Any

from headway.core import words
from headway.core.device_rows import device_row as device_row
from headway.core.device_rows import devices as devices
from headway.core.device_rows import troubles as troubles
from headway.core.draft import LEASE_LANE
from headway.core.eta import lengths
from headway.core.gap_rows import gap_row
from headway.core.job_rows import NONE, Known, job_fields, running_facts
from headway.core.job_rows import outlook as outlook
from headway.core.model import Holder, HolderId, Job, Lease, Service, Snapshot, Verdict
from headway.core.phrases import help_for, note, sentence
from headway.core.rows import (
    DeviceRow,
    Head,
    JobPage,
    JobRow,
    LeaseRow,
    Overview,
    Row,
    ServiceDetail,
    ServiceRow,
    Why,
)
from headway.core.spec import device_env
from headway.core.staying import keeps_memory
from headway.core.window_rows import window_rows as window_rows
from headway.core.windows import over
from headway.core.worked import ran_s

Verdicts = Mapping[HolderId, Verdict]


def explain(hid: HolderId, s: Snapshot, verdicts: Verdicts) -> Why:
    """Why that holder is, or is not, running.

    Raises:
        KeyError: there is no such holder.
    """
    holder = s.holders[hid]
    verdict = reason(holder, s, verdicts)
    facts = said(verdict, holder, s)
    state = words.state(holder, s)
    words_ = sentence(verdict.code, facts, s)
    own = verdict.code in ("not_released", "verifying") or words_.startswith(state)  # these say it themselves
    return Why(
        id=hid,
        kind=holder.kind,
        state=state,
        code=verdict.code,
        sentence=words_ if own else f"{state.replace('_', ' ')}: {words_}",
        facts=facts,
        until_s=_left_s(verdict, s),
        help=help_for(verdict.code, facts, hid),
    )


def reason(holder: Holder, s: Snapshot, verdicts: Verdicts) -> Verdict:
    """The verdict of the last pass; where there is none, or it only says "as planned", what the state itself says."""
    if isinstance(holder, Job) and holder.ended is not None:
        return Verdict(code=holder.ended)
    if isinstance(holder, Lease) and holder.ended is not None and holder.id not in s.pending:
        return Verdict(code=holder.ended, facts=holder.note_facts)
    verdict = verdicts.get(holder.id)
    if verdict is None or verdict.code in ("keeps", "goes"):
        return _plain(holder, s) or verdict or _unlooked(holder, s)
    return verdict


def _unlooked(holder: Holder, s: Snapshot) -> Verdict:
    """The pass looks at the first entries of a queue only, and at nobody who wants nothing."""
    return Verdict(code="behind" if words.state(holder, s) in ("queued", "waiting") else "unseen")


def _plain(holder: Holder, s: Snapshot) -> Verdict | None:
    """A reason from the state alone; None where the pass knows better."""
    state = words.state(holder, s)
    if holder.id in s.pending:
        pending = s.pending[holder.id]
        return Verdict(code="moving", facts={"to": pending.to, "since_s": s.now_s - pending.started_s})
    if isinstance(holder, Job):
        if holder.form == holder.top:
            return Verdict(code="runs")
        return Verdict(code="held", facts={"by": holder.wish_by}) if state == "held" else None
    if isinstance(holder, Lease):
        return Verdict(code=state) if state in ("granted", "counted", "overdue") else None
    if not isinstance(holder, Service):
        return Verdict(code="granted")
    if state == "failed":
        return Verdict(code="start_failed")
    if holder.form == holder.top:
        return Verdict(code="answers" if holder.active else "idle")
    if keeps_memory(holder):
        return Verdict(code="not_released", facts=holder.note_facts)
    if holder.wish == "hold":
        return Verdict(code="held", facts={"by": holder.wish_by})
    if _waiting(holder) or holder.form is None:
        return None
    if (outlook := s.outlooks.get(holder.id)) is not None and outlook.taken:
        return Verdict(code="gap_taken", facts=outlook.taken)
    return Verdict(code="shadow" if s.mode == "shadow" else "aside")  # where no request wakes it


def said(verdict: Verdict, holder: Holder, s: Snapshot) -> dict[str, Any]:
    """The facts of a verdict, made into ages, with what the sentences need beside them."""
    facts = dict(verdict.facts)
    facts.setdefault("in_state_s", s.now_s - holder.since_s)
    facts.setdefault("devices", [words.label(d, s) for d in holder.devices])
    if (
        holder.note
        and facts.get("note") is None
        and verdict.code in ("backoff", "start_failed", "held", "failed")
    ):
        facts |= {**holder.note_facts, "note": holder.note}
    if verdict.code == "held":
        facts["since_s"] = None if holder.wish_s is None else s.now_s - holder.wish_s
    if (left_s := _left_s(verdict, s)) is not None:
        facts["in_s"] = left_s
    if holder.run is not None and holder.run.exit is not None:
        facts.setdefault("exit_code", holder.run.exit.code)
    if isinstance(holder, Job):
        if holder.exit_code is not None:
            facts["exit_code"] = holder.exit_code
        facts |= {
            "position": words.position(holder, s),
            "ran_s": ran_s(holder, s.now_s),
        }
        if verdict.code == "runs":
            facts |= running_facts(holder, s)
        facts["ended_s"] = None if holder.ended_s is None else s.now_s - holder.ended_s
    if isinstance(holder, Lease):
        facts = _of_lease(holder, s) | facts
        if (because := facts.get("because")) is not None:
            facts["why"] = sentence(str(because), facts, s)
    if isinstance(holder, Service):
        facts.setdefault("active", holder.active)
        facts["quiet_s"] = facts.get("quiet_s", _quiet_s(holder, s))
        facts["dismissed_by"] = holder.dismissed_by
    return {key: value for key, value in facts.items() if value is not None}


def _of_lease(lease: Lease, s: Snapshot) -> dict[str, Any]:
    """Who, since when, up to how long, and why it was not let in where it was not."""
    facts: dict[str, Any] = {"by": lease.by, "pid": lease.pid, "position": words.position(lease, s)}
    if lease.granted_s is not None:
        facts["held_s"] = (lease.ended_s if lease.ended_s is not None else s.now_s) - lease.granted_s
    if lease.expires_s is not None and lease.ended is None:
        late_s = s.now_s - lease.expires_s
        facts |= {"late_s": late_s} if late_s >= 0 else {"left_s": -late_s}
    if lease.ended_s is not None:
        facts["ended_s"] = s.now_s - lease.ended_s
    if lease.would_s is not None:
        facts["would_s"] = lease.would_s
    return facts


def _left_s(verdict: Verdict, s: Snapshot) -> float | None:
    return None if verdict.until_s is None else max(0.0, verdict.until_s - s.now_s)


# ------------------------------------------------------------- rows


def row(hid: str, s: Snapshot, verdicts: Verdicts) -> Row | DeviceRow | None:
    """The row of a holder or a device; None when there is no such thing (any more)."""
    if hid in s.devices:
        return device_row(s.devices[hid], s)
    holder = s.holders.get(hid)
    if isinstance(holder, Job):
        return job_row(holder, s, verdicts)
    if isinstance(holder, Service):
        return service_row(holder, s, verdicts)
    if isinstance(holder, Lease):
        return lease_row(holder, s, verdicts)
    return None if holder is None else Row(**_common(holder, s, verdicts))


def job_row(job: Job, s: Snapshot, verdicts: Verdicts, known: Known = NONE) -> JobRow:
    return JobRow(**_common(job, s, verdicts), **job_fields(job, s, known))


def detail(hid: str, s: Snapshot, verdicts: Verdicts) -> Row | DeviceRow | None:
    """The row of one that somebody asks about, with all that is known of it."""
    holder = s.holders.get(hid)
    return service_detail(holder, s, verdicts) if isinstance(holder, Service) else row(hid, s, verdicts)


def service_detail(service: Service, s: Snapshot, verdicts: Verdicts) -> ServiceDetail:
    row = service_row(service, s, verdicts)
    return ServiceDetail(**{f.name: getattr(row, f.name) for f in fields(row)}, gap=gap_row(service, s))


def service_row(service: Service, s: Snapshot, verdicts: Verdicts) -> ServiceRow:
    waits, window = [w for w in service.demand.values() if w.n], over(service.id, s)
    return ServiceRow(
        **_common(service, s, verdicts),
        driver=service.spec.driver,
        models=service.spec.models,
        upstream=service.upstream,
        ready=service.ready,
        gate=service.gate.wish,
        active=service.active,
        engine_active=service.engine_active,
        waiting=sum(w.n for w in waits),
        waiting_s=max((s.now_s - w.since_s for w in waits), default=None),
        quiet_s=_quiet_s(service, s),
        window=window.kind if window else None,
        called_by=service.called_by,
        dismissed_by=service.dismissed_by,
        run=service.run.id if service.run else None,
        pid=service.run.pid if service.run else None,
    )


def lease_row(lease: Lease, s: Snapshot, verdicts: Verdicts) -> LeaseRow:
    left_s = None if lease.expires_s is None or lease.ended else lease.expires_s - s.now_s
    return LeaseRow(
        **_common(lease, s, verdicts),
        by=lease.by,
        purpose=lease.purpose,
        priority=lease.priority,
        preemptible=lease.preemptible,
        block=lease.block,
        position=words.position(lease, s),
        age_s=s.now_s - lease.asked_s,
        held_s=None if lease.granted_s is None else (lease.ended_s or s.now_s) - lease.granted_s,
        expires_in_s=left_s,
        fencing=lease.fencing,
        pid=lease.pid,
        match=lease.match,
        ttl_s=lease.ttl_s,
        wait_limit_s=lease.wait_limit_s,
        would_s=lease.would_s,
        env=device_env(lease.devices) if lease.granted_s is not None and not lease.ended else {},
        ended=lease.ended,
        ended_s=None if lease.ended_s is None else s.now_s - lease.ended_s,
    )


def _common(holder: Holder, s: Snapshot, verdicts: Verdicts) -> dict[str, Any]:
    verdict = reason(holder, s, verdicts)
    return {
        "id": holder.id,
        "kind": holder.kind,
        "name": holder.spec.name,
        "state": words.state(holder, s),
        "in_state_s": s.now_s - holder.since_s,
        "devices": tuple(words.label(d, s) for d in holder.devices),
        "bytes": _seen_bytes(holder, s),
        "need_bytes": holder.need_bytes(holder.top),
        "code": verdict.code,
        "why": sentence(verdict.code, said(verdict, holder, s), s),
        "wish": holder.wish,
        "wish_by": holder.wish_by,
        "note": note(holder.note, holder.note_facts, s) if holder.note else None,
        "failures": holder.failures,
    }


def _seen_bytes(holder: Holder, s: Snapshot) -> int | None:
    if holder.seen_bytes or not holder.devices:
        return sum(holder.seen_bytes.values())
    tells = all(
        s.devices[d].per_process and not s.devices[d].trouble for d in holder.devices if d in s.devices
    )
    return 0 if tells else None


def _quiet_s(service: Service, s: Snapshot) -> float | None:
    if service.active or service.last_end_s is None:
        return None
    return s.now_s - service.last_end_s


def _waiting(service: Service) -> int:
    return sum(w.n for w in service.demand.values())


# ------------------------------------------------------------- lists


def overview(s: Snapshot, verdicts: Verdicts, queued_max: int = 50) -> Overview:
    """The whole board, the first `queued_max` of the queue."""
    top, known = head(s), lengths(s)
    present = (h for hid in s.present if isinstance(h := s.holders[hid], Job))
    return Overview(
        mode=top.mode,
        mode_by=top.mode_by,
        windows=top.windows,
        prod_only_by=top.prod_only_by,
        queue_held_by=top.queue_held_by,
        rev=top.rev,
        up_s=top.up_s,
        devices=top.devices,
        jobs=top.jobs,
        troubles=top.troubles,
        services=services(s, verdicts),
        leases=lease_rows(s, verdicts),
        running=tuple(job_row(job, s, verdicts, known) for job in present if job.ended is None),
        queued=tuple(job_row(job, s, verdicts, known) for job in islice(_line(s), queued_max)),
    )


def head(s: Snapshot) -> Head:
    return Head(
        mode=s.mode,
        mode_by=s.mode_by,
        windows=window_rows(s),
        prod_only_by=s.prod_only_by,
        queue_held_by=s.queue_hold.by if s.queue_hold else None,
        rev=s.rev,
        up_s=s.now_s - s.booted_s,
        devices=devices(s),
        jobs=counts(s),
        troubles=troubles(s),
    )


def services(s: Snapshot, verdicts: Verdicts) -> tuple[ServiceRow, ...]:
    return tuple(
        service_row(h, s, verdicts) for sid in s.services if isinstance(h := s.holders[sid], Service)
    )


def lease_rows(s: Snapshot, verdicts: Verdicts, ended: bool = False) -> tuple[LeaseRow, ...]:
    """Leases and claims that hold devices, then those that wait, in line, then (`ended`) those that are over."""
    held = [h for hid in s.present if isinstance(h := s.holders[hid], Lease)]
    line = [h for _, hid in s.queue.get(LEASE_LANE, ()) if isinstance(h := s.holders[hid], Lease)]
    shown = {lease.id: lease for lease in (*held, *line)}
    if ended:
        over = (h for h in s.holders.values() if isinstance(h, Lease) and h.ended is not None)
        shown |= {
            h.id: h for h in sorted(over, key=lambda h: (-(h.ended_s or 0.0), h.id)) if h.id not in shown
        }
    return tuple(lease_row(lease, s, verdicts) for lease in shown.values())


def counts(s: Snapshot) -> dict[str, int]:
    """Jobs by state, from the indexes alone: the length of the queue costs nothing."""
    found: dict[str, int] = {}
    for hid in s.present:
        if isinstance(job := s.holders[hid], Job) and job.ended is None:
            word = words.state(job, s)
            found[word] = found.get(word, 0) + 1
    for lane, line in s.queue.items():
        if line and lane != LEASE_LANE:
            word = "held" if lane == "held" else "queued"
            found[word] = found.get(word, 0) + len(line)
    return found


def jobs(
    s: Snapshot,
    verdicts: Verdicts,
    states: frozenset[str] = frozenset(),
    ended: bool = False,
    after: str | None = None,
    limit: int = 200,
    fits: Callable[[Job], bool] = lambda job: True,
) -> JobPage:
    """One page of jobs: those that are somewhere, the line in order, the held, and with `ended` those that are over.

    Args:
        states: only these words; empty: all.
        fits: only jobs of which this is true.
        after: the cursor: the id of the last job of the page before; one that is gone begins anew.
    """
    order: list[Job] = [h for hid in s.present if isinstance(h := s.holders[hid], Job) and h.ended is None]
    order += _line(s)
    if ended or states & set(words.ENDED):
        over = [h for h in s.holders.values() if isinstance(h, Job) and h.ended is not None]
        order += sorted(over, key=lambda job: (-(job.ended_s or 0.0), job.id))
    start = next((n + 1 for n, job in enumerate(order) if job.id == after), 0) if after else 0
    shown = (job for job in order[start:] if (not states or words.state(job, s) in states) and fits(job))
    page = list(islice(shown, limit + 1))
    more = page[limit - 1].id if len(page) > limit else None
    known = lengths(s)
    return JobPage(jobs=tuple(job_row(job, s, verdicts, known) for job in page[:limit]), next=more)


def _line(s: Snapshot) -> Iterable[Job]:
    """Everybody in line, lane by lane, the held last."""
    present = set(s.present)
    for lane in sorted(s.queue, key=lambda lane: (lane == "held", lane)):
        for _, hid in s.queue[lane]:
            if hid not in present and isinstance(job := s.holders.get(hid), Job):
                yield job
