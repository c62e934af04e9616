"""What must stay free of the machine's main memory, and of the disk that Headway writes to, for anything new to start.

Neither is handed out here, so what is not known of it keeps nobody from starting. Models are woken and started all the
same: people wait for them. So does a parked job go on, which gives main memory back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headway.core.draft import Draft
from headway.core.facts import HostRead
from headway.core.model import GIB, HostRoom, Job, Lease, Policy, Snapshot, Verdict, Want

MEMORY_MAX_BYTES, MEMORY_SHARE = 8 * GIB, 0.10
DISK_MAX_BYTES, DISK_SHARE = 10 * GIB, 0.05
STEP_BYTES = GIB // 4  # a smaller change of what is free is no news


@dataclass(frozen=True, slots=True)
class Low:
    """Less is free than there has to be."""

    what: str  # memory or disk
    free_bytes: int
    floor_bytes: int


def low(room: HostRoom, policy: Policy) -> Iterator[Low]:
    """What is below its floor."""
    for what, free, floor in (
        ("memory", room.memory_free_bytes, memory_floor(room.memory_total_bytes, policy)),
        ("disk", room.disk_free_bytes, disk_floor(room.disk_total_bytes, policy)),
    ):
        if free is not None and floor is not None and free < floor:
            yield Low(what, free, floor)


def memory_floor(total_bytes: int | None, policy: Policy) -> int | None:
    """What has to stay free of so much main memory; None: nobody can say."""
    if policy.host_floor_bytes is not None or total_bytes is None:
        return policy.host_floor_bytes
    return min(MEMORY_MAX_BYTES, int(total_bytes * MEMORY_SHARE))


def disk_floor(total_bytes: int | None, policy: Policy) -> int | None:
    """The same of a disk."""
    if policy.disk_floor_bytes is not None or total_bytes is None:
        return policy.disk_floor_bytes
    return min(DISK_MAX_BYTES, int(total_bytes * DISK_SHARE))


def below(want: Want, s: Snapshot) -> Verdict | None:
    """A job or a lease that would begin while too little is free."""
    holder = want.holder
    if not isinstance(holder, Job | Lease) or holder.form != holder.bottom:
        return None
    for one in low(s.host, s.policy):
        facts = {"free_bytes": one.free_bytes, "floor_bytes": one.floor_bytes}
        return Verdict(code="host_floor" if one.what == "memory" else "disk_floor", facts=facts)
    return None


def is_news(now: HostRoom, known: HostRoom, policy: Policy) -> bool:
    """Is it worth a turn?"""
    pairs = (
        (now.memory_free_bytes, known.memory_free_bytes),
        (now.disk_free_bytes, known.disk_free_bytes),
    )
    for a, b in pairs:
        if a is None or b is None:
            if a is not b:
                return True
        elif abs(a - b) >= STEP_BYTES:
            return True
    if {one.what for one in low(now, policy)} != {one.what for one in low(known, policy)}:
        return True
    before = {where: disk.free_bytes // STEP_BYTES for where, disk in known.disks.items()}
    return before != {where: disk.free_bytes // STEP_BYTES for where, disk in now.disks.items()}


def read(d: Draft, fact: HostRead) -> None:
    """How much is free by now; that it is too little is told, and that it is enough again."""
    known: HostRoom = d.other.get("host", d.base.host)
    before = {one.what for one in low(known, d.base.policy)}
    now = {one.what: one for one in low(fact.room, d.base.policy)}
    d.set(host=fact.room)
    for what in ("memory", "disk"):
        if what in now and what not in before:
            one = now[what]
            d.event(f"{what}.low", None, free_bytes=one.free_bytes, floor_bytes=one.floor_bytes)
        elif what in before and what not in now:
            d.event(f"{what}.enough", None)
