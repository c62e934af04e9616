"""Jobs beside a model that are frozen while it answers, and jobs that run in windows only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core import budgets, told, words
from headway.core.commands import SetWish, StartWindow
from headway.core.decide import decide
from headway.core.ends import run_ended
from headway.core.fold import decided
from headway.core.model import GIB, Job, Move, Policy, Signal
from headway.core.worked import ran_s
from tests.core.lease_scene import settled
from tests.core.make import T0_S, Scene, job_spec, service_spec
from tests.core.test_rules import stays, verdict, with_mode
from tests.core.test_windows import under, window
from tests.core.test_wishes import says
from tests.core.world import Habit, World

pytestmark = pytest.mark.core

YIELD = job_spec(running=4, parked=0.5, placement="yield")
BUSY: dict[str, Any] = {"active": 2, "active_since_s": T0_S - 1}
FROZEN: dict[str, Any] = {"frozen_by_gate": True, "frozen_s": T0_S - 5}


def beside(spec: Any = YIELD, form: str = "running", on: tuple[str, ...] = ("gpu0",), **given: Any) -> Scene:
    """A job on that device, and a model on gpu0; what is said of the model begins with `m_`."""
    model = {key[2:]: given.pop(key) for key in list(given) if key.startswith("m_")}
    return Scene(48, 48).service(**model).job(spec, form, on, **given)


def busy(**given: Any) -> Scene:
    return beside(**{f"m_{key}": value for key, value in BUSY.items()}, **given)


SIGNALS = {
    # name: (scene, what it is told)
    "the model beside it answers": (busy(), ["freeze"]),
    "it answers and the job is frozen already": (busy(**FROZEN), []),
    "the model is quiet": (beside(), []),
    "quiet for half a second: it stays frozen": (beside(m_idle_since_s=T0_S - 0.5, **FROZEN), []),
    "quiet for a second": (beside(m_idle_since_s=T0_S - 1.0, **FROZEN), ["thaw"]),
    "no gate has spoken of the model: nothing justifies it": (beside(m_active=None, **FROZEN), ["thaw"]),
    "the model went aside": (beside(m_form="stopped", **FROZEN), ["thaw"]),
    "the model on another device answers": (busy(on=("gpu1",)), []),
    "a job that shares is never frozen": (busy(spec=job_spec(running=4, placement="share")), []),
    "one whose placement is another now": (busy(spec=job_spec(running=4, placement="share"), **FROZEN), ["thaw"]),
    "a parked one": (busy(form="parked"), []),
    "in shadow mode nobody is frozen": (with_mode(busy(), mode="shadow"), []),
    "in shadow mode nobody is left frozen": (with_mode(busy(**FROZEN), mode="shadow"), ["thaw"]),
    "while it moves": (busy().under_way("train", "running", "parked"), []),
}  # fmt: skip


@pytest.mark.parametrize("name", SIGNALS)
def test_freeze_and_thaw(name: str) -> None:
    scene, expected = SIGNALS[name]
    assert [a.what for a in decide(scene.s).actions if isinstance(a, Signal)] == expected


VERBS = ("stop", "kill", "cancel", "pause")


@pytest.mark.parametrize("verb", VERBS)
def test_a_frozen_job_is_thawed_before_it_is_asked_to_leave(verb: Any) -> None:
    scene = busy(**FROZEN)
    assert says(scene, SetWish(target="train", verb=verb)).accepted
    found = [a for a in decide(scene.s).actions if isinstance(a, Signal | Move)]
    assert isinstance(found[0], Signal) and found[0].what == "thaw"
    assert isinstance(found[1], Move) and found[1].holder == "train"


def train(scene: Scene) -> Job:
    job = scene.s.holders["train"]
    assert isinstance(job, Job)
    return job


def turned(scene: Scene, now_s: float) -> Scene:
    draft = scene.at(now_s).draft()
    decided(draft, decide(draft.view()))
    scene.s = draft.done()
    return scene


def test_frozen_time_is_no_running_time_and_it_says_that_it_is_frozen_and_why() -> None:
    scene = turned(busy(since_s=T0_S - 100.0), T0_S)
    job = train(scene)
    assert words.state(job, scene.s) == "frozen" and verdict(scene, "train").code == "frozen"
    assert ran_s(job, T0_S + 40.0) == 100.0
    scene.put(_quiet(scene))
    job = train(turned(scene, T0_S + 50.0))
    assert words.state(job, scene.s) == "running"
    assert ran_s(job, T0_S + 60.0) == pytest.approx(110.0)


def test_while_it_is_frozen_it_does_not_stall_and_uses_up_no_max_runtime() -> None:
    scene = busy(since_s=T0_S - 20.0)
    spec = replace(train(scene).spec, stall_after_s=30.0, max_runtime_s=30.0)
    scene = turned(scene.put(replace(train(scene), spec=spec)), T0_S)
    for now_s in (T0_S + 20.0, T0_S + 45.0):
        job = train(turned(scene, now_s))
        assert job.frozen_by_gate and not job.stalled and job.wish == "run"
    scene.put(_quiet(scene))
    job = train(turned(scene, T0_S + 50.0))
    assert (told.stalls_s(job), budgets.due_s(job)) == (T0_S + 60.0, T0_S + 60.0)
    job = train(turned(scene, T0_S + 61.0))
    assert job.stalled and job.wish == "pause"


def _quiet(scene: Scene) -> Any:
    chat = scene.s.holders["chat"]
    return type(chat)(**{**{n: getattr(chat, n) for n in chat.__dataclass_fields__}, "active": 0})


def test_one_that_ends_while_it_is_frozen_is_not_frozen_any_more() -> None:
    scene = busy(since_s=T0_S - 100.0, **FROZEN)
    draft = scene.draft()
    run_ended(draft, scene.s.holders["train"])
    over = draft.done().holders["train"]
    assert (over.frozen_by_gate, over.ran_s) == (False, 95.0)  # type: ignore[attr-defined]


def test_in_a_whole_world_it_runs_beside_the_model_and_stands_while_that_answers() -> None:
    world = World({"gpu0": 48 * GIB})
    world.service(service_spec("chat", 16), Habit(bytes_=16 * GIB, start_s=2.0))
    job = world.job(YIELD, Habit(bytes_=4 * GIB))
    assert world.run(60.0, until=lambda: world.form(job) == "running")
    world.ask("chat", takes_s=20.0)
    assert world.run(60.0, until=lambda: world.frozen(job))
    asked_s = world.first("gate.open", "chat")
    assert world.now_s - asked_s < 0.2
    assert world.run(60.0, until=lambda: not world.frozen(job))
    assert world.form(job) == "running" and world.wrong == []


# ---------------------------------------------------------------- window

NIGHTLY = job_spec(parked=1, placement="window")
LATER = window(begin_s=300.0, end_s=600.0)
PLACES = {
    # name: (scene, code of the job)
    "no window is open": (Scene(24).job(NIGHTLY, "stopped"), "outside_window"),
    "one is open": (under(Scene(24).job(NIGHTLY, "stopped"), window("slow_wake")), "goes"),
    "a parked one goes on in a window only": (Scene(24).job(NIGHTLY, "parked"), "outside_window"),
    "in place of a quiet model that the window is over": (
        under(Scene(24).service(last_end_s=T0_S - 900).job(NIGHTLY, "stopped"), window("slow_wake")), "goes",
    ),
    "in place of one that it is not over": (
        under(Scene(24).service(last_end_s=T0_S - 900).job(NIGHTLY, "stopped"), window("slow_wake", services=("code",))),
        "outside_window",
    ),
    "beside one that is awake it never runs, whatever fits": (
        under(Scene(48).service(**BUSY).job(NIGHTLY, "stopped"), window("slow_wake")), "beside_model",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_where_a_window_job_runs(name: str) -> None:
    scene, expected = PLACES[name]
    assert settled(scene.read(), "train").code == expected


STUCK = job_spec(steps_aside=False)
TIED = {
    # name: (scene, code of the job)
    "where a model uses its device": (Scene(24).service(form="stopped").job(STUCK, "stopped"), "no_way_aside"),
    "a person said anyway": (Scene(24).service(form="stopped").job(STUCK, "stopped", anyway=True), "goes"),
    "where there is no model": (Scene(24).job(STUCK, "stopped"), "goes"),
    "in a window over that model": (
        under(Scene(24).service(form="stopped").job(STUCK, "stopped"), window("slow_wake")), "goes",
    ),
    "in a window over another": (
        under(Scene(24).service(form="stopped").job(STUCK, "stopped"), window("slow_wake", services=("code",))),
        "no_way_aside",
    ),
    "on a device that no model uses": (Scene(24, 24).service().job(STUCK, "stopped"), "goes"),
    "beside a model, where it fits": (
        Scene(48).service().job(job_spec(steps_aside=False, placement="share"), "stopped"), "goes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TIED)
def test_where_a_job_runs_that_cannot_step_aside(name: str) -> None:
    scene, expected = TIED[name]
    assert settled(scene.read(), "train").code == expected


def test_a_job_that_cannot_step_aside_reserves_no_device_that_it_may_not_have() -> None:
    scene = (
        Scene(24)
        .service(form="stopped")
        .job(STUCK, "stopped", key=-1e9)
        .job(job_spec("other", 20), "stopped")
    )
    scene = with_mode(scene, policy=Policy(reserve_after_s=1.0))
    assert settled(scene.read(), "train").code == "no_way_aside"
    assert settled(scene, "other").code == "goes"


def test_one_that_cannot_step_aside_leaves_at_the_end_of_its_window_where_a_model_uses_its_device() -> None:
    scene = Scene(24).service(form="stopped").job(STUCK)
    assert stays(under(scene, window("slow_wake")), "train") is None
    assert stays(under(scene, window("slow_wake", end_s=0.0)), "train") == ("no_way_aside", "stopped")


def test_it_says_when_the_next_window_begins() -> None:
    assert verdict(under(Scene(24).job(NIGHTLY, "stopped"), LATER), "train").until_s == T0_S + 300.0


def test_it_steps_aside_at_the_end_of_its_window() -> None:
    scene = Scene(24).job(NIGHTLY)
    assert stays(under(scene, window("slow_wake")), "train") is None
    assert stays(under(scene, window("slow_wake", end_s=0.0)), "train") == ("outside_window", "parked")


def test_a_window_by_hand_starts_it_and_its_end_parks_it() -> None:
    world = World({"gpu0": 24 * GIB})
    job = world.job(NIGHTLY, Habit(bytes_=14 * GIB, residue=GIB))
    world.run(30.0)
    assert world.form(job) == "stopped"
    world.command(StartWindow(kind="slow_wake", for_s=100.0))
    assert world.run(30.0, until=lambda: world.form(job) == "running")
    assert world.run(120.0, until=lambda: world.form(job) == "parked")
    assert world.wrong == []
