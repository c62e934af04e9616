"""What becomes of a job over its runs: attempts, memory that ran out, running time, lost work, signs of life."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core import fold, wishes
from headway.core.commands import SetWish
from headway.core.decide import decide
from headway.core.facts import JobTold, RunSeen
from headway.core.model import Event, Exit, Job, JobSpec, Move, Run
from headway.core.view import explain
from headway.core.worked import ran_s
from tests.core.make import T0_S, Scene, dev, job_spec

pytestmark = pytest.mark.core

GPU = (dev("gpu0"),)


def of(scene: Scene, hid: str = "train") -> Job:
    found = scene.s.holders[hid]
    assert isinstance(found, Job)
    return found


def ends(scene: Scene, code: int | None, **exit_: Any) -> list[Event]:
    """Its process is gone; None: nobody knows how it ended."""
    run = of(scene).run
    assert run is not None
    exit_of = None if code is None else Exit(code=code, at_s=scene.s.now_s, **exit_)
    return scene.happens(
        RunSeen(holder="train", run_id=run.id, lock_held=False, pid=run.pid, exit=exit_of, gone=True)
    )


def running(spec: JobSpec | None = None, for_s: float = 400.0, **given: Any) -> Scene:
    spec = spec or job_spec(placement="share")
    return Scene(24).job(spec, since_s=T0_S - for_s, **given)


def passes(scene: Scene, seconds: float = 0.0) -> list[Event]:
    """A turn that much later: what was told in it."""
    scene.at(scene.s.now_s + seconds).read()
    draft = scene.draft()
    fold.decided(draft, decide(scene.s))
    scene.s = draft.done()
    return draft.events


def goes(scene: Scene) -> list[str]:
    return [move.form for move in decide(scene.s).actions if isinstance(move, Move)]


# ---------------------------------------------------------------- attempts


def test_attempts_after_failures_at_the_start_come_after_growing_pauses_and_end_in_a_hold() -> None:
    scene = running(job_spec(placement="share", retries=9), for_s=2.0)
    pauses = []
    for number in range(3):
        ends(scene, 1, last_lines=("Traceback", "no such file"))
        job = of(scene)
        pauses.append(None if job.retry_at_s is None else job.retry_at_s - scene.s.now_s)
        if number < 2:
            again = replace(job, form="running", since_s=scene.s.now_s, run_from_s=job.ran_s, devices=GPU)
            scene.put(
                replace(
                    again,
                    run=replace(
                        job.run or Run(id="", lock_held=True),
                        id=f"train.{number + 2}",
                        lock_held=True,
                        exit=None,
                        gone=False,
                    ),
                )
            )
            scene.at(scene.s.now_s + 2.0)
    assert pauses == [15.0, 30.0, None]
    job = of(scene)
    assert (job.wish, job.wish_by, job.note) == ("hold", "headway", "crash_loop")
    told = explain("train", scene.s, {}).facts
    assert (told["line"], told["lines"]) == ("no such file", ["Traceback", "no such file"])


ENDS = {
    # name: (spec, seconds it ran, exit, (ended, wish, attempts left, alone))
    "well": ({}, 400, Exit(code=0), ("done", "run", 0, False)),
    "badly, without another attempt": ({}, 400, Exit(code=1), ("failed", "run", 0, False)),
    "badly, with one": ({"retries": 1}, 400, Exit(code=1), (None, "run", 0, False)),
    "out of memory, by its log": ({}, 400, Exit(code=1, out_of_memory=True), (None, "run", 0, True)),
    "out of memory, by its exit code": ({"oom_exit_code": 7}, 400, Exit(code=7), (None, "run", 0, True)),
    "another exit code": ({"oom_exit_code": 7}, 400, Exit(code=8), ("failed", "run", 0, False)),
    "out of memory uses up no retry": ({"retries": 2}, 400, Exit(code=1, out_of_memory=True), (None, "run", 2, True)),
    "without a device there is nothing to be alone on": ({"count": 0}, 400, Exit(code=1, out_of_memory=True), ("failed", "run", 0, False)),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "ran", "exit_", "expected"), ENDS.values(), ids=ENDS.keys())
def test_what_follows_the_end_of_a_run(spec: dict[str, Any], ran: float, exit_: Exit, expected: Any) -> None:
    scene = running(job_spec(placement="share", **spec), for_s=ran)
    ends(scene, exit_.code, out_of_memory=exit_.out_of_memory)
    job = of(scene)
    assert (job.ended, job.wish, job.attempts_left, job.alone) == expected


def test_out_of_memory_twice_has_failed() -> None:
    scene = running(alone=True)
    ends(scene, 1, out_of_memory=True)
    assert of(scene).ended == "failed"


def test_the_attempt_after_out_of_memory_waits_until_it_has_the_device_alone() -> None:
    scene = (
        Scene(48)
        .job(job_spec("other", 4, placement="share"))
        .job(job_spec(placement="share"), "stopped", alone=True)
    )
    scene = Scene(48, policy=replace(scene.s.policy, max_active_jobs=2))
    scene.job(job_spec("other", 4, placement="share")).job(job_spec(placement="share"), "stopped", alone=True)
    assert decide(scene.s).verdicts["train"].code in ("runs_alone", "would_lose_work", "residency")
    assert goes(scene) == []
    scene = Scene(48).job(job_spec(placement="share"), "stopped", alone=True)
    assert goes(scene) == ["running"]


def test_one_that_is_alone_lets_nobody_beside_it() -> None:
    scene = Scene(48, policy=replace(Scene(48).s.policy, max_active_jobs=2))
    scene.job(job_spec(placement="share"), alone=True).job(job_spec("other", 4, placement="share"), "stopped")
    assert goes(scene) == []
    assert decide(scene.s).verdicts["other"].code in ("runs_alone", "too_weak", "would_lose_work")


def test_a_retry_by_a_person_begins_all_of_it_anew() -> None:
    scene = Scene(24).job(form="stopped", ended="failed", alone=True, crashes=2, ran_s=90.0)
    draft = scene.draft()
    assert wishes.apply(draft, SetWish(target="train", verb="retry")).accepted
    job = draft.holders["train"]
    assert isinstance(job, Job)
    assert (job.alone, job.crashes, job.allowed_from_s) == (False, 0, 90.0)


# ---------------------------------------------------------------- max_runtime

PARKS: dict[str, Any] = {"parked": 1.0, "max_runtime_s": 300.0, "placement": "share"}
STOPS: dict[str, Any] = {"max_runtime_s": 300.0, "placement": "share"}
SAVES: dict[str, Any] = {**STOPS, "saved": ("show",)}
OVER_TIME: dict[str, Any] = {
    # name: (spec, what it has run before, seconds in this stretch, given, the wish after a turn)
    "not yet": (STOPS, 0, 299, {}, "run"),
    "now": (STOPS, 0, 300, {}, "stop"),
    "runs before this one count": (STOPS, 200, 100, {}, "stop"),
    "one that can park parks": (PARKS, 0, 300, {}, "pause"),
    "one that saves winds down": (SAVES, 0, 300, {}, "wind_down"),
    "one that is held and runs": (STOPS, 0, 300, {"wish": "hold"}, "stop"),
    "what a person asked already stays": (SAVES, 0, 300, {"wish": "stop"}, "stop"),
    "a longer time was allowed since": (STOPS, 200, 100, {"allowed_from_s": 200.0}, "run"),
    "no limit": ({"placement": "share"}, 1e6, 1e6, {}, "run"),
    "on its way down for less than ten minutes": (
        SAVES, 0, 900, {"wish": "wind_down", "note": "max_runtime", "wish_s": T0_S - 599}, "wind_down",
    ),
    "on its way down for ten minutes": (
        SAVES, 0, 901, {"wish": "wind_down", "note": "max_runtime", "wish_s": T0_S - 600}, "stop",
    ),
    "asked to wind down by a person, without end": (
        SAVES, 0, 9000, {"wish": "wind_down", "wish_s": T0_S - 6000}, "wind_down",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OVER_TIME)
def test_running_time_ends(name: str) -> None:
    spec, before, here, given, wish = OVER_TIME[name]
    scene = Scene(24).job(job_spec(**spec), since_s=T0_S - here, ran_s=float(before), **given)
    passes(scene)
    assert of(scene).wish == wish


def test_the_loop_is_told_when_to_look_again() -> None:
    scene = Scene(24).job(job_spec(**STOPS), since_s=T0_S - 100.0)
    assert decide(scene.s).recheck_at_s == T0_S + 200.0


def test_parked_and_frozen_time_is_no_running_time() -> None:
    scene = Scene(24).job(job_spec(**PARKS), "parked", since_s=T0_S - 9000.0, ran_s=100.0)
    passes(scene)
    assert (of(scene).wish, ran_s(of(scene), scene.s.now_s)) == ("run", 100.0)


def test_a_release_lets_it_run_as_long_again() -> None:
    scene = Scene(24).job(job_spec(**STOPS), since_s=T0_S - 300.0)
    passes(scene)
    assert goes(scene) == ["stopped"]
    held = replace(of(scene), form="stopped", wish="hold", ran_s=300.0, devices=(), seen_bytes={}, run=None)
    scene.put(held)
    draft = scene.draft()
    wishes.apply(draft, SetWish(target="train", verb="release"))
    assert draft.holders["train"].allowed_from_s == 300.0  # type: ignore[attr-defined]


# ---------------------------------------------------------------- lost work

SAVED = job_spec(placement="share", saved=("show",), retries=1)
LOST = {
    # name: (spec, saved at which running time, exit, seconds lost)
    "one that never saves loses all": (job_spec(placement="share", retries=1), None, 1, 400.0),
    "from its last saved point": (SAVED, 390.0, 1, 10.0),
    "never saved yet": (SAVED, None, 1, 400.0),
    "ended well": (SAVED, 390.0, 0, 0.0),
    "its end is not known": (SAVED, 300.0, None, 100.0),
    "resumable, without saying from where": (
        job_spec(placement="share", resumable=True, retries=1),
        None,
        1,
        0.0,
    ),
}


@pytest.mark.parametrize(("spec", "saved", "code", "lost_s"), LOST.values(), ids=LOST.keys())
def test_work_that_is_lost_is_kept_with_its_cause(
    spec: JobSpec, saved: float | None, code: int | None, lost_s: float
) -> None:
    scene = running(spec, saved_ran_s=saved)
    ends(scene, code)
    job = of(scene)
    assert job.lost_s == lost_s
    assert [(one.run, one.lost_s, one.cause) for one in job.lost] == (
        [("train.1", lost_s, "lost" if code is None else "exit")] if lost_s else []
    )


def test_work_lost_for_a_model_names_the_model() -> None:
    scene = Scene(24).job(job_spec(), since_s=T0_S - 100.0)
    scene.under_way(
        "train", "running", "stopped", step="answered", answered_s=T0_S, started_s=T0_S, cause="chat"
    )
    scene.at(T0_S + 1.0)
    run = of(scene).run
    assert run is not None
    scene.happens(
        RunSeen(
            holder="train",
            run_id="train.1",
            lock_held=False,
            pid=1,
            exit=Exit(code=-15, at_s=T0_S + 1),
            gone=True,
        )
    )
    scene.at(T0_S + 2.0).read()
    assert [(one.cause, one.lost_s) for one in of(scene).lost] == [("chat", 100.0)]


def test_what_is_saved_is_not_lost_twice() -> None:
    scene = running(SAVED, for_s=100.0)
    scene.happens(JobTold(job="train", saved_point="a", saved_age_s=20.0))
    assert (of(scene).saved_ran_s, of(scene).saves_every_s) == (80.0, 80.0)
    scene.at(T0_S + 50.0).happens(JobTold(job="train", saved_point="b", saved_age_s=0.0))
    assert (of(scene).saved_ran_s, of(scene).saves_every_s) == (150.0, 70.0)
    ends(scene.at(T0_S + 55.0), 1)
    assert of(scene).lost_s == 5.0


# ---------------------------------------------------------------- signs of life

WATCHED = job_spec(placement="share", stall_after_s=60.0)
SIGNS = {
    "progress": JobTold(job="train", progress=0.6),
    "a saved point": JobTold(job="train", saved_point="b"),
    "a line of output": JobTold(job="train", log_bytes=11),
    "processor time": JobTold(job="train", busy_s=9.0),
}
SILENCE = {
    "nothing": JobTold(job="train"),
    "the same progress": JobTold(job="train", progress=0.5),
    "no more output": JobTold(job="train", log_bytes=10),
    "a breath of processor time": JobTold(job="train", busy_s=5.01),
}


def watched() -> Scene:
    scene = running(WATCHED, for_s=10.0)
    scene.happens(JobTold(job="train", progress=0.5, saved_point="a", log_bytes=10, busy_s=5.0))
    return scene


@pytest.mark.parametrize("told", SIGNS.values(), ids=SIGNS.keys())
def test_any_sign_of_work_is_one(told: JobTold) -> None:
    scene = watched().at(T0_S + 50.0)
    scene.happens(told)
    assert [e.code for e in passes(scene, 15.0)] == []
    assert [e.code for e in passes(scene, 45.0)] == ["job.stalled"]


@pytest.mark.parametrize("told", SILENCE.values(), ids=SILENCE.keys())
def test_without_one_it_is_told_as_stalled_once_and_again_when_it_works(told: JobTold) -> None:
    scene = watched().at(T0_S + 50.0)
    scene.happens(told)
    assert [e.code for e in passes(scene, 10.0)] == ["job.stalled"]
    assert [e.code for e in passes(scene, 100.0)] == []
    assert [e.code for e in scene.happens(JobTold(job="train", log_bytes=99))] == ["job.works_again"]
    assert not of(scene).stalled


def test_nobody_who_did_not_ask_for_it_is_told_as_stalled() -> None:
    scene = running()
    assert [e.code for e in passes(scene, 9e5)] == []


def test_three_health_commands_that_fail_are_told_once_and_so_is_the_recovery() -> None:
    scene, told = running(), []
    for healthy in (False, False, None, False, False, True, False, True):
        told.append([e.code for e in scene.happens(JobTold(job="train", healthy=healthy))])
    assert told == [[], [], [], ["job.unhealthy"], [], ["job.healthy"], [], []]
