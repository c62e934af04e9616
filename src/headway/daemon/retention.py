"""What is old and goes: jobs that are over, and the files of request logs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headway.core.model import HolderId, Job, Snapshot

JOBS_KEPT = 10_000  # jobs that are over; `headway events` knows of the others


def surplus(s: Snapshot) -> tuple[HolderId, ...]:
    """The oldest of the jobs that are over, where there are too many to keep; of those, the ones that left nothing."""
    over = [h for h in s.holders.values() if isinstance(h, Job) and h.ended is not None]
    over.sort(key=lambda job: job.ended_s or 0.0, reverse=True)
    there = {*s.present, *s.pending}
    return tuple(job.id for job in over[JOBS_KEPT:] if job.id not in there)


def month_before(wall_s: float) -> str:
    """The month before that moment's, in UTC, as the request logs are named: "2026-05"."""
    first = datetime.fromtimestamp(wall_s, UTC).replace(day=1)
    return f"{first - timedelta(days=1):%Y-%m}"
