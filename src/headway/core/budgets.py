"""max_runtime: a job that has run for as long as it may winds down, parks or stops, and is held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from headway.core.draft import Draft
from headway.core.lifecycle import rule
from headway.core.model import Holder, HolderId, Job, Snapshot, Wish
from headway.core.worked import ran_s

WIND_DOWN_S = 600.0  # how long it may take to reach its next saved point
NOTE = "max_runtime"


def due_s(job: Holder) -> float | None:
    """When it is asked to make an end, or to do so without its next saved point; None: time alone changes nothing."""
    if not isinstance(job, Job) or job.form != job.top or job.spec.max_runtime_s is None:
        return None
    if job.wish == "wind_down" and job.note == NOTE:
        return (job.wish_s or 0.0) + WIND_DOWN_S
    if (
        job.wish not in ("run", "hold") or job.frozen_by_gate
    ):  # while it is frozen its running time stands still
        return None
    return job.since_s + job.allowed_from_s + job.spec.max_runtime_s - job.ran_s


def may_run_s(job: Job, now_s: float) -> float | None:
    """Running time that it has left of its max_runtime; None: as long as it likes."""
    if job.spec.max_runtime_s is None:
        return None
    return max(0.0, job.allowed_from_s + job.spec.max_runtime_s - ran_s(job, now_s))


def grace_s(job: Job) -> float:
    """How much longer than that it may take to make an end."""
    return WIND_DOWN_S if job.spec.saved else 0.0


def times(s: Snapshot) -> Iterator[float]:
    """When one of those that run is due."""
    for hid in s.present:
        if (at_s := due_s(s.holders[hid])) is not None:
            yield at_s


def look(d: Draft, present: Iterable[HolderId]) -> None:
    """Whoever is due is asked, by us, what a person would ask of it."""
    for hid in sorted(present):
        holder = d.holders[hid]
        at_s = due_s(holder)
        if at_s is None or at_s > d.now_s or hid in d.pending:
            continue
        assert isinstance(holder, Job)
        wish = _wish(holder)
        facts = {"max_runtime_s": holder.spec.max_runtime_s, "ran_s": ran_s(holder, d.now_s)}
        d.event("job.over_time", hid, wish=wish, **facts)
        d.put(
            replace(holder, wish=wish, wish_by="headway", wish_s=d.now_s, note=NOTE, note_facts=dict(facts))
        )


def _wish(job: Job) -> Wish:
    """To its next saved point; where it has none, or did not reach it, it parks, else it is stopped."""
    if job.spec.saved and job.wish != "wind_down":
        return "wind_down"
    return "pause" if rule(job, job.top, "parked") else "stop"
