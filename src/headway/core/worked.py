"""How long a job has run, what of that is saved, and what is lost when its process ends."""

from __future__ import annotations

from dataclasses import replace

from headway.core.freezing import frozen_for_s
from headway.core.model import Job, Lost

LOST_KEPT = 20  # stretches told one by one; the sum is over all
LEAST_S = 1.0  # less than this is nothing that anybody would look for


def ran_s(job: Job, now_s: float) -> float:
    """Running time over all its runs, up to now. Parked and frozen time is none."""
    if job.form != job.top or job.ended is not None:
        return job.ran_s
    return job.ran_s + now_s - job.since_s - frozen_for_s(job, now_s)


def unsaved_s(job: Job, ran: float) -> float:
    """Running time of its present run that a stop would lose, given its whole running time.

    Nothing is said to be lost of one that goes on from where it was without saying where that is.
    """
    if job.spec.resumable and job.saved_ran_s is None:
        return 0.0
    return max(0.0, ran - max(job.run_from_s, job.saved_ran_s or 0.0))


def saved(job: Job, now_s: float, age_s: float | None) -> Job:
    """It has a new saved point, made `age_s` ago (None: just now)."""
    at_s = max(job.saved_ran_s or 0.0, ran_s(job, now_s) - (age_s or 0.0))
    from_s = max(job.run_from_s, job.saved_ran_s or 0.0)
    every_s = at_s - from_s if at_s > from_s else job.saves_every_s
    return replace(job, saved_ran_s=at_s, saves_every_s=every_s)


def lose(job: Job, cause: str) -> tuple[Job, float]:
    """What it did since its last saved point is gone. Returns it with that kept, and how long it was."""
    lost_s = unsaved_s(job, job.ran_s)
    if lost_s < LEAST_S:
        return job, 0.0
    stretch = Lost(run=job.run.id if job.run else None, cause=cause, lost_s=lost_s, at_ran_s=job.ran_s)
    kept = (*job.lost, stretch)[-LOST_KEPT:]
    return replace(job, lost=kept, lost_s=job.lost_s + lost_s, run_from_s=job.ran_s), lost_s
