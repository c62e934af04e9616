"""A command that cannot be executed is told so by two facts, in either order; both must come to the same."""

from __future__ import annotations

import pytest

from headway.core import view
from headway.core.facts import MoveAnswered, RunSeen
from headway.core.model import Exit, Job, Service
from tests.core.make import Scene, job_spec

pytestmark = pytest.mark.core

WHY = "cannot run nope: No such file or directory"


def seen(hid: str) -> RunSeen:
    return RunSeen(
        holder=hid,
        run_id=f"{hid}.1",
        lock_held=False,
        pid=7,
        gone=True,
        exit=Exit(code=126, at_s=999.5, error=WHY),
    )


def answered(hid: str, to: str) -> MoveAnswered:
    return MoveAnswered(holder=hid, to=to, run_id=f"{hid}.1", error="cannot_start", facts={"why": WHY})


@pytest.mark.parametrize("retries", [0, 3])
@pytest.mark.parametrize("run_first", [True, False])
def test_a_job_whose_program_is_missing_has_failed_and_says_which(run_first: bool, retries: int) -> None:
    scene = Scene(24).job(job_spec(retries=retries), "stopped")
    scene.under_way("train", "stopped", "running", creates=True)
    facts = [seen("train"), answered("train", "running")]
    events = scene.happens(*(facts if run_first else reversed(facts)))
    job = scene.s.holders["train"]
    assert isinstance(job, Job) and job.ended == "failed"
    assert job.run is not None and job.run.id == "train.1", "whose log says why"
    assert (job.note, job.note_facts["why"]) == ("cannot_start", WHY)
    assert view.explain("train", scene.s, {}).sentence == f"failed: {WHY}"
    assert [event.facts["why"] for event in events if event.code == "job.failed"] == [WHY]


@pytest.mark.parametrize("run_first", [True, False])
def test_so_is_a_model(run_first: bool) -> None:
    scene = Scene(24).service(form="stopped").under_way("chat", "stopped", "awake", creates=True)
    facts = [seen("chat"), answered("chat", "awake")]
    scene.happens(*(facts if run_first else reversed(facts)))
    chat = scene.s.holders["chat"]
    assert isinstance(chat, Service) and chat.failures == 1
    assert (chat.note, chat.note_facts["why"]) == ("cannot_start", WHY)
