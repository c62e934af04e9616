"""What each fact changes, and which facts change nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core.facts import (
    MoveAnswered,
    RunSeen,
)
from headway.core.model import Event, Exit, Job, Run, Service
from tests.core.make import Scene, dev, gib, job_spec, reading

pytestmark = pytest.mark.core

NOW_S = 1000.0
GPU = (dev("gpu0"),)
PARKS = job_spec(parked=1)


def job(scene: Scene, hid: str = "train") -> Job:
    found = scene.s.holders[hid]
    assert isinstance(found, Job)
    return found


def chat(scene: Scene) -> Service:
    found = scene.s.holders["chat"]
    assert isinstance(found, Service)
    return found


def gone(hid: str = "train", code: int | None = 0, run: int = 1, at_s: float = NOW_S) -> RunSeen:
    exit_ = None if code is None else Exit(code=code, at_s=at_s)
    return RunSeen(holder=hid, run_id=f"{hid}.{run}", lock_held=False, pid=4711, exit=exit_, gone=True)


# ---------------------------------------------------------------- runs that end, in every phase


def running(**given: Any) -> Scene:
    return Scene(24).job(job_spec(**given.pop("spec", {})), **given)


def starting(**given: Any) -> Scene:
    scene = Scene(24).job(job_spec(**given.pop("spec", {})), "stopped", devices=GPU, **given)
    return scene.under_way("train", "stopped", "running")


def leaving(to: str, ends_s: float | None = None, kill: bool = False, **given: Any) -> Scene:
    """Asked one second ago to step aside; `ends_s`: since when to end."""
    return Scene(24).job(PARKS, **given).under_way("train", "running", to, ends_s=ends_s, kill=kill)


ENDS: dict[str, tuple[Scene, RunSeen, dict[str, Any]]] = {
    # name: (before, what was seen, what the job is then)
    "exit 0 while it runs is done": (running(), gone(), {"ended": "done", "exit_code": 0, "devices": ()}),
    "exit 3 is failed": (running(), gone(code=3), {"ended": "failed", "exit_code": 3}),
    "a signal is failed with its negative code": (
        running(),
        gone(code=-9),
        {"ended": "failed", "exit_code": -9},
    ),
    "with attempts left it is queued again, after a pause": (
        running(spec={"retries": 2}),
        gone(code=3),
        {"ended": None, "form": "stopped", "attempts_left": 1, "retry_at_s": NOW_S + 15},
    ),
    "no code and nothing saved is lost": (running(), gone(code=None), {"ended": "lost"}),
    "no code, and it has saved points: queued again": (
        running(spec={"saved": ("saved",)}),
        gone(code=None),
        {"ended": None, "form": "stopped", "note": "lost", "wish": "run"},
    ),
    "no code, and it is resumable: queued again": (
        running(spec={"resumable": True}),
        gone(code=None),
        {"ended": None, "form": "stopped", "note": "lost"},
    ),
    "one that was asked to cancel is cancelled, whatever its code": (
        running(wish="cancel"),
        gone(),
        {"ended": "cancelled", "exit_code": 0},
    ),
    "one that is held is done all the same": (running(wish="hold"), gone(), {"ended": "done"}),
    "exit 0 before its start was answered is done": (
        starting(),
        gone(),
        {"ended": "done", "started_s": NOW_S - 1},
    ),
    "exit 1 before its start was answered is failed": (starting(), gone(code=1), {"ended": "failed"}),
    "one that never came to be is still queued": (
        starting(),
        RunSeen(holder="train", run_id="train.1", lock_held=False),
        {"ended": None, "form": "stopped", "run": None, "failures": 0},
    ),
    "the end of a run that we stop is no end of the job": (
        leaving("stopped"),
        gone(code=-15),
        {"ended": None, "form": "running"},  # until its memory is measured free
    ),
    "exit 0 after we asked it to stop is no end of the job": (leaving("stopped"), gone(), {"ended": None}),
    "exit 0 after a kill is its own: a kill leaves no code": (
        leaving("stopped", kill=True, wish="kill"),
        gone(),
        {"ended": "done", "exit_code": 0},
    ),
    "one that was killed is not ended": (
        leaving("stopped", kill=True, wish="kill"),
        gone(code=-9),
        {"ended": None, "form": "running"},
    ),
    "one whose cancel is a kill is cancelled, whatever its code": (
        leaving("stopped", kill=True, wish="cancel"),
        gone(),
        {"ended": "cancelled", "exit_code": 0},
    ),
    "exit 0 before we asked it to stop is done": (
        leaving("stopped"),
        gone(at_s=NOW_S - 2),
        {"ended": "done"},
    ),
    "exit 0 before we asked it to park is done": (leaving("parked"), gone(at_s=NOW_S - 2), {"ended": "done"}),
    "exit 0 while it was being parked is done": (leaving("parked"), gone(), {"ended": "done"}),
    "exit 0 before what was left of its tree was asked to end is done": (
        leaving("stopped", ends_s=NOW_S - 0.2),
        gone(at_s=NOW_S - 0.5),
        {"ended": "done"},
    ),
    "exit 0 after the park had become a stop is no end of the job": (
        leaving("stopped", ends_s=NOW_S - 0.5),
        gone(at_s=NOW_S - 0.2),
        {"ended": None},
    ),
    "one that dies while it parks is on its way to the bottom": (
        leaving("parked"),
        gone(code=1),
        {"ended": None},
    ),
    "one that dies while it is parked is failed": (
        Scene(24).job(PARKS, "parked"),
        gone(code=1),
        {"ended": "failed", "exit_code": 1},
    ),
    "a run that is not its own says nothing": (running(), gone(run=7), {"ended": None, "form": "running"}),
    "something of its tree lives: nothing has ended yet": (
        running(),
        RunSeen(holder="train", run_id="train.1", lock_held=True, pid=1, exit=Exit(code=0)),
        {"ended": None, "form": "running"},
    ),
    "an end that is told after its release was verified changes nothing": (
        Scene(24).job(form="stopped", run=Run(id="train.1", lock_held=True, pid=1)),
        gone(code=-15),
        {"ended": None, "form": "stopped", "wish": "run"},
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_run_ends(name: str) -> None:
    scene, seen, expected = ENDS[name]
    scene.happens(seen)
    assert {field: getattr(job(scene), field) for field in expected} == expected
    if job(scene).ended:
        assert "train" not in scene.s.pending and "train" not in scene.s.present


def test_a_cancel_during_the_start_ends_as_cancelled_also_when_the_start_fails() -> None:
    scene = starting(wish="cancel")
    scene.happens(MoveAnswered(holder="train", to="running", run_id="train.1", error="exited"))
    assert job(scene).ended == "cancelled"


@pytest.mark.parametrize("refused", [True, False])
def test_a_stop_during_the_start_ends_as_a_hold_when_it_does_not_start(refused: bool) -> None:
    scene = starting(wish="stop")
    answer = MoveAnswered(holder="train", to="running", run_id="train.1", error="late", refused=refused)
    scene.happens(answer)
    assert (job(scene).wish, job(scene).ended, job(scene).devices) == ("hold", None, ())
    assert scene.s.queue["held"] == ((job(scene).key, "train"),)


def test_running_time_counts_what_it_ran_and_not_what_it_was_parked() -> None:
    scene = Scene(24).job(PARKS, since_s=NOW_S - 100, ran_s=7.0)
    scene.under_way("train", "running", "parked", started_s=NOW_S - 1)
    _verified(scene, "parked", gib(1))
    assert (job(scene).form, job(scene).ran_s) == ("parked", 106.0)


# ---------------------------------------------------------------- answers and releases


def _verified(scene: Scene, to: str, held: int, hid: str = "train") -> list[Event]:
    """The driver answers, and half a second later a reading shows so many bytes of it."""
    scene.happens(MoveAnswered(holder=hid, to=to, run_id=f"{hid}.1"))
    scene.at(NOW_S + 0.5)
    if to == "stopped":
        scene.happens(gone(hid, -15))
        scene.at(NOW_S + 0.6)
    return scene.happens(reading("gpu0", 24, scene.s.now_s, {hid: held} if held else {}))


def test_an_answer_is_no_proof() -> None:
    scene = leaving("parked")
    scene.happens(MoveAnswered(holder="train", to="parked", run_id="train.1"))
    assert (job(scene).form, scene.s.pending["train"].step) == ("running", "answered")


def test_a_reading_that_shows_it_is_proof() -> None:
    scene = leaving("parked")
    events = _verified(scene, "parked", gib(1))
    assert (job(scene).form, scene.s.pending) == ("parked", {})
    assert [event.code for event in events] == ["release.verified"]
    assert job(scene).form_named("parked") == replace(PARKS.forms[1], enter_s=1.5, enters_s=(1.5,))


def test_a_reading_that_began_before_the_answer_is_none() -> None:
    scene = leaving("parked")
    scene.happens(MoveAnswered(holder="train", to="parked", run_id="train.1"))
    scene.happens(reading("gpu0", 24, NOW_S, {"train": gib(1)}))
    assert "train" in scene.s.pending


def test_a_stop_is_not_over_while_something_of_it_lives() -> None:
    scene = leaving("stopped", seen_bytes={})
    scene.happens(MoveAnswered(holder="train", to="stopped", run_id="train.1"))
    scene.at(NOW_S + 1).happens(reading("gpu0", 24, NOW_S + 1))
    assert "train" in scene.s.pending
    scene.happens(gone(code=-15, at_s=NOW_S + 1))
    assert "train" in scene.s.pending  # that reading began before the end
    scene.at(NOW_S + 2).happens(reading("gpu0", 24, NOW_S + 2))
    assert scene.s.pending == {} and job(scene).form == "stopped"


def test_a_shortfall_is_told_once_when_its_limit_passed() -> None:
    scene = leaving("parked")
    assert _verified(scene, "parked", gib(14)) == []
    codes = []
    for second in (10, 11, 12):
        events = scene.at(NOW_S + second).happens(reading("gpu0", 24, NOW_S + second, {"train": gib(14)}))
        codes += [event.code for event in events]
    assert codes == ["memory.not_released"]


def test_one_that_needed_help_does_not_make_the_next_limit_longer() -> None:
    scene = Scene(24).job(PARKS).under_way("train", "running", "stopped", rung=1, started_s=NOW_S - 40)
    _verified(scene, "stopped", 0)
    assert job(scene).forms[-1].enter_s is None


def test_a_job_without_a_device_is_free_at_once() -> None:
    scene = Scene(24).job(job_spec(running=0, count=0), on=())
    scene.under_way("train", "running", "stopped", devices=())
    scene.happens(gone(code=-15))
    assert (scene.s.pending, job(scene).form, job(scene).ended) == ({}, "stopped", None)


@pytest.mark.parametrize(
    ("wish", "expected"), [("stop", "hold"), ("kill", "hold"), ("wind_down", "hold"), ("run", "run")]
)
def test_a_wish_that_was_fulfilled_becomes_a_hold(wish: Any, expected: str) -> None:
    scene = leaving("stopped", wish=wish)
    _verified(scene, "stopped", 0)
    assert (job(scene).wish, job(scene).ended, job(scene).form) == (expected, None, "stopped")


def test_a_pause_that_was_fulfilled_is_a_hold_on_the_parked_job() -> None:
    scene = leaving("parked", wish="pause")
    _verified(scene, "parked", gib(1))
    assert (job(scene).wish, job(scene).form) == ("hold", "parked")


def test_a_cancel_that_was_fulfilled_ends_it() -> None:
    scene = leaving("stopped", wish="cancel")
    _verified(scene, "stopped", 0)
    assert job(scene).ended == "cancelled" and scene.s.present == ()


ANSWERS_TO_NOTHING = {
    "for another form": MoveAnswered(holder="train", to="running", run_id="train.1"),
    "of another run": MoveAnswered(holder="train", to="parked", run_id="train.9"),
    "for nobody": MoveAnswered(holder="ghost", to="parked"),
}


@pytest.mark.parametrize("name", ANSWERS_TO_NOTHING)
def test_an_answer_changes_nothing(name: str) -> None:
    scene = leaving("parked")
    before = scene.s
    scene.happens(ANSWERS_TO_NOTHING[name])
    assert replace(scene.s, rev=before.rev) == before


def test_a_start_that_was_answered_is_there() -> None:
    scene = starting(failures=1, note="exited")
    scene.happens(MoveAnswered(holder="train", to="running", run_id="train.1"))
    found = job(scene)
    assert (found.form, found.failures, found.note, found.started_s) == ("running", 0, None, NOW_S)
    assert scene.s.devices[GPU[0]].last_change_s == NOW_S
    assert found.forms[-1].leave_s == 1.0


def test_failed_starts_are_tried_at_once_then_after_growing_pauses_and_a_job_is_held_after_three() -> None:
    seen = []
    scene = Scene(24).job(form="stopped")
    for _ in range(3):
        scene.under_way("train", "stopped", "running")
        scene.happens(MoveAnswered(holder="train", to="running", run_id="train.1", error="exited"))
        seen.append((job(scene).failures, job(scene).retry_at_s, job(scene).wish))
    assert seen == [(1, None, "run"), (2, NOW_S + 15, "run"), (3, NOW_S + 30, "hold")]


def test_a_start_that_the_machine_does_not_let_begin_is_tried_again_for_ever_and_a_real_failure_counts_anew() -> (
    None
):
    seen = []
    scene = Scene(24).job(form="stopped", failures=2, note="exited")
    for error in (*["run_not_made"] * 6, "exited"):
        scene.under_way("train", "stopped", "running", creates=True, run_id="train.1")
        why = {"why": "its run could not be made in /x"}
        scene.happens(MoveAnswered(holder="train", to="running", run_id="train.1", error=error, facts=why))
        found = job(scene)
        seen.append((found.wish, found.ended, None if found.retry_at_s is None else found.retry_at_s - NOW_S))
    assert seen == [("run", None, 60.0)] * 6 + [("run", None, None)]
    assert (job(scene).failures, job(scene).devices, scene.s.pending) == (1, (), {})
    assert scene.s.queue["gpu"] == ((job(scene).key, "train"),)


def test_a_command_that_cannot_be_executed_is_over_at_once() -> None:
    scene = starting()
    scene.happens(MoveAnswered(holder="train", to="running", run_id="train.1", error="cannot_start"))
    assert (job(scene).ended, job(scene).exit_code, job(scene).note) == ("failed", 127, "cannot_start")


def test_a_refused_move_was_never_begun() -> None:
    scene = starting()
    scene.happens(
        MoveAnswered(holder="train", to="running", run_id="train.1", error="memory_now", refused=True)
    )
    assert (job(scene).failures, job(scene).devices, scene.s.pending) == (0, (), {})
    assert scene.s.queue["gpu"] == ((job(scene).key, "train"),)


def test_a_release_that_fails_climbs_at_once() -> None:
    scene = leaving("parked")
    scene.happens(MoveAnswered(holder="train", to="parked", run_id="train.1", error="hook_failed"))
    assert scene.s.pending["train"].limit_at_s == NOW_S
