"""What a reading of the devices changes: whose bytes are where, and which release is verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headway.core import ends, fit, staying
from headway.core.draft import Draft
from headway.core.facts import DeviceRead
from headway.core.leases import has_let_go, is_over
from headway.core.model import TOLERANCE_BYTES, Device, DeviceId, Form, Holder, Lease, Pending, Service
from headway.core.staying import tell_shortfall

ARRIVES_S = 60.0  # within this long a program has taken the memory that it will take
TIMES_KEPT = 10
SETTLES_S = 10.0  # what a sleeper still holds is learned only when it has slept this long


def device_read(d: Draft, fact: DeviceRead) -> None:
    before = d.devices.get(fact.device)
    if before is not None and before.read_at_s is not None and fact.at_s < before.read_at_s:
        return  # an older reading never overwrites a newer one
    ours = {hid: held for hid, held in fact.seen.items() if not _over(d, hid)}
    fact = fact if len(ours) == len(fact.seen) else replace(fact, seen=ours)
    known = fact.used_bytes is not None and fact.trouble is None
    if known and not fact.per_process:
        fact = replace(fact, seen=_by_elimination(d, fact))
    d.devices[fact.device] = Device(
        id=fact.device,
        name=fact.name,
        index=fact.index,
        total_bytes=fact.total_bytes,
        free_bytes=fact.free_bytes if known else None,
        used_bytes=fact.used_bytes if known else None,
        foreign_bytes=_foreign(d, fact, before),
        strangers=fact.strangers if known else (before.strangers if before else ()),
        read_at_s=fact.at_s if known else (before.read_at_s if before else None),
        last_change_s=before.last_change_s if before else 0.0,
        confidence=fact.confidence,
        pool=fact.pool,
        trouble=fact.trouble,
        per_process=fact.per_process,
        ever_read=known or bool(before and before.ever_read),
        gauges=fact.gauges,
    )
    if before is None or before.trouble != fact.trouble:
        d.event(
            "device.seen" if fact.trouble is None else "device.trouble",
            None,
            device=fact.name,
            trouble=fact.trouble,
        )
    if known:
        for hid in sorted(d.present | set(fact.seen)):
            if hid in d.holders:
                _attribute(d, d.holders[hid], fact)
        for pending in list(d.pending.values()):
            if fact.device in pending.devices:
                verify(d, pending)


def _over(d: Draft, hid: str) -> bool:
    return hid in d.holders and is_over(d.holders[hid], hid in d.pending)


def _foreign(d: Draft, fact: DeviceRead, before: Device | None) -> int:
    if fact.used_bytes is None:
        return before.foreign_bytes if before else 0
    if fact.per_process:
        unproven = sum(_unproven_bytes(d.holders[hid], fact) for hid in d.present)
        return max(0, fact.used_bytes - sum(fact.seen.values()) - unproven)
    ours, arriving = 0, False
    for hid in d.present:
        holder = d.holders[hid]
        if fact.device in holder.devices:
            ours += fit.need(holder, holder.form or holder.top) or fact.seen.get(hid, 0)
            arriving = arriving or hid in d.pending or d.now_s - holder.since_s < ARRIVES_S
    left = max(0, fact.used_bytes - ours)
    if not arriving or before is None or before.used_bytes is None:
        return left
    # who was just let in may not have taken its memory yet: that alone makes nobody else's any less
    return max(left, before.foreign_bytes - max(0, before.used_bytes - fact.used_bytes))


def _unproven_bytes(holder: Holder, fact: DeviceRead) -> int:
    """What a server of somebody else's needs here, where no process shows what it holds: it is in a container, say.

    It is counted by its form, so what it needs is not counted as a stranger's as well.
    """
    by_hand = isinstance(holder, Service) and not holder.spec.argv and holder.form != holder.bottom
    if not by_hand or holder.id in fact.seen or fact.device not in holder.devices:
        return 0
    return fit.need(holder, holder.form or holder.top) or 0


def _by_elimination(d: Draft, fact: DeviceRead) -> dict[str, int]:
    """On a device that shows totals only: one of unknown need has it alone, so what nobody else needs is its own."""
    here = [holder for hid in d.present if fact.device in (holder := d.holders[hid]).devices]
    needs = {holder.id: fit.need(holder, holder.form or holder.top) for holder in here}
    unknown = [h.id for h in here if needs[h.id] is None and h.form == h.top and h.id not in d.pending]
    if len(unknown) != 1 or fact.used_bytes is None:
        return {}
    return {unknown[0]: max(0, fact.used_bytes - sum(need or 0 for need in needs.values()))}


def _attribute(d: Draft, holder: Holder, fact: DeviceRead) -> None:
    peak, moving = fact.seen.get(holder.id, 0), holder.id in d.pending
    seen = {device: bytes_ for device, bytes_ in {**holder.seen_bytes, fact.device: peak}.items() if bytes_}
    forms, grown = holder.forms, False
    form = holder.form_named(holder.form)
    settled = form is not None and (form.name == holder.top or fact.at_s >= holder.since_s + SETTLES_S)
    learns = form is not None and settled and not moving and holder.form != holder.bottom
    if form is not None and staying.keeps_memory(holder) and staying.too_much(holder, form, peak):
        learns = False  # it is no residue, and was told already
    if form is not None and form.need_bytes is None and form.name == holder.top:
        learns = False  # on its first run it may still grow, and has its device alone: see ends.measured
    if form is not None and learns and peak > (form.learned_bytes or 0):
        grown = peak > (form.learned_bytes or 0) + TOLERANCE_BYTES
        forms = tuple(replace(f, learned_bytes=peak) if f.name == form.name else f for f in forms)
        if form.name == holder.top:
            _overrun(d, holder, form, peak)
        elif grown:
            _kept(d, holder, form, peak, fact)
    devices = holder.devices
    if _goes_where_it_likes(holder) and not moving:
        devices = _where(holder, seen)
    seen_now = holder
    if (seen, forms, devices) != (holder.seen_bytes, holder.forms, holder.devices):
        seen_now = replace(holder, seen_bytes=seen, forms=forms, devices=devices)
    if staying.keeps_memory(holder) and staying.let_go(seen_now):
        d.event("release.verified", holder.id, form=holder.form)
        seen_now, grown = replace(seen_now, note=None, note_facts={}), True
    d.put(seen_now, save=grown)


def _where(holder: Holder, seen: Mapping[DeviceId, int]) -> tuple[DeviceId, ...]:
    """Where it is, is known by what is measured; a server that was thought elsewhere is not in both places."""
    everywhere = {*holder.devices, *seen}
    too_many = isinstance(holder, Service) and seen and len(everywhere) > holder.spec.count
    return tuple(sorted(seen if too_many else everywhere))


def _goes_where_it_likes(holder: Holder) -> bool:
    """A claim, and a server that somebody else started on devices that the config does not name."""
    if isinstance(holder, Service):
        return not holder.spec.argv and not holder.spec.pinned_devices and holder.form != holder.bottom
    return isinstance(holder, Lease) and holder.kind == "claim"


def _overrun(d: Draft, holder: Holder, form: Form, peak: int) -> None:
    declared = form.declared_bytes
    if declared and (form.learned_bytes or 0) <= declared * 1.05 < peak:
        d.event("holder.overrun", holder.id, form=form.name, declared_bytes=declared, seen_bytes=peak)


def _kept(d: Draft, holder: Holder, form: Form, held: int, fact: DeviceRead) -> None:
    """A server that went to sleep by itself and kept its memory: told once, since what it keeps is learned now."""
    told = (form.learned_bytes or 0) > (form.declared_bytes or 0) + TOLERANCE_BYTES
    if staying.too_much(holder, form, held) and not told:
        pid = holder.run.pid if holder.run else None
        d.event("memory.not_released", holder.id, held={fact.device: held}, form=form.name, pid=pid)


def verify(d: Draft, pending: Pending) -> None:
    """A release is over when a reading newer than the driver's answer shows that the bytes are gone."""
    if not pending.frees or pending.step != "answered":
        return
    holder = d.holders[pending.holder]
    if pending.to == holder.bottom and holder.run is not None and holder.run.alive:
        return  # it says that it ended, and something of it lives: it may not have taken its memory yet
    if not has_let_go(holder):
        return  # its program was only asked to leave
    over = fit.released(pending, holder, d.view())
    if over is None:
        return
    if over and isinstance(holder, Lease) and d.now_s >= pending.started_s + d.base.policy.free_limit_s:
        _left_behind(d, holder, pending, over)
        return
    if over:
        if d.now_s >= pending.limit_at_s and not pending.shortfall_told and tell_shortfall(d, pending):
            d.move(replace(pending, shortfall_told=True))
        return
    took_s = d.now_s - pending.started_s
    d.end_move(holder.id)
    d.touch(pending.devices, pending.answered_s)
    d.event(
        "release.verified",
        holder.id,
        form=pending.to,
        source=pending.source,
        took_s=took_s,
        rung=pending.rung,
        cause=pending.cause,
        proof=_proof(d, pending),
    )
    if not pending.rung:  # one that had to be helped says nothing of how long it takes
        holder = replace(holder, forms=timed(holder, pending.to, enter_s=took_s))
    ends.stepped_aside(d, holder, pending)


def _proof(d: Draft, pending: Pending) -> str:
    """What says that its memory is free: "measured", "declared" where nothing measures one of its devices, or "none".

    With no device there is no memory of one to be free.
    """
    devices = [d.devices[device] for device in pending.devices if device in d.devices]
    if not devices:
        return "none"
    return "declared" if any(device.confidence == "declared" for device in devices) else "measured"


def _left_behind(d: Draft, lease: Lease, pending: Pending, held: dict[str, int]) -> None:
    """It gave its devices back and its processes keep some of them: that is counted as nobody's of ours from now on."""
    d.end_move(lease.id)
    d.touch(pending.devices)
    d.event("lease.left", lease.id, held=held, pid=lease.pid)
    ends.stepped_aside(d, lease, pending)


def timed(
    holder: Holder, name: str, enter_s: float | None = None, leave_s: float | None = None
) -> tuple[Form, ...]:
    """Forms with a measured time in one of them."""
    if enter_s is None:
        return tuple(replace(f, leave_s=leave_s) if f.name == name else f for f in holder.forms)
    return tuple(
        replace(f, enter_s=enter_s, enters_s=(*f.enters_s, enter_s)[-TIMES_KEPT:]) if f.name == name else f
        for f in holder.forms
    )
