"""How much longer jobs take: from their own progress, else from how long the same recipe took before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headway.core import budgets
from headway.core.model import Job, Snapshot
from headway.core.worked import ran_s

MARKS = 12
LEAST_PROGRESS = 0.01  # between two marks: what is closer says little about the pace
RUNS = 20  # ended runs of a recipe that are looked at, the newest


@dataclass(frozen=True, slots=True)
class Left:
    """Seconds of running time that are left, and between which values that lies."""

    s: float
    low_s: float
    high_s: float


def marked(job: Job, progress: float, now_s: float) -> tuple[tuple[float, float], ...]:
    """Its marks with one more. One that began anew, from before its last mark, forgets what lies ahead of it."""
    ran = ran_s(job, now_s)
    marks = tuple(mark for mark in job.marks if mark[1] <= progress)
    if marks and progress - marks[-1][1] < LEAST_PROGRESS:
        return marks
    if len(marks) >= MARKS:
        marks = (marks[0], *marks[2:])  # the first stays: the whole way says most
    return (*marks, (ran, progress))


def of_progress(job: Job, ran: float) -> Left | None:
    """By its pace over all its marks; the interval is its slowest and fastest stretch between two of them.

    >>> from headway.core.model import JobSpec
    >>> spec = JobSpec(name="a", kind="job", driver="restart", forms=(), moves=())
    >>> job = Job(id="j1", spec=spec, progress=0.5, marks=((0.0, 0.0), (40.0, 0.25), (100.0, 0.5)))
    >>> of_progress(job, 100.0)
    Left(s=100.0, low_s=80.0, high_s=120.0)
    """
    if job.progress is None or len(job.marks) < 2:
        return None
    (first_s, first), (last_s, last) = job.marks[0], job.marks[-1]
    if last <= first or last_s <= first_s:
        return None
    paces = [
        (b_s - a_s) / (b - a)
        for (a_s, a), (b_s, b) in zip(job.marks, job.marks[1:], strict=False)
        if b > a and b_s > a_s
    ]
    mean, since_s = (last_s - first_s) / (last - first), max(0.0, ran - last_s)
    ahead = 1.0 - last
    return Left(*(max(0.0, pace * ahead - since_s) for pace in (mean, min(paces), max(paces))))


def lengths(s: Snapshot) -> Mapping[str, tuple[float, ...]]:
    """Running times of what ended well, by recipe or name, the newest first."""
    over = [h for h in s.holders.values() if isinstance(h, Job) and h.ended == "done"]
    found: dict[str, list[float]] = {}
    for job in sorted(over, key=lambda job: (-(job.ended_s or 0.0), job.id)):
        known = found.setdefault(job.recipe or job.spec.name, [])
        if len(known) < RUNS:
            known.append(job.ran_s)
    return {name: tuple(times) for name, times in found.items()}


def left(job: Job, s: Snapshot, known: Mapping[str, tuple[float, ...]]) -> Left | None:
    """What is left of one job; None where nothing says how long it takes."""
    if job.ended is not None:
        return None
    ran = ran_s(job, s.now_s)
    if (found := of_progress(job, ran)) is not None:
        return found
    before = sorted(known.get(job.recipe or job.spec.name, ()))
    if not before:
        return None
    middle, done_s = before[len(before) // 2], ran - job.lost_s
    return Left(*(max(0.0, all_s - done_s) for all_s in (middle, before[0], before[-1])))


def over_in(job: Job, s: Snapshot, known: Mapping[str, tuple[float, ...]]) -> Left | None:
    """Running time until it is over or has run for as long as it may; None where nothing says so."""
    found, most_s = left(job, s, known), budgets.may_run_s(job, s.now_s)
    if most_s is None:
        return found
    end_s = most_s + budgets.grace_s(job)
    if found is None:
        return Left(most_s, 0.0, end_s)
    return Left(min(found.s, most_s), min(found.low_s, most_s), min(found.high_s, end_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """When everything that is queued and runs would be over, and who is next. Held jobs are not counted."""

    next: str | None  # the job that starts next
    jobs: int
    unknown: int  # of these: nothing says how long they take; the times leave them out
    left_s: float
    low_s: float
    high_s: float
    gpu_hours: float  # of devices, as far as known


def outlook(s: Snapshot, following: str | None, places: int, jobs: Iterable[Job]) -> Outlook:
    """Over these jobs, with `places` of them running side by side."""
    known, lefts, unknown, gpu_s, n = lengths(s), list[Left](), 0, 0.0, 0
    for job in jobs:
        n += 1
        if (one := left(job, s, known)) is None:
            unknown += 1
        else:
            lefts.append(one)
            gpu_s += one.s * job.spec.count
    sums = (sum(x.s for x in lefts), sum(x.low_s for x in lefts), sum(x.high_s for x in lefts))
    longest = (max((x.s for x in lefts), default=0.0), max((x.high_s for x in lefts), default=0.0))
    side_by_side = max(1, places)
    return Outlook(
        next=following,
        jobs=n,
        unknown=unknown,
        left_s=max(sums[0] / side_by_side, longest[0]),
        low_s=sums[1] / side_by_side,
        high_s=max(sums[2] / side_by_side, longest[1]),
        gpu_hours=gpu_s / 3600.0,
    )
