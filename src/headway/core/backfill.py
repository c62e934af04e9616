"""Places that are kept: for a request, and for the head of a line that has waited long enough. And who may pass it.

A head that only waits for room has the devices kept on which it is expected to start first. Whoever comes after it may
use them meanwhile where it is expected to be over by then. What is not known is not before anything.
"""

from __future__ import annotations

from math import inf

from headway.core import eta, fit, host_fit, windows
from headway.core.fit import Devices, Plan
from headway.core.lanes import Head
from headway.core.lifecycle import is_active
from headway.core.model import FormName, Holder, HolderId, Job, Lease, Service, Snapshot, Verdict, Want
from headway.core.push import PUSH, lasting
from headway.core.rules import job_places


def reserve(want: Want, plan: Plan, s: Snapshot) -> None:
    """Keep a place for it against weaker ones that would only fill the room it waits for; if it can come to it.

    The place: where it is expected to start first; of those where that is not known, the one it fits best.
    """
    best: tuple[float, Devices] | None = None
    for devices in fit.placements(want, plan):
        if any(plan.reserved.get(device, want.holder.id) != want.holder.id for device in devices):
            continue  # it cannot count on what is kept for another
        starts_s = starts_on(devices, want, plan, s)
        if starts_s is not None and (best is None or starts_s < best[0]):
            best = (starts_s, devices)
            if want.attended:  # it goes as soon as it can, whatever is expected
                break
    if best is None:
        return
    starts_s, devices = best
    for device in devices:
        plan.reserved[device] = want.holder.id
    if isinstance(want.holder, Job | Lease):
        plan.heads[want.holder.id] = Head(
            id=want.holder.id, devices=devices, waited_s=want.waited_s, starts_s=starts_s
        )


def starts_on(devices: Devices, want: Want, plan: Plan, s: Snapshot) -> float | None:
    """When it is expected to find room on all of these; inf: not known. None: nobody there will ever go for it."""
    others = [s.holders[hid] for hid in {*plan.placed, *plan.standing} if hid != want.holder.id]
    going = {other.id: form for other in others if (form := _in_time(other, want, plan, s))}
    if plan.short_on(devices, want, going) or windows.barred(want.holder, devices, s):
        return None
    if not plan.short_on(devices, want):
        return inf  # there is room: it waits for something else, such as a reading
    there = [other for other in others if other.id in going and set(plan.form_of(other)[1]) & set(devices)]
    left: dict[HolderId, FormName] = {}
    for when_s, hid in sorted((_goes_s(other, want, plan, s), other.id) for other in there):
        left[hid] = going[hid]
        if not plan.short_on(devices, want, left):
            return when_s
    return inf


def _in_time(other: Holder, want: Want, plan: Plan, s: Snapshot) -> FormName | None:
    """Where time alone may bring it: all work ends some day, a model can be put aside to the last form it can reach."""
    settled = isinstance(other, Service) and other.id in plan.placed
    if settled or any(rule(want, other, plan, s) for rule in lasting(other)):
        return None
    forms = host_fit.step_forms(other, plan.form_of(other)[0], s) if isinstance(other, Service) else ()
    return (forms or (other.bottom,))[-1]


def _goes_s(other: Holder, want: Want, plan: Plan, s: Snapshot) -> float:
    """When it is expected to be gone: its own end, or when it may be pushed aside; inf: not known."""
    ends_s = inf
    if isinstance(other, Job) and (left := eta.over_in(other, s, plan.lengths())):
        ends_s = s.now_s + left.s
    elif isinstance(other, Lease) and other.expires_s is not None:
        ends_s = max(s.now_s, other.expires_s)
    if other.id in plan.placed:
        return ends_s
    no = next((verdict for rule in PUSH if (verdict := rule(want, other, plan, s))), None)
    pushed_s = s.now_s if no is None else inf if no.until_s is None else no.until_s
    return min(ends_s, pushed_s)


# ---------------------------------------------------------------- who may pass


def kept(want: Want, devices: Devices, plan: Plan, s: Snapshot) -> Verdict | None:
    """Is one of these devices kept for another, and may this want not use it until that one starts?"""
    for device in devices:
        hid = plan.reserved.get(device, want.holder.id)
        if hid != want.holder.id and (no := _passes(want, hid, plan, s)):
            return no
    return None


def place_kept(want: Want, plan: Plan, s: Snapshot) -> Verdict | None:
    """Would it take the last place of its lane from a head? Jobs on the devices of a head are gone when it starts."""
    job = want.holder
    heads = [
        head
        for head in plan.heads.values()
        if isinstance(one := s.holders[head.id], Job) and isinstance(job, Job) and one.lane == job.lane
    ]
    if not heads or not isinstance(job, Job):
        return None
    devices, taken = {device for head in heads for device in head.devices}, len(heads)
    for hid in {*plan.placed, *plan.standing}:
        other = s.holders[hid]
        form, at = plan.form_of(other)
        active = form == other.top or (hid not in plan.placed and isinstance(other, Job) and is_active(other))
        if isinstance(other, Job) and other.lane == job.lane and active and hid != job.id:
            taken += not set(at) & devices
    if taken < job_places(job.lane, s):
        return None
    return next((no for head in heads if (no := _passes(want, head.id, plan, s))), None)


def _passes(want: Want, hid: HolderId, plan: Plan, s: Snapshot) -> Verdict | None:
    """None where it is a job that will be over before that one starts, as far as both is known."""
    head = plan.heads.get(hid)
    if head is None:
        return Verdict(code="reserved", facts={"for": hid})
    starts_in_s = None if head.starts_s == inf else max(0.0, head.starts_s - s.now_s)
    takes_s = None
    if starts_in_s is not None and isinstance(want.holder, Job):
        left = eta.over_in(want.holder, s, plan.lengths())
        takes_s = None if left is None else left.high_s
        if takes_s is not None and takes_s <= starts_in_s:
            return None
    facts = {"for": hid, "waited_s": head.waited_s, "starts_in_s": starts_in_s, "takes_s": takes_s}
    return Verdict(code="kept", facts={key: value for key, value in facts.items() if value is not None})
