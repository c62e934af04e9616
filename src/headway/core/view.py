"""What people see: rows, the board, and why. The one document that API, events, page, CLI and alerts show. Pure.

Ages are in seconds and sizes in bytes; the readers make them into words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from itertools import islice
from typing import Any

from headway.core import words
from headway.core.device_rows import device_row as device_row
from headway.core.device_rows import devices as devices
from headway.core.device_rows import troubles as troubles
from headway.core.draft import LEASE_LANE
from headway.core.engines import engine_row
from headway.core.eta import lengths
from headway.core.gap_rows import budget_row, gap_row, times
from headway.core.job_rows import NONE, Known, job_fields
from headway.core.job_rows import outlook as outlook
from headway.core.model import Holder, Job, Lease, Service, Snapshot
from headway.core.phrases import note, sentence
from headway.core.reasons import Verdicts, quiet_s, said
from headway.core.reasons import explain as explain
from headway.core.reasons import reason as reason
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
)
from headway.core.spec import device_env
from headway.core.window_rows import window_rows as window_rows
from headway.core.windows import over

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
    return JobRow(**_common(job, s, verdicts), **job_fields(job, s, verdicts, known))


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
        quiet_s=quiet_s(service, s),
        window=window.kind if window else None,
        called_by=service.called_by,
        dismissed_by=service.dismissed_by,
        counted_bytes=_counted_bytes(service, s),
        times=times(service),
        budget=budget_row(service, s),
        engine=engine_row(service.engine) if service.form == service.top else None,
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
        "in_state_s": s.now_s - words.since_s(holder, s),
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


def _counted_bytes(service: Service, s: Snapshot) -> int | None:
    """What it holds, with what was declared for its form where nothing measures the device."""
    shares = [
        service.seen_bytes.get(device, service.need_bytes(service.form or service.top))
        for device in service.devices
        if device in s.devices and s.devices[device].confidence == "declared"
    ]
    if not shares or len(shares) < len(service.devices):
        return _seen_bytes(service, s)
    known = [share for share in shares if share is not None]
    return sum(known) if len(known) == len(shares) else None


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
