"""Memory over time: what one look at the devices shows, and how looks become rows of 1, 10, 60 and 600 seconds.

A row holds sums over the looks in it. So rows become coarser, and what comes later to a row is put to it, by adding.
Moments are whole seconds since the epoch, and a row begins at a multiple of its step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import NamedTuple

from headway.core.model import Device, DeviceId, Holder, HolderId, Service, Snapshot

DAY_S = 86_400
STEPS: Mapping[int, int | None] = {
    1: DAY_S,
    10: 3 * DAY_S,
    60: 30 * DAY_S,
    600: None,
}  # how long rows are kept
BUCKETS_MAX = 300
WIDTHS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 2400, 3600, 7200, 10_800, 21_600, 43_200)
DEVICE, FOREIGN = "device", "foreign"  # kinds of series beside those of holders


class Series(NamedTuple):  # a tuple is hashed in no time, and each look hashes several
    """Whose memory, on which device. `holder` is empty for the device itself, and for what is not ours."""

    device: DeviceId
    kind: str
    holder: HolderId = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """The looks from `at_s` to `at_s + step_s` at one series.

    Attributes:
        looks: those that found it, holding memory or answering; of a device: those that could read it.
        bytes: summed over these looks. `peak_bytes`: the most of one.
        busy: looks at which it had a request in flight.
    """

    series: Series
    name: str
    step_s: int
    at_s: int
    looks: int
    bytes: int
    peak_bytes: int
    busy: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What is asked for: buckets of `width_s` from `from_s` to before `to_s`, made of rows of `step_s`."""

    from_s: int
    to_s: int
    width_s: int
    step_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHolder:
    """Somebody who held memory of a device, or answered from it, in a span of time."""

    id: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBucket:
    """A part of that span, from `at_s` on (since the epoch): means over `looks`, the seconds at which the device could
    be read. `peak_bytes` is the most in use at one of them, by all together; `foreign_bytes` is what is not ours;
    `bytes` is by holder, and who is not there held nothing; `busy` is by model server: the share of `looks` with a
    request in flight.
    """

    at_s: int
    looks: int
    used_bytes: int
    peak_bytes: int
    foreign_bytes: int
    bytes: Mapping[str, int]
    busy: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOverTime:
    """One device over a span. A bucket that is missing is time in which nobody could read it."""

    device: str
    name: str
    total_bytes: int | None
    from_s: int
    to_s: int
    step_s: int  # from one bucket to the next
    holders: tuple[MemoryHolder, ...]  # who held most comes first
    buckets: tuple[MemoryBucket, ...]


def looked(s: Snapshot, at_s: int) -> Iterator[Rollup]:
    """What the devices are used for now. One that cannot be read now is left out: unknown is not zero."""
    there = [s.holders[hid] for hid in s.present]
    for device in s.devices.values():
        held = {holder.id: _held(holder, device) for holder in there}
        used_bytes = _used(device, sum(held.values()), s)
        if used_bytes is None:
            continue
        yield _one(Series(device.id, DEVICE), device.name, at_s, used_bytes)
        if device.foreign_bytes:
            yield _one(Series(device.id, FOREIGN), FOREIGN, at_s, device.foreign_bytes)
        for holder in there:
            busy = isinstance(holder, Service) and device.id in holder.devices and bool(holder.active)
            if held[holder.id] or busy:
                series = Series(device.id, holder.kind, holder.id)
                yield _one(series, holder.spec.name, at_s, held[holder.id], busy)


def _used(device: Device, held_bytes: int, s: Snapshot) -> int | None:
    if device.confidence == "declared":
        return held_bytes
    fresh = device.read_at_s is not None and s.now_s - device.read_at_s <= s.policy.reading_max_age_s
    return device.used_bytes if fresh else None


def _held(holder: Holder, device: Device) -> int:
    """Measured, or where only totals are, what it needs in its form."""
    if device.id in holder.seen_bytes or device.per_process:
        return holder.seen_bytes.get(device.id, 0)
    return (holder.need_bytes(holder.form or holder.top) or 0) if device.id in holder.devices else 0


def _one(series: Series, name: str, at_s: int, bytes_: int, busy: bool = False) -> Rollup:
    return Rollup(
        series=series,
        name=name,
        step_s=1,
        at_s=at_s,
        looks=1,
        bytes=bytes_,
        peak_bytes=bytes_,
        busy=int(busy),
    )


def added(one: Rollup, more: Rollup) -> Rollup:
    """Two parts of the same row as one."""
    return replace(
        one,
        name=more.name,
        looks=one.looks + more.looks,
        bytes=one.bytes + more.bytes,
        peak_bytes=max(one.peak_bytes, more.peak_bytes),
        busy=one.busy + more.busy,
    )


def coarser(rows: Iterable[Rollup], step_s: int) -> list[Rollup]:
    """The same in rows of `step_s`, a multiple of theirs."""
    parts: dict[tuple[Series, int], list[Rollup]] = {}
    for row in rows:
        parts.setdefault((row.series, row.at_s - row.at_s % step_s), []).append(row)
    return [
        Rollup(
            series=series,
            name=of[-1].name,
            step_s=step_s,
            at_s=at_s,
            looks=sum(row.looks for row in of),
            bytes=sum(row.bytes for row in of),
            peak_bytes=max(row.peak_bytes for row in of),
            busy=sum(row.busy for row in of),
        )
        for (series, at_s), of in parts.items()
    ]


def rolled(looks: Iterable[Rollup]) -> tuple[Rollup, ...]:
    """Looks as rows of every step."""
    rows, found = list(looks), list[Rollup]()
    for step_s in STEPS:
        rows = coarser(rows, step_s)
        found += rows
    return tuple(found)


def span(from_s: float, to_s: float, wall_s: float) -> Span:
    """The finest buckets that are few enough and of which there still are rows. `to_s` is after `from_s`."""
    for width_s in chain(WIDTHS_S, (DAY_S * days for days in count(1))):
        first, last = int(from_s // width_s), -int(-to_s // width_s)
        step_s = max(one for one in STEPS if width_s % one == 0)
        kept_s = STEPS[step_s]
        if last - first <= BUCKETS_MAX and (kept_s is None or from_s >= wall_s - kept_s):
            return Span(from_s=first * width_s, to_s=last * width_s, width_s=width_s, step_s=step_s)
    raise AssertionError("some number of days is wide enough")


def over_time(device: Device, asked: Span, rows: Iterable[Rollup]) -> MemoryOverTime:
    """What people see of rows of that width, of that device, in any order."""
    at: dict[int, dict[Series, Rollup]] = {}
    whole: dict[Series, Rollup] = {}
    for row in rows:
        at.setdefault(row.at_s, {})[row.series] = row
        whole[row.series] = added(whole[row.series], row) if row.series in whole else row
    ours = sorted(
        (one for one in whole.values() if one.series.holder), key=lambda one: (-one.bytes, one.series)
    )
    return MemoryOverTime(
        device=device.id,
        name=device.name,
        total_bytes=device.total_bytes,
        from_s=asked.from_s,
        to_s=asked.to_s,
        step_s=asked.width_s,
        holders=tuple(
            MemoryHolder(id=one.series.holder, kind=one.series.kind, name=one.name) for one in ours
        ),
        buckets=tuple(
            _bucket(found[itself], found)
            for _, found in sorted(at.items())
            if (itself := Series(device.id, DEVICE)) in found
        ),
    )


def _bucket(itself: Rollup, found: Mapping[Series, Rollup]) -> MemoryBucket:
    ours = sorted((row for series, row in found.items() if series.holder), key=lambda row: row.series)
    foreign = found.get(Series(itself.series.device, FOREIGN))
    return MemoryBucket(
        at_s=itself.at_s,
        looks=itself.looks,
        used_bytes=round(itself.bytes / itself.looks),
        peak_bytes=itself.peak_bytes,
        foreign_bytes=round(foreign.bytes / itself.looks) if foreign else 0,
        bytes={row.series.holder: round(row.bytes / itself.looks) for row in ours if row.bytes},
        busy={row.series.holder: round(row.busy / itself.looks, 4) for row in ours if row.busy},
    )
