"""What people see of devices, and of what keeps Headway from its work. Made for view.py; pure."""

from __future__ import annotations

from headway.core import floors, leases, words
from headway.core.fit import reserve_bytes
from headway.core.model import Device, Holder, Job, Lease, Snapshot
from headway.core.phrases import note, sentence
from headway.core.rows import DeviceRow, Share, Stranger, Trouble
from headway.core.staying import keeps_memory
from headway.core.told import UNHEALTHY
from headway.core.units import duration


def device_row(device: Device, s: Snapshot) -> DeviceRow:
    there = [
        s.holders[hid]
        for hid in s.present
        if device.id in (*s.holders[hid].devices, *s.holders[hid].seen_bytes)
    ]
    age_s = None if device.read_at_s is None else s.now_s - device.read_at_s
    known = device.free_bytes is not None or device.confidence == "declared"
    return DeviceRow(
        id=device.id,
        name=device.name,
        index=device.index,
        total_bytes=device.total_bytes,
        used_bytes=device.used_bytes,
        free_bytes=device.free_bytes,
        foreign_bytes=device.foreign_bytes,
        reserve_bytes=reserve_bytes(device, False, s),
        confidence=device.confidence if known else "unknown",
        pool=device.pool,
        read_age_s=age_s,
        trouble=_device_trouble(device, age_s, s),
        holders=tuple(_share(holder, device, s) for holder in there),
        strangers=tuple(Stranger(pid=pid, bytes=held) for pid, held in device.strangers),
        model=device.gauges.model,
        util_percent=device.gauges.util_percent,
        temp_c=device.gauges.temp_c,
        power_w=device.gauges.power_w,
    )


def _share(holder: Holder, device: Device, s: Snapshot) -> Share:
    return Share(
        id=holder.id,
        kind=holder.kind,
        name=holder.spec.name,
        state=words.state(holder, s),
        bytes=holder.seen_bytes.get(device.id, 0 if device.per_process else None),
        need_bytes=holder.need_bytes(holder.form or holder.top),
    )


def devices(s: Snapshot) -> tuple[DeviceRow, ...]:
    return tuple(device_row(d, s) for d in sorted(s.devices.values(), key=lambda d: (d.index, d.name)))


def troubles(s: Snapshot) -> tuple[Trouble, ...]:
    """What keeps Headway from its work: store, meters, devices, holders that failed or keep their memory."""
    found = []
    if not s.store_ok:
        found.append(
            Trouble(code="store_silent", sentence=sentence("store_silent", {"trouble": s.store_trouble}))
        )
    if s.queue_hold is not None and s.queue_hold.crashes:
        words_ = f"{sentence('queue_held', {'crashes': s.queue_hold.crashes})}: `headway queue release`"
        found.append(Trouble(code="queue_held", sentence=words_))
    for one in floors.low(s.host, s.policy):
        facts = {"free_bytes": one.free_bytes, "floor_bytes": one.floor_bytes}
        code = "host_floor" if one.what == "memory" else "disk_floor"
        found.append(Trouble(code=code, sentence=sentence(code, facts)))
    if s.meter_trouble:
        found.append(Trouble(code="meter_silent", sentence=f"the meter does not answer: {s.meter_trouble}"))
    for device in s.devices.values():
        age_s = None if device.read_at_s is None else s.now_s - device.read_at_s
        if word := _device_trouble(device, age_s, s):
            found.append(Trouble(code="device_trouble", sentence=f"{device.name}: {word}", id=device.id))
    for hid in sorted({*s.pending, *s.services}):
        holder = s.holders[hid]
        pending = s.pending.get(hid)
        if keeps_memory(holder) or (pending is not None and pending.shortfall_told):
            to = pending.to if pending is not None else holder.form or ""
            words_ = f"{words.label(hid, s)} says it {words.DID.get(to, 'moved')}, but keeps its memory"
            found.append(Trouble(code="not_released", sentence=words_, id=hid))
        elif words.state(holder, s) == "failed":
            words_ = note(holder.note, holder.note_facts, s) if holder.note else "could not start"
            found.append(Trouble(code="start_failed", sentence=f"{words.label(hid, s)}: {words_}", id=hid))
    for hid in s.present:
        if isinstance(lease := s.holders[hid], Lease) and leases.overdue(lease, s.now_s):
            words_ = f"{words.label(hid, s)} is past its time, and its process lives"
            found.append(Trouble(code="overdue", sentence=words_, id=hid))
        elif isinstance(job := s.holders[hid], Job) and job.form == job.top and job.ended is None:
            found += _of_job(job, s)
    return tuple(found)


def _of_job(job: Job, s: Snapshot) -> list[Trouble]:
    name, found = words.label(job.id, s), list[Trouble]()
    if job.stalled:
        silent_s = duration(s.now_s - max(job.active_s or 0.0, job.since_s))
        found.append(
            Trouble(code="stalled", sentence=f"{name} shows no sign of work for {silent_s}", id=job.id)
        )
    if job.unhealthy >= UNHEALTHY:
        sentence_ = f"{name}: its health command failed {job.unhealthy} times in a row"
        found.append(Trouble(code="unhealthy", sentence=sentence_, id=job.id))
    return found


def _device_trouble(device: Device, age_s: float | None, s: Snapshot) -> str | None:
    if device.trouble:
        return device.trouble
    if device.confidence == "declared":
        return None
    if age_s is None:
        return "not read yet"
    return f"last read {duration(age_s)} ago" if age_s > s.policy.reading_max_age_s else None
