"""The line of a lane: putting a job at a place in it, and who has waited so long that he goes to its front.

The front of the line is no exemption: placement, windows, memory and the gap test are as before.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from headway.core.draft import LEASE_LANE, Draft
from headway.core.model import Holder, HolderId, Job, Snapshot
from headway.core.rules import find_job

AGE_S = 1800.0  # one point of priority is worth half an hour of waiting
ARRIVAL_S = 1e-4  # keeps jobs that are added in one turn in the order in which they came
HELD_S = 60.0  # what is held for less loses nothing by it
SPACE_S = 1.0  # how far the rest of the line moves back when somebody is put where no number is left
FRONT_S = 1e9  # no priority and no ageing comes near to that
LOOK_AGAIN_S = 60.0  # at one that is due and follows a job which is not over


def put_at(d: Draft, job: Job, at: int) -> None:
    """Give it the key of that place in its lane, from 0, counted without itself."""
    line, own = d.lane(job.lane), place_of(d, job.lane, d.holders[job.id])
    low = _without(line, own, at - 1)[0] if at > 0 else None
    high = _without(line, own, at)[0] if at < len(line) - (own is not None) else None
    key = _between(low, high, job.key)
    if low is not None and high is not None and not low < key < high:  # no number is left between these two
        for _, hid in [entry for entry in line if entry[1] != job.id][at:]:
            behind = d.holders[hid]
            assert isinstance(behind, Job)
            d.put(replace(behind, key=behind.key + SPACE_S))
        key = low + SPACE_S / 2
    d.put(replace(job, key=key))


def place_of(d: Draft, lane: str, holder: Holder) -> int | None:
    """Where it stands in that lane, from 0; None: it does not."""
    if not isinstance(holder, Job):
        return None
    line, entry = d.lane(lane), (holder.key, holder.id)
    at = bisect_left(line, entry)
    return at if at < len(line) and line[at] == entry else None


def _without(line: list[tuple[float, HolderId]], own: int | None, at: int) -> tuple[float, HolderId]:
    """The entry at that place, counted without the one at `own`."""
    return line[at if own is None or at < own else at + 1]


def _between(low: float | None, high: float | None, own: float) -> float:
    if low is not None and high is not None:
        return (low + high) / 2
    if low is not None:
        return low + 1.0
    return high - 1.0 if high is not None else own


# ---------------------------------------------------------------- ageing


def rank_key(enqueued_s: float, priority: int) -> float:
    """Smaller is sooner: waiting half an hour is worth one point of priority."""
    return enqueued_s - AGE_S * priority


def not_aged(job: Job, for_s: float) -> Job:
    """It was in line for so long and did not wait for its turn. A place that somebody gave it by hand stays."""
    key = job.key if job.own_key is None else job.own_key
    number = int(n) if (n := job.id.removeprefix("j")).isdigit() else 0
    own = rank_key(job.enqueued_s + job.unaged_s, job.spec.priority) + number * ARRIVAL_S
    job = replace(job, unaged_s=job.unaged_s + for_s)
    if abs(key - own) > ARRIVAL_S / 2:
        return job
    return replace(job, key=key + for_s) if job.own_key is None else replace(job, own_key=key + for_s)


def not_held(job: Job, held_s: float) -> Job:
    """It is released. Held while it followed another, that is one time and not two."""
    minutes_s = held_s // HELD_S * HELD_S
    return job if job.follows_s is not None else not_aged(job, minutes_s)


def follows(d: Draft, job: Job) -> Job:
    """Since when it follows another; once it does not, that was no wait for its turn."""
    if _follows(job, d.view()):
        return job if job.follows_s is not None else replace(job, follows_s=d.now_s)
    if job.follows_s is None or job.wish == "hold":  # held: its release looks again
        return job
    return replace(not_aged(job, d.now_s - job.follows_s), follows_s=None)


def followed(d: Draft, over: Job) -> None:
    """One is over: whoever followed it, and nobody else, waits for his turn from now on."""
    names = {over.id, over.recipe, over.spec.name}
    for hid in sorted(d.followers):
        job = d.holders[hid]
        if isinstance(job, Job) and names & {*job.spec.after, *job.spec.after_ok}:
            d.put(follows(d, job))


# ---------------------------------------------------------------- max_wait


def due_s(job: Job) -> float | None:
    """When it has waited as long as it may; None: never, or it is at the front already."""
    if job.spec.max_wait_s is None or job.fronted:
        return None
    return (job.enqueued_s if job.waits_from_s is None else job.waits_from_s) + job.spec.max_wait_s


def waits_from(d: Draft, job: Job, from_s: float) -> Job:
    """The same job, its wait counted from then on."""
    key = job.key if job.own_key is None else job.own_key
    job = replace(job, waits_from_s=from_s, fronted=False, key=key, own_key=None)
    noted(d, job)
    return job


def noted(d: Draft, job: Job) -> None:
    """Have the line looked at when this one is due. One look for all: a long line is not walked each turn."""
    at_s, known_s = due_s(job), d.other.get("front_at_s", d.base.front_at_s)
    if at_s is not None and (known_s is None or at_s < known_s):
        d.set(front_at_s=at_s)


def turned(d: Draft) -> None:
    """Who is due by now goes to the front, behind those that were due before him, and stays there until it has run."""
    at_s = d.other.get("front_at_s", d.base.front_at_s)
    if at_s is None or d.now_s < at_s:
        return
    s = d.view()
    lines = {lane: line for lane, line in s.queue.items() if lane not in ("held", LEASE_LANE)}
    for _, line in sorted(lines.items()):
        jobs = [job for _, hid in line if isinstance(job := s.holders[hid], Job)]
        late = [job for job in jobs if (when_s := due_s(job)) is not None and when_s <= d.now_s]
        ready = [job for job in late if not _follows(job, s)]
        for job in ready:
            due = due_s(job) or 0.0
            d.put(replace(job, key=due - FRONT_S, own_key=job.key, fronted=True))
            d.event("job.fronted", job.id, waited_s=d.now_s - due + (job.spec.max_wait_s or 0.0))
    d.set(front_at_s=_next_s(d, lines))


def _next_s(d: Draft, lines: dict[str, tuple[tuple[float, str], ...]]) -> float | None:
    found = []
    for line in lines.values():
        for _, hid in line:
            if isinstance(job := d.holders[hid], Job) and (at_s := due_s(job)) is not None:
                found.append(max(at_s, d.now_s + LOOK_AGAIN_S) if at_s <= d.now_s else at_s)
    return min(found, default=None)


def _follows(job: Job, s: Snapshot) -> bool:
    """Does it wait for another job's end? Then it does not wait for its turn."""
    if job.started_s is not None:
        return False
    others = (find_job(word, s, job) for word in (*job.spec.after, *job.spec.after_ok))
    return any(other is not None and other.ended is None for other in others)
