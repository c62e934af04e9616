"""The next hours as expected: when what runs is over, when the next in line may begin, and the windows to come. Pure.

Three ways it may go: all is over as soon as it may be and every model steps aside at once; all takes as long as is
expected; all takes as long as it may. What nothing tells of is over at once in the first and never in the two others:
so a start has an earliest time, and what nobody can know has no later one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from math import inf

from headway.core import eta, fit, words
from headway.core.draft import LEASE_LANE
from headway.core.model import DeviceId, FormName, Holder, HolderId, Job, Lease, Service, Snapshot, Verdict
from headway.core.rules import find_job, job_places

MOST = 10  # of the line: beyond that a guess stands on ten others
SHORTEST_S = 1.0  # what may be over at once takes its place all the same
# What time alone does not end: somebody has to say or change something first.
STUCK = frozenset(
    {"shadow", "held", "queue_held", "prod_only", "never_fits", "no_device", "after_gone", "after_failed"}
)
WINDOWED = frozenset({"outside_window", "no_way_aside"})  # nor these, while no window is known to come
Three = tuple[float, float, float]  # earliest, expected, latest; seconds from now, inf: nobody knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """When one is there. Seconds from now, negative: it began before; None: nobody knows."""

    id: str
    kind: str  # job, lease, or window
    name: str
    state: str
    devices: tuple[str, ...]  # empty: where it will be is not known
    begins_s: float | None  # expected
    begins_low_s: float | None  # at the earliest; None: not by time alone, see `code`
    begins_high_s: float | None
    ends_s: float | None
    ends_low_s: float | None
    ends_high_s: float | None
    code: str | None  # of the line: what it waits for


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Those that are there, the first of the line in its order, then the windows. `more`: of the line, left out."""

    spans: tuple[Span, ...]
    more: int


@dataclass(frozen=True, slots=True)
class _Stay:
    holder: Holder
    form: FormName
    devices: tuple[DeviceId, ...]
    begin_s: float
    end_s: float


def timeline(s: Snapshot, verdicts: Mapping[HolderId, Verdict]) -> Timeline:
    """Of all devices together."""
    known = eta.lengths(s)
    there = [h for hid in s.present if (h := s.holders[hid]).form != h.bottom and not _comes_back(h)]
    back = [h for hid in s.present if _comes_back(h := s.holders[hid])]
    line = [*back, *islice(_line(s), MOST)]
    left = {h.id: _left(h, s, known) for h in chain(there, line)}
    ways = [_play(there, line, left, way, s, verdicts) for way in range(3)]
    waiting = sum(len(lane) for word, lane in s.queue.items() if word != "held")
    spans = [_there(h, left[h.id], s) for h in there if not isinstance(h, Service)]
    spans += [_ahead(h, [way[h.id] for way in ways], s, verdicts) for h in line]
    return Timeline(spans=(*spans, *_windows(s)), more=max(0, waiting - MOST))


def _comes_back(holder: Holder) -> bool:
    """It was put aside with all it did, and goes on when there is room."""
    aside = holder.form not in (holder.top, holder.bottom)
    return isinstance(holder, Job) and holder.ended is None and holder.wish == "run" and aside


def _line(s: Snapshot) -> Iterator[Holder]:
    present = set(s.present)
    for lane in (LEASE_LANE, *sorted(set(s.queue) - {LEASE_LANE, "held"})):
        yield from (s.holders[hid] for _, hid in s.queue.get(lane, ()) if hid not in present)


def _left(holder: Holder, s: Snapshot, known: Mapping[str, tuple[float, ...]]) -> Three:
    """How long it is there, from its start or from now on."""
    if isinstance(holder, Job):
        found = eta.over_in(holder, s, known)
        return (0.0, inf, inf) if found is None else (found.low_s, found.s, found.high_s)
    if isinstance(holder, Lease):  # it may be given back sooner, and nobody ends it when its time is over
        over_s = holder.ttl_s if holder.expires_s is None else max(0.0, holder.expires_s - s.now_s)
        return 0.0, inf if over_s is None else over_s, inf
    return 0.0, inf, inf  # a model: whoever asks for it keeps it there


# ---------------------------------------------------------------- one way it may go


def _play(
    there: list[Holder],
    line: list[Holder],
    left: Mapping[HolderId, Three],
    way: int,
    s: Snapshot,
    verdicts: Mapping[HolderId, Verdict],
) -> dict[HolderId, tuple[float, float, tuple[DeviceId, ...]]]:
    """Begin, end and devices of each of the line: each where it fits first beside all before it."""
    stays = [_Stay(h, h.form or h.top, h.devices, 0.0, left[h.id][way]) for h in there]
    found: dict[HolderId, tuple[float, float, tuple[DeviceId, ...]]] = {}
    for holder in line:
        takes_s = max(SHORTEST_S, left[holder.id][way])
        floor_s = _floor_s(holder, stays, s, verdicts.get(holder.id))
        begin_s, devices = (inf, ()) if floor_s == inf else _first(holder, floor_s, takes_s, stays, s)
        found[holder.id] = (begin_s, begin_s + takes_s, devices)
        if begin_s < inf:
            stays.append(_Stay(holder, holder.top, devices, begin_s, begin_s + takes_s))
    return found


def _floor_s(holder: Holder, stays: list[_Stay], s: Snapshot, verdict: Verdict | None) -> float:
    """Not before its time has come, and those are over that it follows."""
    if verdict is not None and stuck(verdict):
        return inf
    floor_s = 0.0 if verdict is None or verdict.until_s is None else max(0.0, verdict.until_s - s.now_s)
    if isinstance(holder, Job) and holder.started_s is None:
        for word in (*holder.spec.after, *holder.spec.after_ok):
            other = find_job(word, s, holder)
            if other is not None and other.ended is None:
                ends = [stay.end_s for stay in stays if stay.holder.id == other.id]
                floor_s = max(floor_s, *ends) if ends else inf
    return floor_s


def stuck(verdict: Verdict) -> bool:
    """As things are it cannot start, whoever goes."""
    return verdict.code in STUCK or (verdict.code in WINDOWED and verdict.until_s is None)


def _first(
    holder: Holder, floor_s: float, takes_s: float, stays: list[_Stay], s: Snapshot
) -> tuple[float, tuple[DeviceId, ...]]:
    """When and where there is room for all of its time; inf: as far as is known, never."""
    bound = fit.bound_to(holder, s) or (
        fit.resolve(holder.spec, s) if holder.spec.pinned_devices else tuple(s.devices)
    )
    count = len(fit.bound_to(holder, s)) or holder.spec.count
    for begin_s in sorted({floor_s, *(stay.end_s for stay in stays if floor_s < stay.end_s < inf)}):
        beside = [
            x
            for x in stays
            if x.begin_s < begin_s + takes_s and x.end_s > begin_s and x.holder.id != holder.id
        ]
        if _place_taken(holder, beside, s):
            continue
        free = [d for d in bound or () if _fits(holder, d, [x for x in beside if d in x.devices], s)]
        if len(free) >= count:
            return begin_s, tuple(free[:count])
    return inf, ()


def _place_taken(holder: Holder, beside: list[_Stay], s: Snapshot) -> bool:
    if not isinstance(holder, Job):
        return False
    same = [
        x
        for x in beside
        if isinstance(x.holder, Job) and x.holder.lane == holder.lane and x.form == x.holder.top
    ]
    return len(same) >= job_places(holder.lane, s)


def _fits(holder: Holder, device: DeviceId, beside: list[_Stay], s: Snapshot) -> bool:
    if any(fit.excludes(holder, x.holder, x.form) for x in beside):
        return False
    one, needs = s.devices[device], fit.need(holder, holder.top)
    if one.total_bytes is None or needs is None:
        return not beside
    usable = one.total_bytes - one.foreign_bytes - fit.reserve_bytes(one, not beside, s)
    return needs + sum(fit.need(x.holder, x.form) or 0 for x in beside) <= usable


# ---------------------------------------------------------------- as people see it


def _there(holder: Holder, left: Three, s: Snapshot) -> Span:
    since_s = holder.since_s - s.now_s
    begins = {"begins_s": since_s, "begins_low_s": since_s, "begins_high_s": since_s}
    return _span(holder, holder.devices, s, code=None, **begins, **_named("ends", left))


def _ahead(
    holder: Holder,
    ways: list[tuple[float, float, tuple[DeviceId, ...]]],
    s: Snapshot,
    verdicts: Mapping[HolderId, Verdict],
) -> Span:
    begins: Three = (ways[0][0], ways[1][0], ways[2][0])
    ends: Three = (ways[0][1], ways[1][1], ways[2][1])
    places = {way[2] for way in ways if way[2]}
    verdict = verdicts.get(holder.id)
    return _span(
        holder,
        places.pop() if len(places) == 1 else (),
        s,
        code=verdict.code if verdict else "behind",
        **_named("begins", begins),
        **_named("ends", ends),
    )


def _named(word: str, three: Three) -> dict[str, float | None]:
    """A room that one leaves sooner may go to another, so the three are put in order."""
    low_s, middle_s, high_s = min(three), three[1], max(three)
    values = {f"{word}_s": middle_s, f"{word}_low_s": low_s, f"{word}_high_s": high_s}
    return {name: None if value == inf else value for name, value in values.items()}


def _span(
    holder: Holder, devices: tuple[DeviceId, ...], s: Snapshot, code: str | None, **times: float | None
) -> Span:
    return Span(
        id=holder.id,
        kind=holder.kind,
        name=holder.spec.name,
        state=words.state(holder, s),
        devices=tuple(words.label(device, s) for device in devices),
        code=code,
        **times,
    )


def _windows(s: Snapshot) -> Iterator[Span]:
    for one in sorted(s.windows, key=lambda one: (one.begin_s, one.id)):
        if one.stopped_by is not None or one.end_s <= s.now_s:
            continue
        begin_s, end_s = one.begin_s - s.now_s, one.end_s - s.now_s
        yield Span(
            id=one.id,
            kind="window",
            name=one.kind,
            state="open" if begin_s <= 0 else "next",
            devices=(),
            begins_s=begin_s,
            begins_low_s=begin_s,
            begins_high_s=begin_s,
            ends_s=end_s,
            ends_low_s=end_s,
            ends_high_s=end_s,
            code=None,
        )
