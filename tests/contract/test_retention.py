"""What is old and goes."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from headway.core.model import Job, Snapshot
from headway.daemon import retention
from headway.daemon.retention import month_before, surplus
from tests.core.make import Scene, job_spec

pytestmark = pytest.mark.contract

MONTHS = {
    "in the middle": ("2026-06-15T12:00", "2026-05"),
    "the first moment": ("2026-06-01T00:00", "2026-05"),
    "the last moment": ("2026-05-31T23:59", "2026-04"),
    "a new year": ("2026-01-31T00:00", "2025-12"),
    "after a long month": ("2026-03-31T00:00", "2026-02"),
}


@pytest.mark.parametrize(("now", "before"), MONTHS.values(), ids=MONTHS.keys())
def test_the_month_before(now: str, before: str) -> None:
    assert month_before(datetime.fromisoformat(now).replace(tzinfo=UTC).timestamp()) == before


def over(n: int) -> Snapshot:
    """So many jobs that are over, j1 the oldest, and one that waits."""
    scene = Scene(24)
    for _ in range(n + 1):
        scene.queue(job_spec())
    jobs = [one for one in scene.s.holders.values() if isinstance(one, Job)]
    ended = {one.id: replace(one, ended="done", ended_s=float(k)) for k, one in enumerate(jobs[:n])}
    return replace(scene.s, holders={**scene.s.holders, **ended})


def test_the_oldest_jobs_that_are_over_go_beyond_those_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "JOBS_KEPT", 3)
    first, second, *_ = over(5).holders
    assert set(surplus(over(5))) == {first, second}
    assert surplus(over(3)) == ()
