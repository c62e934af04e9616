"""The working copy of one turn: records go in and out whole, and the indexes follow by themselves."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.core.model import (
    Device,
    DeviceId,
    Event,
    Holder,
    HolderId,
    Job,
    Lease,
    Pending,
    Service,
    Snapshot,
)
from headway.core.renewing import renewed

LEASE_LANE = "lease"  # the line of leases that wait for their grant


def is_present(holder: Holder, moving: bool) -> bool:
    """Is it on its devices in any way: not at the bottom of its ladder, on the move, or holding bytes?"""
    if (
        isinstance(holder, Job)
        and holder.ended is not None
        and not moving
        and not any(holder.seen_bytes.values())
    ):
        return False
    return moving or holder.form != holder.bottom or any(holder.seen_bytes.values())


def lane_of(holder: Holder, moving: bool) -> str | None:
    """The lane of the queue it waits in; None when it does not wait."""
    if (
        not isinstance(holder, Job | Lease)
        or holder.ended is not None
        or moving
        or holder.form != holder.bottom
    ):
        return None
    if isinstance(holder, Lease):
        return LEASE_LANE
    return holder.lane if holder.wish == "run" else "held"


def words_of(holder: Holder | None) -> set[str]:
    """By which words others may follow it."""
    return {holder.spec.name, holder.recipe or holder.spec.name} if isinstance(holder, Job) else set()


def follows(holder: Holder) -> bool:
    """Does it name another job, and has it not begun yet?"""
    if not isinstance(holder, Job) or holder.ended is not None or holder.started_s is not None:
        return False
    return bool(holder.spec.after or holder.spec.after_ok)


class Draft:
    """Mutable for the length of one turn; `done` gives the next Snapshot."""

    def __init__(self, s: Snapshot, now_s: float) -> None:
        self.base, self.now_s = s, now_s
        self.holders: dict[HolderId, Holder] = dict(s.holders)
        self.pending: dict[HolderId, Pending] = dict(s.pending)
        self.devices: dict[DeviceId, Device] = dict(s.devices)
        self.present: set[HolderId] = set(s.present)
        self.services: set[HolderId] = set(s.services)
        self.leases: set[HolderId] = set(s.leases)
        self.followers: set[HolderId] = set(s.followers)
        self._named: dict[str, tuple[HolderId, ...]] | None = None  # a copy, made for its first change
        self.before: dict[HolderId, Holder | None] = {}  # what changed since `mark`, as it was then
        self.lanes: dict[str, list[tuple[float, HolderId]]] = {}
        self.changed: set[HolderId] = set()  # for viewers
        self.saved: set[HolderId] = set()  # rows to write
        self.intents: set[HolderId] = set()  # intents to write or remove
        self.gone: set[HolderId] = set()
        self.events: list[Event] = []
        self.other: dict[str, Any] = {}  # plain fields of the snapshot that changed
        self._view: Snapshot | None = None  # while it is as true as when it was made

    def view(self) -> Snapshot:
        """A snapshot of this moment, for rules that look at everything."""
        if self._view is None:
            self._view = self._snapshot()
        return self._view

    def mark(self) -> None:
        """From now on `before` notes what changes."""
        self.before = {}

    def put(self, holder: Holder, save: bool = True) -> None:
        before = self.holders.get(holder.id)
        if holder.form == holder.bottom and holder.id not in self.pending:
            holder = renewed(holder)
        if before == holder:
            return
        self.before.setdefault(holder.id, before)
        self.holders[holder.id] = holder
        self._rename(holder.id, before, holder)
        self._reindex(holder.id, before, holder.id in self.pending)
        self.changed.add(holder.id)
        if save:
            self.saved.add(holder.id)

    def drop(self, hid: HolderId) -> None:
        before = self.holders.pop(hid)
        self.before.setdefault(hid, before)
        self._rename(hid, before, None)
        self._leave_lane(before, hid in self.pending)
        self._view = None
        self.present.discard(hid)
        self.services.discard(hid)
        self.leases.discard(hid)
        self.followers.discard(hid)
        self.changed.add(hid)
        self.gone.add(hid)

    def move(self, pending: Pending) -> None:
        """Begin or change a move."""
        was = pending.holder in self.pending
        self.pending[pending.holder] = pending
        self.intents.add(pending.holder)
        self._reindex(pending.holder, self.holders[pending.holder], was)
        self.changed.add(pending.holder)

    def end_move(self, hid: HolderId) -> None:
        if self.pending.pop(hid, None) is not None:
            self.intents.add(hid)
            self._reindex(hid, self.holders[hid], True)
            self.changed.add(hid)
            self.put(self.holders[hid])  # at the bottom it takes what the config says now

    def event(self, code: str, holder: HolderId | None, **facts: Any) -> None:
        self.events.append(Event(code=code, holder=holder, at_s=self.now_s, facts=facts))

    def set(self, **fields: Any) -> None:
        self.other |= fields
        self._view = None

    def touch(self, devices: tuple[DeviceId, ...], at_s: float | None = None) -> None:
        """Something changed on these devices: only a later reading says what is free."""
        for device_id in devices:
            if device := self.devices.get(device_id):
                last = max(device.last_change_s, self.now_s if at_s is None else at_s)
                self.devices[device_id] = replace(device, last_change_s=last)

    def done(self) -> Snapshot:
        return self.view()

    def _snapshot(self) -> Snapshot:
        queue: Mapping[str, tuple[tuple[float, HolderId], ...]] = {
            **self.base.queue,
            **{lane: tuple(entries) for lane, entries in self.lanes.items()},
        }
        return replace(
            self.base,
            now_s=self.now_s,
            rev=self.base.rev + 1,
            devices=self.devices,
            holders=self.holders,
            pending=self.pending,
            queue=queue,
            present=tuple(sorted(self.present)),
            services=tuple(sorted(self.services)),
            leases=tuple(sorted(self.leases)),
            named=self.base.named if self._named is None else self._named,
            followers=frozenset(self.followers),
            **self.other,
        )

    def lane(self, name: str) -> list[tuple[float, HolderId]]:
        if name not in self.lanes:
            self.lanes[name] = list(self.base.queue.get(name, ()))
        return self.lanes[name]

    def _leave_lane(self, before: Holder, moving: bool) -> None:
        if (name := lane_of(before, moving)) and isinstance(before, Job | Lease):
            entries, entry = self.lane(name), (before.key, before.id)
            at = bisect_left(entries, entry)
            if at < len(entries) and entries[at] == entry:
                del entries[at]

    def _reindex(self, hid: HolderId, before: Holder | None, was_moving: bool) -> None:
        holder, moving = self.holders[hid], hid in self.pending
        self._view = None
        if before is not None:
            self._leave_lane(before, was_moving)
        if (name := lane_of(holder, moving)) and isinstance(holder, Job | Lease):
            insort(self.lane(name), (holder.key, hid))
        if is_present(holder, moving):
            self.present.add(hid)
        else:
            self.present.discard(hid)
        if isinstance(holder, Service):
            self.services.add(hid)
        elif isinstance(holder, Lease):
            self.leases.add(hid)
        elif follows(holder):
            self.followers.add(hid)
        else:
            self.followers.discard(hid)

    def _rename(self, hid: HolderId, before: Holder | None, after: Holder | None) -> None:
        was, now = words_of(before), words_of(after)
        if was == now:
            return
        if self._named is None:
            self._named = dict(self.base.named)
        for word in was - now:
            self._named[word] = tuple(other for other in self._named[word] if other != hid)
            if not self._named[word]:
                del self._named[word]
        for word in now - was:
            self._named[word] = (*self._named.get(word, ()), hid)
