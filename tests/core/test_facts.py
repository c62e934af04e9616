"""What probes, gates, readings and jobs tell, and what that changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core.decide import decide
from headway.core.facts import (
    GateState,
    GateStuck,
    JobTold,
    MeterSilent,
    MoveAnswered,
    Observed,
    RunSeen,
    StoreState,
)
from headway.core.model import Exit, Gate, Holder, Job, OpenGate, Service, Waiting
from tests.core.make import Scene, dev, gib, job_spec, reading, service_spec

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


# ---------------------------------------------------------------- servers


def test_a_server_that_dies_after_it_answered_is_no_failure() -> None:
    scene = Scene(24).service(last_end_s=NOW_S - 5)
    events = scene.happens(gone("chat", -9))
    assert (chat(scene).form, chat(scene).ready, chat(scene).upstream, chat(scene).failures) == (
        "stopped",
        False,
        None,
        0,
    )
    assert "service.died" in [event.code for event in events]
    assert scene.s.devices[GPU[0]].last_change_s == NOW_S


def test_a_server_that_dies_again_and_again_before_it_answers_is_one() -> None:
    scene = Scene(24).service(since_s=NOW_S - 5)
    scene.happens(gone("chat", 1))
    assert (chat(scene).failures, chat(scene).retry_at_s) == (1, None)
    scene.under_way("chat", "stopped", "awake", run_id="chat.2")
    alive = RunSeen(holder="chat", run_id="chat.2", lock_held=True, pid=1)
    scene.happens(alive, MoveAnswered(holder="chat", to="awake", run_id="chat.2"), gone("chat", 1, run=2))
    assert (chat(scene).failures, chat(scene).retry_at_s) == (2, NOW_S + 15)


def test_a_server_that_exits_while_it_starts_ends_the_start() -> None:
    scene = Scene(24).service(form="stopped", devices=GPU).under_way("chat", "stopped", "awake")
    scene.happens(gone("chat", 1))
    assert (scene.s.pending, chat(scene).failures, chat(scene).note) == ({}, 1, "server_exited")


OBSERVED: dict[str, tuple[Scene, Observed, dict[str, Any]]] = {
    "first seen awake, it is awake since it was": (
        Scene(24).service(form=None, since_s=5.0),
        Observed(holder="chat", at_s=NOW_S, form="awake", ready=True, upstream="http://x"),
        {"form": "awake", "ready": True, "since_s": 5.0, "upstream": "http://x"},
    ),
    "asleep by itself": (
        Scene(24).service(service_spec(asleep=1)),
        Observed(holder="chat", at_s=NOW_S, form="asleep"),
        {"form": "asleep", "ready": False, "since_s": NOW_S},
    ),
    "a probe from before its last move says nothing of its form": (
        Scene(24).service(since_s=NOW_S),
        Observed(holder="chat", at_s=NOW_S - 1, form="stopped"),
        {"form": "awake"},
    ),
    "a probe beside a move says nothing of its form": (
        Scene(24).service().under_way("chat", "awake", "stopped"),
        Observed(holder="chat", at_s=NOW_S, form="stopped"),
        {"form": "awake"},
    ),
    "but tells whether its engine is busy": (
        Scene(24).service().under_way("chat", "awake", "stopped"),
        Observed(holder="chat", at_s=NOW_S, form="awake", engine_active=3),
        {"engine_active": 3, "engine_read_s": NOW_S},
    ),
    "an engine that cannot be read is unread": (
        Scene(24).service(engine_active=0, engine_read_s=1.0),
        Observed(holder="chat", at_s=NOW_S, form="awake"),
        {"engine_active": None, "engine_read_s": 1.0},
    ),
    "nothing listens, and its run lives: it is believed to hang, not to be gone": (
        Scene(24).service(),
        Observed(holder="chat", at_s=NOW_S, form=None, down=True),
        {"form": "awake"},
    ),
    "nothing listens, and no run of ours lives": (
        Scene(24).service(service_spec(argv=()), run=None),
        Observed(holder="chat", at_s=NOW_S, form=None, down=True),
        {"form": "stopped", "ready": False},
    ),
    "awake and not ready": (
        Scene(24).service(),
        Observed(holder="chat", at_s=NOW_S, form="awake", ready=False),
        {"form": "awake", "ready": False},
    ),
}


@pytest.mark.parametrize("name", OBSERVED)
def test_observed(name: str) -> None:
    scene, fact, expected = OBSERVED[name]
    scene.happens(fact)
    assert {field: getattr(chat(scene), field) for field in expected} == expected


# ---------------------------------------------------------------- gates


def state(rev: int = 1, **given: Any) -> GateState:
    defaults: dict[str, Any] = {"closed": False, "pinning": 0, "active": 0}
    return GateState(service="chat", rev=rev, **{**defaults, **given})


def test_a_gate_that_speaks_of_an_older_order_says_nothing() -> None:
    scene = Scene(24).service(gate=Gate(wish="closed", rev=5), active=2)
    scene.happens(state(rev=4, closed=True))
    assert not chat(scene).gate.drained and chat(scene).active == 2


def test_drained_is_closed_and_empty_at_the_last_order_and_since_when() -> None:
    scene = Scene(24).service(gate=Gate(wish="closed", rev=5), active=2)
    scene.happens(state(rev=5, closed=True, pinning=2, active=2))
    assert chat(scene).drained_s is None
    scene.at(NOW_S + 1).happens(state(rev=5, closed=True))
    scene.at(NOW_S + 2).happens(state(rev=5, closed=True))
    assert chat(scene).gate.drained and chat(scene).drained_s == NOW_S + 1


def test_active_and_idle_are_told_from_when_they_began() -> None:
    scene = Scene(24).service()
    scene.at(NOW_S + 1).happens(state(active=1))
    scene.at(NOW_S + 2).happens(state(active=2))
    assert chat(scene).active_since_s == NOW_S + 1
    scene.at(NOW_S + 3).happens(state(last_end_s=NOW_S + 3))
    found = chat(scene)
    assert (found.active_since_s, found.idle_since_s, found.last_end_s) == (None, NOW_S + 3, NOW_S + 3)


def test_demand_of_nobody_is_no_demand() -> None:
    scene = Scene(24).service()
    scene.happens(
        state(demand={"attended": Waiting(n=0, since_s=1.0), "background": Waiting(n=1, since_s=2.0)})
    )
    assert set(chat(scene).demand) == {"background"}


# ---------------------------------------------------------------- readings and the rest


def test_an_older_reading_never_overwrites_a_newer_one() -> None:
    scene = Scene(24).read()
    scene.happens(reading("gpu0", 24, NOW_S - 1, foreign=gib(9)))
    assert scene.s.devices[GPU[0]].foreign_bytes == 0


def test_a_reading_in_trouble_keeps_the_time_of_the_last_good_one_and_is_told_once() -> None:
    scene = Scene(24).read()
    lost = reading("gpu0", 24, NOW_S + 1, used_bytes=None, free_bytes=None, trouble="N/A")
    events = scene.happens(lost, replace(lost, at_s=NOW_S + 2))
    found = scene.s.devices[GPU[0]]
    assert (found.free_bytes, found.used_bytes, found.read_at_s, found.trouble) == (None, None, NOW_S, "N/A")
    assert found.ever_read and [event.code for event in events] == ["device.trouble"]


def test_the_peak_of_a_known_form_is_learned_and_one_above_its_word_is_told() -> None:
    scene = Scene(24).job(seen_bytes={})
    events = scene.happens(
        reading("gpu0", 24, NOW_S + 1, {"train": gib(16)}),
        reading("gpu0", 24, NOW_S + 2, {"train": gib(9)}),
    )
    assert job(scene).need_bytes("running") == gib(16) and job(scene).seen_bytes == {GPU[0]: gib(9)}
    assert [event.code for event in events] == ["holder.overrun"]


def test_a_need_that_is_not_known_is_learned_when_its_run_is_over_not_while_it_may_grow() -> None:
    scene = Scene(24).job(job_spec(running=None, resumable=True), seen_bytes={})
    scene.happens(reading("gpu0", 24, NOW_S + 1, {"train": gib(1)}))
    assert job(scene).need_bytes("running") is None
    scene.at(NOW_S + 9).happens(reading("gpu0", 24, NOW_S + 9, {"train": gib(7)}))
    scene.happens(gone(code=None))
    assert job(scene).need_bytes("running") == gib(7)


def test_what_a_sleeper_keeps_is_learned_only_when_it_has_settled() -> None:
    scene = Scene(24).service(service_spec(asleep=None), "awake")
    scene = Scene(24).service(service_spec(asleep=1), "asleep", since_s=NOW_S)
    scene.at(NOW_S + 9).happens(reading("gpu0", 24, NOW_S + 9, {"chat": gib(16)}))
    assert chat(scene).need_bytes("asleep") == gib(1)
    scene.at(NOW_S + 10).happens(reading("gpu0", 24, NOW_S + 10, {"chat": gib(1.5)}))
    assert chat(scene).need_bytes("asleep") == gib(1.5)


def test_what_a_job_says() -> None:
    scene = Scene(24).job()
    told = JobTold(job="train", saved_point="a", saved_age_s=0.0, progress=0.5)
    events = scene.happens(told, told, JobTold(job="train", progress=0.6))
    found = job(scene)
    assert (found.saved_point, found.saved_age_s, found.progress) == ("a", 0.0, 0.6)
    assert [event.code for event in events] == ["job.saved"]


@pytest.mark.parametrize(("every_s", "told"), [(1.0, 5), (45.0, 5), (120.0, 3)])
def test_of_one_that_saves_often_a_point_a_minute_is_told_and_all_are_known(
    every_s: float, told: int
) -> None:
    scene = Scene(24).job(since_s=NOW_S)
    codes = []
    for number in range(int(299 / every_s) + 1):
        scene.at(NOW_S + number * every_s)
        codes += [one.code for one in scene.happens(JobTold(job="train", saved_point=str(number)))]
        assert (job(scene).saved_point, job(scene).saved_ran_s) == (str(number), number * every_s)
    assert codes == ["job.saved"] * told


def test_silence_is_noted_and_told() -> None:
    scene = Scene(24)
    events = scene.happens(MeterSilent(trouble="hangs"), StoreState(ok=False, trouble="full"))
    assert (scene.s.meter_trouble, scene.s.store_ok, scene.s.store_trouble) == ("hangs", False, "full")
    assert [(event.code, event.facts) for event in events] == [
        ("meter.silent", {"trouble": "hangs"}),
        ("store.silent", {"trouble": "full"}),
    ]
    scene.happens(StoreState(ok=True))
    assert (scene.s.store_ok, scene.s.store_trouble) == (True, None)


def test_facts_about_nobody_change_nothing() -> None:
    scene = Scene(24)
    before: dict[str, Holder] = dict(scene.s.holders)
    scene.happens(gone("ghost"), JobTold(job="ghost"), Observed(holder="ghost", at_s=1.0, form="awake"))
    scene.happens(replace(state(), service="ghost"))
    assert scene.s.holders == before


def test_a_gate_that_is_stuck_is_told_and_the_model_opens_again() -> None:
    """It was draining for a job; the job waits, and the gate is told to forward again."""
    closing = Gate(wish="closed", rev=4)
    scene = Scene(24).service(
        gate=closing, ready=True, upstream="http://u", since_s=NOW_S - 99, last_end_s=NOW_S - 60
    )
    scene.queue(job_spec("train", parked=1))
    events = scene.happens(GateStuck(service="chat", gate="g1"))
    assert [event.code for event in events] == ["gate.stuck"]
    decision = decide(scene.read().s)
    assert [action for action in decision.actions if isinstance(action, OpenGate)]
    assert decision.verdicts["j1"].code == "gate_stuck"
