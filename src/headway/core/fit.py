"""Who fits where. The plan counts every holder in the form it is going to; a step counts the form it is in.

behaviour: a claim fits when need <= total - taken - reserve and (need - own) <= measured free - reserve.
This file is the one place that says what "free" means.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from headway.core import eta, lanes
from headway.core.lanes import Head, Lane
from headway.core.leases import blocks
from headway.core.lifecycle import gap_placed, gated
from headway.core.model import (
    TOLERANCE_BYTES,
    Device,
    DeviceId,
    FormName,
    Holder,
    HolderId,
    Job,
    Pending,
    Snapshot,
    Spec,
    Verdict,
    Want,
)

Devices = tuple[DeviceId, ...]
Leaving = Mapping[str, FormName]  # holder -> the form it would step aside to
NOBODY: Leaving = {}
Share = tuple[Holder, FormName, int | None]  # who is on a device, in which form, with how many bytes


def need(holder: Holder, form: FormName | None) -> int | None:
    """Bytes on each device in that form. Unknown at the top means the device alone; a residue not known is 0."""
    bytes_ = holder.need_bytes(form)
    return bytes_ if bytes_ is not None or form == holder.top else 0


def reserve_bytes(device: Device, alone: bool, s: Snapshot) -> int:
    """What stays unused on a device: nothing for a holder that has it alone."""
    if alone or device.total_bytes is None:
        return 0
    return min(s.policy.reserve_max_bytes, int(device.total_bytes * s.policy.reserve_share))


class Plan:
    """The target of one pass: who is in which form where. Grows strongest first; never looks at time."""

    def __init__(self, s: Snapshot) -> None:
        self.s = s
        self.placed: dict[str, tuple[FormName, Devices]] = {}
        self.causes: dict[str, str] = {}  # holder put aside -> holder id or code it is for
        self.reserved: dict[DeviceId, HolderId] = {}  # for whom it is kept
        self.heads: dict[HolderId, Head] = {}  # of these, those in a line
        self.waiting: set[str] = set()  # settled without a place, though it may have one later
        self.order: dict[str, int] = {}  # the rank at which each was settled
        self.standing: dict[str, Holder] = {hid: s.holders[hid] for hid in s.present}
        self._on: dict[DeviceId, list[Share]] = {}  # who is on each device, until the plan changes
        self._lanes: dict[str, Lane] = {}  # the same
        self._lengths: Mapping[str, tuple[float, ...]] | None = None

    def lengths(self) -> Mapping[str, tuple[float, ...]]:
        """How long recipes took before; looked up once, and only when somebody asks."""
        if self._lengths is None:
            self._lengths = eta.lengths(self.s)
        return self._lengths

    def form_of(self, holder: Holder) -> tuple[FormName, Devices]:
        """Where the plan has this holder: placed, else where it stands or is already moving to."""
        if holder.id in self.placed:
            return self.placed[holder.id]
        moving = self.s.pending.get(holder.id)
        return (moving.to if moving else holder.form or holder.top), holder.devices

    def bytes_on(self, holder: Holder, device: DeviceId, form: FormName) -> int | None:
        """Bytes counted for a holder in a form; measured bytes count while it stays in its present form."""
        known = need(holder, form)
        if known is None:
            return None
        stays = form == holder.form and holder.id not in self.s.pending
        return max(known, holder.seen_bytes.get(device, 0)) if stays else known

    def on(self, device: DeviceId) -> list[Share]:
        """Everybody on a device in the plan, by id."""
        if device not in self._on:
            self._on[device] = []
            for hid in sorted({*self.placed, *self.standing}):
                holder = self.s.holders[hid]
                form, devices = self.form_of(holder)
                if device in devices:
                    self._on[device].append((holder, form, self.bytes_on(holder, device, form)))
        return self._on[device]

    def lane(self, name: str) -> Lane:
        """Who has a place in that lane, in the plan."""
        if name not in self._lanes:
            self._lanes[name] = lanes.lane(name, self.s.holders, self.standing, self.placed, self.form_of)
        return self._lanes[name]

    def others(self, want: Want, device: DeviceId, leaving: Leaving) -> list[Share]:
        """Everybody else on a device in the plan, victims in the form they would step aside to."""
        found = []
        for share in self.on(device):
            holder = share[0]
            if holder.id in leaving:
                form = leaving[holder.id]
                share = (holder, form, self.bytes_on(holder, device, form))
            if holder.id != want.holder.id:
                found.append(share)
        return found

    def short_on(self, devices: Devices, want: Want, leaving: Leaving = NOBODY) -> dict[DeviceId, Verdict]:
        """The devices on which the want does not fit beside the others, each with the reason."""
        return {d: no for d in devices if (no := self._short(d, want, leaving))}

    def helps(self, want: Want, victim: Holder, leaving: Leaving, form: FormName, devices: Devices) -> bool:
        """Would its going to `form` change anything for the want on one of these devices?"""
        here = leaving.get(victim.id, self.form_of(victim)[0])
        for device in set(devices) & set(victim.devices):
            now, then = self.bytes_on(victim, device, here), self.bytes_on(victim, device, form)
            if now is None or now > (then or 0) or excludes(want.holder, victim, here):
                return True
        return False

    def _short(self, device_id: DeviceId, want: Want, leaving: Leaving) -> Verdict | None:
        device = self.s.devices[device_id]
        others = self.others(want, device_id, leaving)
        for other, form, _ in others:
            if (no := excludes(want.holder, other, form)) and form != other.bottom:
                return no
        wanted = need(want.holder, want.form)
        if device.total_bytes is None:
            return Verdict(code="unmeasured", facts={"device": device.name, "trouble": device.trouble})
        if wanted is None:  # unknown need: alone, and the exclusions above were passed
            return None
        taken = device.foreign_bytes + sum(bytes_ or 0 for _, _, bytes_ in others)
        alone = all(form != other.top for other, form, _ in others)
        usable = device.total_bytes - taken - reserve_bytes(device, alone, self.s)
        if wanted <= usable:
            return None
        by = max(others, key=lambda share: share[2] or 0, default=None)
        facts = {
            "device": device.name,
            "need_bytes": wanted,
            "usable_bytes": max(0, usable),
            "total_bytes": device.total_bytes,
            "foreign_bytes": device.foreign_bytes,
            "holder": by[0].id if by else None,
            **_outside(device, by[2] or 0 if by else 0),
        }
        return Verdict(code="memory", facts=facts)

    def weaker(self, want: Want, devices: Devices) -> list[Holder]:
        """Holders that stand on those devices and were not settled: all of them rank lower than `want`."""
        return [
            holder
            for hid, holder in self.standing.items()
            if hid not in self.placed and hid != want.holder.id and set(holder.devices) & set(devices)
        ]

    def keep(self, want: Want, devices: Devices) -> None:
        self._place(want.holder, want.form, devices)

    def aside(self, holder: Holder, form: FormName, cause: str) -> None:
        self._place(holder, form, holder.devices)
        self.causes[holder.id] = cause

    def _place(self, holder: Holder, form: FormName, devices: Devices) -> None:
        self.placed[holder.id] = (form, devices)
        self._on.clear()
        self._lanes.clear()


def excludes(holder: Holder, other: Holder, form: FormName) -> Verdict | None:
    """May these two not be on one device whatever its memory? `form` is where the other one is going."""
    if form != other.top:
        return None
    for one, next_to in ((holder, other), (other, holder)):
        if gap_placed(one) and gated(next_to):
            return Verdict(code="beside_model", facts={"service": next_to.id, "job": one.id})
    for one, next_to in ((holder, other), (other, holder)):
        if blocks(one, next_to):
            return Verdict(code="blocked", facts={"holder": one.id})
    for one, next_to in ((holder, other), (other, holder)):
        if isinstance(one, Job) and one.alone:
            return Verdict(code="runs_alone", facts={"holder": next_to.id, "job": one.id})
    for one in (holder, other):
        if need(one, one.top) is None:
            return Verdict(code="needs_alone", facts={"holder": other.id, "unknown": one.id})
    return None


def resolve(spec: Spec, s: Snapshot) -> tuple[DeviceId, ...] | None:
    """Ids of the devices a spec names by name, uuid or index; None while one of them was never seen."""
    found: dict[DeviceId, None] = {}  # two words may name one device
    for word in spec.pinned_devices:
        match = [
            d.id for d in s.devices.values() if word in (d.id, d.name, d.id.split("/", 1)[-1], str(d.index))
        ]
        if not match:
            return None
        found[match[0]] = None
    return tuple(found)


def bound_to(holder: Holder, s: Snapshot) -> Devices:
    """The devices it cannot leave without ending first: its process is there. () when it may go anywhere."""
    stays = holder.form not in (None, holder.bottom) or holder.id in s.pending
    return holder.devices if stays else ()


def placements(want: Want, plan: Plan) -> list[Devices]:
    """Sets of devices it may be put on, tightest fit first. A holder with bytes on a device stays there."""
    holder, s = want.holder, plan.s
    if bound := bound_to(holder, s):
        return [bound] if set(bound) <= set(s.devices) else []
    if holder.spec.pinned_devices:
        pinned = resolve(holder.spec, s)
        if pinned is None:
            return []
        return list(combinations(pinned, holder.spec.count))
    left = {d.id: (_left_over(d, want, plan), d.index, d.id) for d in s.devices.values()}
    order = sorted(left, key=lambda d: left[d])
    return list(combinations(order, holder.spec.count))


def _left_over(device: Device, want: Want, plan: Plan) -> int:
    taken = device.foreign_bytes
    for other, _, bytes_ in plan.on(device.id):
        if other.id != want.holder.id:
            taken += bytes_ or (device.total_bytes or 0)
    wanted = need(want.holder, want.form)
    left = (device.total_bytes or 0) - taken - (wanted or 0)
    if wanted is None:
        return -left  # it is alone there and may take all: the more the better
    return left if left >= 0 else (1 << 60) - left  # where it fits first, then the least short


def _within_reach(holder: Holder, s: Snapshot) -> tuple[list[Device], int] | None:
    """Devices it could have, and how many of them it takes; None while one that it has or names was never seen."""
    bound = bound_to(holder, s)
    ids = bound or resolve(holder.spec, s)
    if ids is None or not set(ids) <= set(s.devices):
        return None
    return [s.devices[d] for d in ids or s.devices], len(bound) or holder.spec.count


def possible(want: Want, s: Snapshot) -> bool:
    """Could it ever fit, with every holder of ours gone? One that cannot reserves nothing and blocks nobody."""
    wanted, found = need(want.holder, want.form) or 0, _within_reach(want.holder, s)
    if found is None:
        return bool(bound_to(want.holder, s))  # it is there, and nobody can say how large that device is
    devices, count = found
    return sum(d.total_bytes is None or wanted <= d.total_bytes for d in devices) >= count


def crowded_out(want: Want, s: Snapshot) -> bool:
    """Is it the memory of strangers that keeps it out, with every holder of ours gone? Nobody of ours can help then."""
    wanted, found = need(want.holder, want.form) or 0, _within_reach(want.holder, s)
    devices, count = found or ([], 0)
    return sum(d.total_bytes is None or wanted <= d.total_bytes - d.foreign_bytes for d in devices) < count


def unmeasured(device: Device, s: Snapshot) -> Verdict | None:
    """Is there a reading of this device that may be trusted at all?"""
    if device.confidence == "declared":
        return None
    facts = {"device": device.name, "trouble": device.trouble}
    if s.meter_trouble:
        return Verdict(code="meter_silent", facts={**facts, "trouble": s.meter_trouble})
    if device.trouble:
        return Verdict(code="device_trouble", facts=facts)
    if device.read_at_s is None or device.free_bytes is None or device.total_bytes is None:
        return Verdict(code="unmeasured", facts=facts)
    if s.now_s - device.read_at_s > s.policy.reading_max_age_s:
        return Verdict(code="reading_stale", facts={**facts, "age_s": s.now_s - device.read_at_s})
    return None


def measured(holder: Holder, form: FormName, devices: Devices, s: Snapshot) -> Verdict | None:
    """May this taking step happen now? Everybody counted in the form he is in, on a reading newer than any change."""
    for device_id in devices:
        device = s.devices.get(device_id)
        if device is None:
            return Verdict(code="unmeasured", facts={"device": device_id, "trouble": None})
        if no := unmeasured(device, s):
            return no
        if device.confidence != "declared" and (device.read_at_s or 0.0) <= device.last_change_s:
            return Verdict(code="reading_too_old", facts={"device": device.name})
        if no := _fits_now(holder, form, device, s):
            return no
    return None


def _fits_now(holder: Holder, form: FormName, device: Device, s: Snapshot) -> Verdict | None:
    wanted = need(holder, form)
    taken, alone, biggest = device.foreign_bytes, True, (0, "")
    for hid in s.present:
        other = s.holders[hid]
        if hid == holder.id or (device.id not in other.devices and not other.seen_bytes.get(device.id)):
            continue
        moving = s.pending.get(hid)
        bytes_, at_top = _present_bytes(other, device, moving)
        taken += bytes_
        alone = alone and not at_top
        biggest = max(biggest, (bytes_, hid))
        lingers = (
            bytes_ > (need(other, other.form) or 0) + TOLERANCE_BYTES
        )  # ended, and its memory is still there
        if (wanted is None and (at_top or lingers)) or (at_top and need(other, other.top) is None):
            return Verdict(code="needs_alone", facts={"holder": hid, "unknown": holder.id})
        if isinstance(holder, Job) and holder.alone and (at_top or lingers):
            return Verdict(code="runs_alone", facts={"holder": hid, "job": holder.id})
        leaving = moving is not None and moving.frees
        if at_top and not leaving and (no := excludes(holder, other, other.top)):
            return no
    if wanted is None or device.total_bytes is None:
        return None
    reserve = reserve_bytes(device, alone, s)
    own = _own_bytes(holder, device)
    usable = device.total_bytes - taken - reserve
    free = None if device.confidence == "declared" else device.free_bytes
    if wanted <= usable and (free is None or wanted - own <= free - reserve):
        return None
    facts = {
        "device": device.name,
        "need_bytes": wanted,
        "usable_bytes": max(0, usable),
        "free_bytes": free,
        "foreign_bytes": device.foreign_bytes,
        "holder": biggest[1] or None,
        "holder_bytes": biggest[0],
        **_outside(device, biggest[0]),
    }
    return Verdict(code="memory_now", facts=facts)


def _outside(device: Device, most_bytes: int) -> dict[str, object]:
    """Facts that name strangers, where they hold more than any one of ours."""
    if device.foreign_bytes <= most_bytes:
        return {}
    return {"outside_bytes": device.foreign_bytes, "pids": tuple(pid for pid, _ in device.strangers)}


def _own_bytes(holder: Holder, device: Device) -> int:
    """What it holds there already. Only while the run that held it lives; one without a run is seen by its bytes."""
    if holder.run is not None and not holder.run.alive:
        return 0
    if device.per_process:
        return holder.seen_bytes.get(device.id, 0)
    return need(holder, holder.form) or 0 if device.id in holder.devices else 0


def _present_bytes(other: Holder, device: Device, pending: Pending | None) -> tuple[int, bool]:
    """(bytes, is it at its top): under a freeing move the form it leaves counts, under a taking one where it goes."""
    seen = other.seen_bytes.get(device.id, 0)
    form = other.form or other.top
    if pending is not None:
        form = (pending.source or other.top) if pending.frees else pending.to
    return max(need(other, form) or 0, seen), form == other.top


def released(pending: Pending, holder: Holder, s: Snapshot) -> dict[str, int] | None:
    """What is still held on each device beyond the residue of the form it went to; {} = verified; None = unread."""
    expected = need(holder, pending.to) or 0
    over: dict[str, int] = {}
    for device_id in pending.devices:
        device = s.devices.get(device_id)
        if device is None:
            continue
        if device.confidence == "declared":
            continue
        if (
            device.trouble
            or device.used_bytes is None
            or (device.read_at_s or 0.0) <= (pending.answered_s or 0.0)
        ):
            return None
        held = _held(pending, holder, device)
        if held > expected + TOLERANCE_BYTES:
            over[device_id] = held
    return over


def _held(pending: Pending, holder: Holder, device: Device) -> int:
    if device.per_process:
        return holder.seen_bytes.get(device.id, 0)
    if holder.run is None or not holder.run.alive:
        return 0  # no process of it lives, and what the device still shows counts as foreign
    before = pending.used_before.get(device.id)
    claimed = need(holder, pending.source) or 0
    if before is None or device.used_bytes is None:
        return claimed
    return max(0, claimed - max(0, before - device.used_bytes))
