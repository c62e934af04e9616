"""A job that ended while no daemon looked: what its shim noted is when it ended, and all that it ran."""

from dataclasses import replace

import pytest

from headway.core import ends
from headway.core.facts import RunSeen
from headway.core.model import Exit, Job, Run
from tests.core.make import T0_S, Scene, job_spec

pytestmark = pytest.mark.core

BEGAN_S = T0_S - 100.0  # the daemon looks again at T0_S


def ended(at_s: float | None, boot: str = "", code: int = 3, **given: object) -> Job:
    scene = Scene(24).job(job_spec("train", **given), since_s=BEGAN_S, started_s=BEGAN_S)  # type: ignore[arg-type]
    run = scene.s.holders["train"].run
    assert run is not None
    seen = RunSeen(
        holder="train",
        run_id=run.id,
        lock_held=False,
        pid=run.pid,
        boot_id=boot or scene.s.boot_id,
        exit=Exit(code=code, at_s=at_s),
        gone=True,
    )
    job = scene.fold(seen).s.holders["train"]
    assert isinstance(job, Job)
    return job


def test_it_ran_until_it_ended_and_not_until_somebody_looked() -> None:
    job = ended(BEGAN_S + 4.0)
    assert (job.ended, job.ran_s, job.ended_s) == ("failed", 4.0, BEGAN_S + 4.0)


def test_what_it_did_not_run_is_not_lost_and_counts_against_no_limit() -> None:
    job = ended(BEGAN_S + 4.0, retries=3, max_runtime_s=25.0)
    assert (job.ended, job.ran_s, job.attempts_left) == (None, 4.0, 2)
    assert job.lost_s == 4.0 and [one.lost_s for one in job.lost] == [4.0]


@pytest.mark.parametrize(
    ("at_s", "boot"),
    [(None, ""), (BEGAN_S - 5.0, ""), (T0_S + 5.0, ""), (BEGAN_S + 4.0, "another boot")],
    ids=["not known", "before it began", "in the future", "by another clock"],
)
def test_an_end_that_cannot_be_is_now(at_s: float | None, boot: str) -> None:
    job = ended(at_s, boot)
    assert (job.ended, job.ran_s, job.ended_s) == ("failed", 100.0, T0_S)


def test_one_that_is_cancelled_after_its_run_has_ended_ends_then() -> None:
    scene = Scene(24).job(job_spec("train"), form="stopped", started_s=BEGAN_S, wish="cancel")
    job = scene.s.holders["train"]
    assert isinstance(job, Job)
    exit_ = Exit(code=3, at_s=BEGAN_S + 4.0)
    scene.put(
        replace(job, run=Run(id="train.1", lock_held=False, boot_id=scene.s.boot_id, exit=exit_, gone=True))
    )
    draft = scene.draft()
    ends.at_rest(draft, "train")
    job = draft.holders["train"]
    assert isinstance(job, Job) and (job.ended, job.ended_s) == ("cancelled", T0_S)
