"""The words people see: the state of a holder, what a name means, facts in sentences. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from headway.core.draft import LEASE_LANE
from headway.core.leases import overdue
from headway.core.model import FormName, Holder, HolderId, Job, Lease, Pending, Service, Snapshot
from headway.core.units import duration, size

JOB_STATES = (
    "held", "queued", "starting", "running", "frozen", "parking", "parked", "resuming", "winding_down", "stopping",
    "done", "failed", "cancelled", "lost",
)  # fmt: skip
SERVICE_STATES = (
    "stopped", "starting", "awake", "draining", "sleeping", "asleep", "waking", "stopping", "failed", "unknown",
)  # fmt: skip
LEASE_STATES = (
    "waiting", "granting", "granted", "overdue", "leaving", "returning", "counted",
    "released", "gone", "cancelled", "revoked", "lapsed", "waited_out",
)  # fmt: skip
FAILED_AFTER = 2  # the first failed start is tried again at once
ENDED = ("done", "failed", "cancelled", "lost")

# What somebody who arrived in that form says he did.
DID: Mapping[FormName, str] = {
    "running": "runs",
    "frozen": "froze",
    "parked": "parked",
    "stopped": "stopped",
    "awake": "woke",
    "asleep": "went to sleep",
    "granted": "took its place",
    "revoked": "let go",
}
GOING: Mapping[FormName, str] = {
    "parked": "parking",
    "asleep": "sleeping",
    "stopped": "stopping",
    "frozen": "frozen",
}


def state(holder: Holder, s: Snapshot) -> str:
    """The one word for what it is doing, made from wish, form and the move under way."""
    pending = s.pending.get(holder.id)
    if isinstance(holder, Job):
        return job_state(holder, pending)
    if isinstance(holder, Service):
        return service_state(holder, pending)
    if isinstance(holder, Lease):
        return lease_state(holder, pending, s.now_s)
    return holder.form or holder.top


def since_s(holder: Holder, s: Snapshot) -> float:
    """Since when it has been in that state."""
    pending = s.pending.get(holder.id)
    return pending.started_s if pending is not None else holder.since_s


def job_state(job: Job, pending: Pending | None) -> str:
    if job.ended is not None:
        return job.ended
    if pending is not None:
        if pending.to == job.top:
            return "resuming" if pending.source in ("parked", "frozen") else "starting"
        return GOING.get(pending.to, pending.to)
    form = job.form
    if form is None:  # not observed yet: whether its process lives is all that is known
        form = job.top if job.run is not None and job.run.alive else job.bottom
    if form == job.bottom:
        if job.wish == "cancel":
            return "stopping"
        return "queued" if job.wish == "run" else "held"
    if job.wish in ("stop", "kill", "cancel"):
        return "stopping"
    if form == job.top:
        here = "frozen" if job.frozen_by_gate else form
        return {"wind_down": "winding_down", "pause": "parking"}.get(job.wish, here)
    return form


def service_state(service: Service, pending: Pending | None) -> str:
    if pending is not None:
        if pending.to == service.top:
            return "starting" if pending.source in (None, service.bottom) else "waking"
        return "stopping" if pending.to == service.bottom else "sleeping"
    if service.form is None:
        return "unknown"
    if service.form == service.top:
        closing_s = service.gate.closing_since_s  # one from before it woke only means: not open yet
        closes = service.gate.wish == "closed" and closing_s is not None and closing_s >= service.since_s
        return "draining" if closes else "awake"
    if service.form == service.bottom:
        return "failed" if service.failures >= FAILED_AFTER else "stopped"
    return "asleep"


def lease_state(lease: Lease, pending: Pending | None, now_s: float) -> str:
    if lease.ended is not None:
        return lease.ended if pending is None else "returning"
    if pending is not None and pending.frees:
        return "leaving"
    if lease.form == lease.bottom:
        return "waiting" if pending is None else "granting"
    if lease.kind == "claim":
        return "counted"
    return "overdue" if overdue(lease, now_s) else "granted"


def label(hid: str, s: Snapshot) -> str:
    """What people call a holder: its name, a job's id beside it. Anything else stays as it is."""
    holder = s.holders.get(hid)
    if holder is not None:
        return holder.spec.name if holder.spec.name == hid else f"{holder.spec.name} ({hid})"
    device = s.devices.get(hid)
    return device.name if device else hid


def matching(s: Snapshot, target: str, kind: str | None) -> tuple[HolderId, ...]:
    """Ids that `target` means: the holder of that id, else the living ones of that name, else the last one that was.

    Args:
        kind: only holders of this kind; None: any.
    """
    fits = s.holders.get(target)
    if fits is not None and kind in (None, fits.kind):
        return (target,)
    same = [h for h in s.holders.values() if h.spec.name == target and kind in (None, h.kind)]
    living = sorted(h.id for h in same if not (isinstance(h, Job | Lease) and h.ended))
    if living:
        return tuple(living)
    asked = {
        h.id: h.enqueued_s if isinstance(h, Job) else h.asked_s for h in same if isinstance(h, Job | Lease)
    }
    ended = [(h.ended_s or 0.0, asked[h.id], h.id) for h in same if isinstance(h, Job | Lease)]
    return (max(ended)[2],) if ended else ()


def position(holder: Job | Lease, s: Snapshot) -> int | None:
    """Its place in the line of its lane, from 1; None when it does not stand in line."""
    line = s.queue.get(holder.lane if isinstance(holder, Job) else LEASE_LANE, ())
    at = bisect_left(line, (holder.key, holder.id))
    return at + 1 if at < len(line) and line[at][1] == holder.id else None


def spoken(key: str, value: Any, s: Snapshot | None) -> str | None:
    """A fact in words, by the unit its name ends in; None when there is nothing to say."""
    if value is None or value == "" or value == () or value == [] or value == {}:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        parts = [
            f"{label(str(k), s) if s else k} {spoken('_bytes', v, s) or 'unknown'}" for k, v in value.items()
        ]
        return ", ".join(parts)
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(word for one in value if (word := spoken(key, one, s)))
    if isinstance(value, int | float):
        if key.endswith("_bytes"):
            return size(value)
        if key.endswith("_s"):
            return duration(value)
        return f"{value:g}" if isinstance(value, float) else str(value)
    text = str(value)
    return label(text, s) if s else text
