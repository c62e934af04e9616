"""The next safe step: free before it is given, one exclusive move per device, the ladder when a limit passed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core import fold, steps
from headway.core.decide import decide
from headway.core.model import (
    Action,
    CloseGate,
    Decision,
    Gate,
    Measure,
    Move,
    OpenGate,
    Policy,
    Verdict,
    Waiting,
)
from tests.core.make import SLEEP, START, STOP, WAKE, Scene, dev, gib, job_spec, service_spec

pytestmark = pytest.mark.core

NOW_S = 1000.0
GPU = (dev("gpu0"),)
ASKED = {"attended": Waiting(n=1, since_s=NOW_S - 1)}
CLOSED = Gate(wish="closed", closed=True, rev=2)


def said(decision: Decision) -> list[tuple[str, ...]]:
    """The actions in words, readings left out."""
    return [words(action) for action in decision.actions if not isinstance(action, Measure)]


def words(action: Action) -> tuple[str, ...]:
    match action:
        case Move():
            return (action.holder, action.form, *(["kill"] if action.kill else []))
        case OpenGate():
            return (action.holder, "open")
        case CloseGate():
            return (action.holder, "close")
        case _:
            return ("?",)


def model_away(**given: Any) -> Scene:
    return Scene(24).service(form="stopped", demand=ASKED, **given)


CASES: dict[str, tuple[Scene, list[tuple[str, ...]]]] = {
    "memory is freed before it is given": (model_away().job(), [("train", "stopped")]),
    "nothing is taken while it is being freed": (
        model_away().job().under_way("train", "running", "stopped"),
        [],
    ),
    "what is free is given at once": (model_away(), [("chat", "awake")]),
    "a model that is up and ready opens its gate": (
        Scene(24).service(gate=CLOSED, demand=ASKED),
        [("chat", "open")],
    ),
    "one that is not ready does not": (Scene(24).service(gate=CLOSED, ready=False, demand=ASKED), []),
    "one without an address does not": (Scene(24).service(gate=CLOSED, upstream=None, demand=ASKED), []),
    "a model that died closes its gate, and is not started before": (
        Scene(24).service(form="stopped", gate=Gate(wish="open", rev=1), demand=ASKED),
        [("chat", "close")],
    ),
    "it is started when its gate said closed": (
        model_away(gate=replace(CLOSED, closed=True)),
        [("chat", "awake")],
    ),
    "not while a gate has not said so": (model_away(gate=replace(CLOSED, closed=False)), []),
    "not while a request is still with it": (model_away(gate=replace(CLOSED, pinning=1)), []),
    "a model is drained first": (Scene(24).service().job(form="stopped"), [("chat", "close")]),
    "closed by every gate and empty, it is stopped": (
        Scene(24).service(gate=CLOSED, drained_s=NOW_S - 1).job(form="stopped"),
        [("chat", "stopped")],
    ),
    "not while a gate has not closed": (
        Scene(24).service(gate=replace(CLOSED, closed=False)).job(form="stopped"),
        [],
    ),
    "not while requests are with it": (
        Scene(24).service(gate=replace(CLOSED, pinning=2)).job(form="stopped"),
        [],
    ),
    "not before its engine was read idle after that": (
        Scene(24)
        .service(
            service_spec(reads_busy=True),
            gate=CLOSED,
            drained_s=NOW_S - 1,
            engine_active=0,
            engine_read_s=NOW_S - 2,
        )
        .job(form="stopped"),
        [],
    ),
    "its engine was read idle after that": (
        Scene(24)
        .service(
            service_spec(reads_busy=True),
            gate=CLOSED,
            drained_s=NOW_S - 2,
            engine_active=0,
            engine_read_s=NOW_S - 1,
        )
        .job(form="stopped"),
        [("chat", "stopped")],
    ),
    "a close that is not needed any more is undone": (
        Scene(24).service(gate=replace(CLOSED, closed=False), demand=ASKED).job(form="stopped"),
        [("chat", "open")],
    ),
    "a kill does not wait for requests, and closes": (
        Scene(24).service(wish="kill", active=1, active_since_s=NOW_S),
        [("chat", "close"), ("chat", "stopped", "kill")],
    ),
    "but of one that others started, which only goes to sleep, it does": (
        Scene(24).service(
            service_spec(asleep=1, argv=()), wish="kill", gate=replace(CLOSED, pinning=1), active=1
        ),
        [],
    ),
    "and then it sleeps": (
        Scene(24).service(service_spec(asleep=1, argv=()), wish="kill", gate=CLOSED, drained_s=1.0),
        [("chat", "asleep", "kill")],
    ),
    "two stops of jobs go side by side": (
        Scene(48, policy=Policy(max_active_jobs=2))
        .service(service_spec(awake=40), "stopped", demand=ASKED)
        .job(job_spec("a", 10))
        .job(job_spec("b", 10)),
        [("a", "stopped"), ("b", "stopped")],
    ),
    "two sleeps on one device go one after the other": (
        Scene(80)
        .service(service_spec("a", 8, 1), gate=CLOSED, drained_s=1.0)
        .service(service_spec("b", 8, 1), gate=CLOSED, drained_s=1.0)
        .job(form="stopped"),
        [("a", "asleep")],
    ),
    "no sleep beside the stop of a job": (
        Scene(80)
        .service(service_spec("a", 8, 1), gate=CLOSED, drained_s=1.0, wish="hold")
        .job(job_spec("b", 8, placement="share"), wish="stop", key=-1e9),
        [("b", "stopped")],
    ),
    "a sleep that was asked for goes before a start": (
        Scene(80)
        .service(service_spec("a", 8, 1), gate=CLOSED, drained_s=1.0, wish="hold")
        .service(service_spec("b", 8), "stopped", demand=ASKED),
        [("a", "asleep")],
    ),
    "no sleep beside a start": (
        Scene(80, policy=Policy(max_active_jobs=2))
        .service(service_spec("a", 8, 1), gate=CLOSED, drained_s=1.0)
        .service(service_spec("b", 8), "stopped", devices=GPU)
        .under_way(
            "b",
            "stopped",
            "awake",
        )
        .job(form="stopped"),
        [],
    ),
    "one start at a time on a device": (
        model_away().service(service_spec("b", 2), "stopped", devices=GPU).under_way("b", "stopped", "awake"),
        [],
    ),
    "a start may begin beside a job that is parking, when it fits already": (
        Scene(48)
        .service(form="stopped", demand=ASKED)
        .job(job_spec(parked=1))
        .under_way(
            "train",
            "running",
            "parked",
        ),
        [("chat", "awake")],
    ),
    "not one that measures the device while it starts": (
        Scene(48)
        .service(service_spec(moves=(replace(START, exclusive=True), STOP)), "stopped", demand=ASKED)
        .job(job_spec(parked=1))
        .under_way("train", "running", "parked"),
        [],
    ),
    "a way there that needs two moves takes the first": (
        Scene(16)
        .service(
            service_spec(awake=12, asleep=1, moves=(START, SLEEP, WAKE, replace(STOP, source="asleep"))),
            gate=CLOSED,
            drained_s=1.0,
        )
        .service(service_spec("big", 15.7), "stopped", demand=ASKED),
        [("chat", "asleep")],
    ),
    "a move within its limit is waited for": (Scene(24).job().under_way("train", "running", "stopped"), []),
    "a stop past its limit is a kill": (
        Scene(24).job().under_way("train", "running", "stopped", limit_at_s=NOW_S),
        [("train", "stopped", "kill")],
    ),
    "a park past its limit is a hard stop": (
        Scene(24).job(job_spec(parked=1)).under_way("train", "running", "parked", limit_at_s=NOW_S),
        [("train", "stopped", "kill")],
    ),
    "a sleep past its limit is a stop": (
        Scene(24).service(service_spec(asleep=1)).under_way("chat", "awake", "asleep", limit_at_s=NOW_S),
        [("chat", "stopped")],
    ),
    "a stop of a model past its limit is a kill": (
        Scene(24).service().under_way("chat", "awake", "stopped", limit_at_s=NOW_S),
        [("chat", "stopped", "kill")],
    ),
    "a start has a moment more than its limit, for its driver to give up": (
        model_away(devices=GPU).under_way("chat", "stopped", "awake", limit_at_s=NOW_S - 4.9),
        [],
    ),
    "then it is ended": (
        model_away(devices=GPU).under_way("chat", "stopped", "awake", limit_at_s=NOW_S - 5),
        [("chat", "stopped")],
    ),
    "a wake that hangs is ended too": (
        Scene(24)
        .service(service_spec(asleep=1), "asleep", demand=ASKED)
        .under_way(
            "chat",
            "asleep",
            "awake",
            limit_at_s=NOW_S - 5,
        ),
        [("chat", "stopped")],
    ),
    "what others started is never ended by us": (
        Scene(24).service(service_spec(argv=())).under_way("chat", "awake", "asleep", limit_at_s=NOW_S - 99),
        [],
    ),
    "a stop that comes while it starts is not kept waiting": (
        Scene(24).job(form="stopped", wish="stop", devices=GPU).under_way("train", "stopped", "running"),
        [("train", "stopped")],
    ),
    "nor is a cancel": (
        Scene(24).job(form="stopped", wish="cancel", devices=GPU).under_way("train", "stopped", "running"),
        [("train", "stopped")],
    ),
    "a kill that comes while it stops takes the grace away": (
        Scene(24).job(wish="kill").under_way("train", "running", "stopped"),
        [("train", "stopped", "kill")],
    ),
    "a kill is asked once": (
        Scene(24).job(wish="kill").under_way("train", "running", "stopped", kill=True),
        [],
    ),
    "in shadow mode nothing is done": (model_away().job(), []),
}


@pytest.mark.parametrize("name", CASES)
def test_steps(name: str) -> None:
    scene, expected = CASES[name]
    if name.startswith("in shadow"):
        scene.s = replace(scene.s, mode="shadow")
    assert said(decide(scene.read().s)) == expected


# ---------------------------------------------------------------- what a move waits for


def waits(scene: Scene, hid: str) -> Verdict:
    return decide(scene.s).verdicts[hid]


def test_a_shortfall_is_told_in_figures() -> None:
    scene = Scene(24).job(job_spec(parked=1)).read()
    scene.under_way("train", "running", "parked", step="answered", answered_s=NOW_S - 0.5)
    found = waits(scene, "train")
    assert found.code == "not_released"
    assert found.facts["held"] == {"gpu0": gib(14)} and found.facts["expected_bytes"] == gib(1)
    assert found.facts["pid"] == 4711


def test_before_a_reading_it_is_being_verified() -> None:
    scene = Scene(24).job().under_way("train", "running", "stopped", step="answered", answered_s=NOW_S)
    assert waits(scene, "train").code == "verifying"
    assert Measure(devices=GPU) in decide(scene.s).actions


def test_taking_waits_until_what_was_said_to_be_free_is_measured_free() -> None:
    scene = model_away().job().read()
    scene.under_way("train", "running", "stopped", step="answered", answered_s=NOW_S - 0.5)
    assert said(decide(scene.s)) == []
    draft = scene.draft()
    draft.put(replace(scene.s.holders["train"], seen_bytes={}, run=None))
    scene.s = draft.done()
    scene.at(NOW_S + 0.1).read()
    assert scene.s.holders["train"].form == "stopped"
    assert said(decide(scene.s)) == [("chat", "awake")]


def test_a_reading_from_before_an_exit_starts_nothing_and_asks_for_another() -> None:
    scene = model_away().read()
    draft = scene.draft()
    draft.touch(GPU)
    scene.s = draft.done()
    assert waits(scene, "chat").code == "reading_too_old"
    assert decide(scene.s).actions == (Measure(devices=GPU),)


def test_without_a_reading_a_model_is_woken_only_when_nobody_else_can_be_there() -> None:
    alone = Scene(24).service(form="stopped", demand=ASKED).read()
    alone.s = replace(alone.s, meter_trouble="hangs")
    assert said(decide(alone.s)) == [("chat", "awake")]
    other = Scene(48).service(form="stopped", demand=ASKED).job(job_spec(placement="share")).read()
    other.s = replace(other.s, meter_trouble="hangs")
    assert said(decide(other.s)) == []


# ---------------------------------------------------------------- limits


LIMITS = {
    # name: (measured seconds to step aside, its driver's limit, grace, expected)
    "twice what it takes": (12.0, 60.0, 2.0, 24.0),
    "at least 10 s": (1.0, 60.0, 2.0, 10.0),
    "at most a minute": (50.0, 300.0, 2.0, 60.0),
    "never above its driver's own": (12.0, 15.0, 2.0, 15.0),
    "its driver's own where nothing was measured": (None, 33.0, 2.0, 33.0),
    "a stop has its grace and 5 s": (1.0, 60.0, 30.0, 35.0),
}


@pytest.mark.parametrize("name", LIMITS)
def test_the_limit_of_a_release(name: str) -> None:
    takes_s, limit_s, grace_s, expected = LIMITS[name]
    spec = service_spec(moves=(START, replace(STOP, limit_s=limit_s)), stop_grace_s=grace_s)
    forms = (*spec.forms[:-1], replace(spec.forms[-1], enter_s=takes_s))
    scene = Scene(24).service(spec, forms=forms, gate=CLOSED, drained_s=1.0).job(form="stopped").read()
    assert [move.limit_s for move in decide(scene.s).actions if isinstance(move, Move)] == [expected]


def test_a_limit_that_passed_is_noted_on_the_next_rung() -> None:
    scene = Scene(24).job(job_spec(parked=1)).under_way("train", "running", "parked", limit_at_s=NOW_S).read()
    draft = scene.draft()
    fold.decided(draft, decide(scene.s))
    pending = draft.done().pending["train"]
    assert (pending.rung, pending.source, pending.to, pending.kill) == (1, "running", "stopped", True)
    assert pending.started_s == NOW_S - 1  # one clock for all rungs
    assert steps.limit_at_s(pending) == NOW_S + 10


OTHER = service_spec("other", 16, argv=())  # somebody else starts it
BLIND = {
    # name: (what else there is, what is done for a model that is asked for)
    "a model comes back although the meter says nothing": (model_away(), [("chat", "awake")]),
    "but not beside a server that somebody else started": (model_away().service(OTHER, run=None), []),
    "nor while one that makes room has not yet": (
        model_away().service(service_spec("other", 16, asleep=1, argv=()), run=None),
        [("other", "close")],
    ),
    "nor beside one that sleeps": (
        model_away().service(service_spec("other", 16, asleep=1, argv=()), "asleep", run=None),
        [],
    ),
    "nor where nobody knows on which device it is": (model_away().service(OTHER, on=(), run=None), []),
    "nor beside one whose form is not known": (model_away().service(OTHER, None, run=None), []),
    "once that is gone it does": (model_away().service(OTHER, "stopped", run=None), [("chat", "awake")]),
    "on a device of its own it does": (
        Scene(24, 24).service(form="stopped", demand=ASKED).service(OTHER, on=("gpu1",), run=None),
        [("chat", "awake")],
    ),
    "nor beside a job that lives": (
        model_away().job(job_spec(placement="share")),
        [("train", "stopped")],
    ),
}


@pytest.mark.parametrize("name", BLIND)
def test_the_way_back_of_a_model_without_a_meter(name: str) -> None:
    scene, expected = BLIND[name]
    scene.read(free_bytes=None, used_bytes=None, trouble="it answers N/A")
    assert said(decide(scene.s)) == expected
