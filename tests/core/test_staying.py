"""Servers that somebody else started and that do not step aside as asked: nobody waits for that for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from headway.core import fold, view
from headway.core.commands import SetWish
from headway.core.decide import decide
from headway.core.facts import MoveAnswered, Observed
from headway.core.model import CloseGate, Decision, Event, Form, Gate, Move, OpenGate, Service, Waiting
from headway.core.wishes import apply
from tests.core.make import T0_S, Scene, dev, gib, job_spec, reading, service_spec
from tests.core.messes import messy_scenes
from tests.core.scenes import deep

pytestmark = pytest.mark.core

GPU = (dev("gpu0"),)
URL = "http://127.0.0.1:1"
NO = MoveAnswered(holder="chat", to="asleep", error="driver_failed", facts={"detail": "404 to /sleep"})
SAYS_YES = MoveAnswered(holder="chat", to="asleep")


def asked_to_sleep(asleep: float | None = 1, **given: Any) -> Scene:
    """A job waits for a model that is not ours, drained, and asked to sleep a second ago: nine more seconds."""
    spec = service_spec(asleep=1, argv=())
    if asleep is None:
        spec = replace(spec, forms=tuple(Form(name=f.name, declared_bytes=None) for f in spec.forms))
        spec = replace(spec, forms=(service_spec().forms[0], *spec.forms[1:]))
    scene = Scene(24).service(spec, run=None, gate=Gate(wish="closed", closed=True, rev=2), **given)
    scene.queue(job_spec("train", 14))
    return scene.under_way("chat", "awake", "asleep", exclusive=True, run_id=None).read()


def turn(scene: Scene, at_s: float | None = None) -> tuple[Decision, list[Event]]:
    """One whole turn at that time: decided, and noted."""
    scene.at(scene.s.now_s if at_s is None else at_s)
    decision, draft = decide(scene.s), scene.draft()
    fold.decided(draft, decision)
    scene.s = draft.done()
    return decision, draft.events


def chat(scene: Scene) -> Service:
    service = scene.s.service("chat")
    assert service is not None
    return service


def refuses(scene: Scene) -> list[Event]:
    events = scene.happens(NO)
    return events + turn(scene)[1]


def never_answers(scene: Scene) -> list[Event]:
    assert turn(scene, T0_S + 8.9)[1] == [] and chat(scene).form == "awake"
    return turn(scene, T0_S + 9.0)[1]


def lies(scene: Scene) -> list[Event]:
    events = scene.happens(SAYS_YES) + scene.at(T0_S + 1).happens(shows(scene, 16))
    assert decide(scene.s).verdicts["chat"].code == "not_released"
    return events + turn(scene, T0_S + 9.0)[1]


def cannot_be_measured(scene: Scene) -> list[Event]:
    return scene.happens(SAYS_YES) + turn(scene, T0_S + 9.0)[1]


def shows(scene: Scene, size: float) -> Any:
    """A reading of now, in which the model holds that much."""
    return reading("gpu0", 24, scene.s.now_s, {"chat": gib(size)})


HOW = {
    # name: (what happens, form until it is looked at, note, codes of what is told)
    "it says that it cannot": (refuses, None, "driver_failed", ["move.failed"]),
    "it never answers": (never_answers, None, "limit_passed", ["move.failed"]),
    "it says that it sleeps, and keeps its memory": (
        lies,
        "asleep",
        "memory_not_released",
        ["move.answered", "memory.not_released"],
    ),
    "it says that it sleeps, and nobody can measure that": (
        cannot_be_measured,
        "asleep",
        "memory_not_released",
        ["move.answered"],
    ),
}


@pytest.mark.parametrize("name", HOW)
def test_such_a_move_ends_and_is_told_and_asked_again_only_later(name: str) -> None:
    happens, form, note, codes = HOW[name]
    scene = asked_to_sleep()
    events = happens(scene)
    found = chat(scene)
    assert "chat" not in scene.s.pending
    assert (found.form, found.note, [event.code for event in events]) == (form, note, codes)
    assert (found.stayed, found.stayed_until_s) == (1, scene.s.now_s + 15.0)
    assert found.devices == GPU and not found.ready, "until it is seen to let go, its memory is counted"


@pytest.mark.parametrize("happens", [refuses, never_answers])
def test_seen_awake_its_gate_opens_again_and_the_job_waits_for_the_pause(happens: Any) -> None:
    scene = asked_to_sleep()
    happens(scene)
    assert [a for a in decide(scene.s).actions if isinstance(a, OpenGate)] == [], "not before it is seen"
    scene.happens(Observed(holder="chat", at_s=scene.s.now_s, form="awake", ready=True, upstream=URL))
    decision, _ = turn(scene.read())
    assert [type(action) for action in decision.actions] == [OpenGate]
    no, until_s = decision.verdicts["j1"], chat(scene).stayed_until_s
    assert until_s is not None
    assert (no.code, no.until_s, decision.recheck_at_s) == ("stayed", until_s, until_s)
    decision, _ = turn(scene.at(until_s).read())
    assert [type(action) for action in decision.actions] == [CloseGate], "and then it is asked again"


def test_seen_asleep_after_all_a_request_wakes_it() -> None:
    scene = asked_to_sleep()
    never_answers(scene)
    scene.happens(Observed(holder="chat", at_s=scene.s.now_s, form="asleep"))
    assert_wakes(scene)


@pytest.mark.parametrize("happens", [lies, cannot_be_measured])
def test_one_that_keeps_its_memory_in_its_sleep_is_woken_by_a_request(happens: Any) -> None:
    scene = asked_to_sleep()
    happens(scene)
    scene.at(scene.s.now_s + 1).happens(shows(scene, 16))
    assert decide(scene.s).verdicts["j1"].code == "cannot_step_aside"
    assert_wakes(scene)


def assert_wakes(scene: Scene) -> None:
    scene.at(scene.s.now_s + 1).read()
    scene.put(replace(chat(scene), demand={"attended": Waiting(n=1, since_s=scene.s.now_s)}))
    moves = [a for a in turn(scene)[0].actions if isinstance(a, Move)]
    assert [(move.holder, move.form) for move in moves] == [("chat", "awake")]
    scene.happens(MoveAnswered(holder="chat", to="awake", upstream=URL))
    assert [type(a) for a in decide(scene.s).actions] == [OpenGate]


def test_it_stays_visible_that_it_keeps_its_memory_until_that_is_gone() -> None:
    scene = asked_to_sleep()
    lies(scene)
    for later_s in (1.0, 11.0, 60.0):
        scene.at(T0_S + 9.0 + later_s)
        assert scene.happens(shows(scene, 16)) == [], "told once"
        why = view.explain("chat", scene.s, decide(scene.s).verdicts)
        assert (why.code, "16 GiB" in why.sentence) == ("not_released", True)
        assert [trouble.code for trouble in view.troubles(scene.s)] == ["not_released"]
    assert chat(scene).need_bytes("asleep") == gib(1), "what it kept is no residue"
    scene.at(T0_S + 80.0)
    assert [event.code for event in scene.happens(shows(scene, 1))] == ["release.verified"]
    assert chat(scene).note is None and view.troubles(scene.s) == ()
    assert [a.form for a in decide(scene.s).actions if isinstance(a, Move)] == ["running"]


def test_a_small_residue_that_nobody_declared_is_learned_and_is_no_shortfall_the_next_time() -> None:
    scene = asked_to_sleep(asleep=None)
    scene.happens(SAYS_YES)
    scene.at(T0_S + 1).happens(shows(scene, 0.5))
    turn(scene, T0_S + 9.0)
    scene.at(T0_S + 19.0)
    assert [event.code for event in scene.happens(shows(scene, 0.5))] == ["release.verified"]
    assert (chat(scene).need_bytes("asleep"), chat(scene).note) == (gib(0.5), None)


def test_the_pause_grows_and_a_release_that_is_verified_ends_it() -> None:
    scene = asked_to_sleep(stayed=3)
    refuses(scene)
    assert (chat(scene).stayed, chat(scene).stayed_until_s) == (4, T0_S + 120.0)
    scene = asked_to_sleep(stayed=9)
    refuses(scene)
    assert chat(scene).stayed_until_s == T0_S + 300.0, "five minutes at most"
    scene = asked_to_sleep(stayed=3, stayed_until_s=T0_S - 1)
    scene.happens(SAYS_YES)
    scene.at(T0_S + 1).happens(shows(scene, 1))
    assert (chat(scene).form, chat(scene).stayed, chat(scene).stayed_until_s) == ("asleep", 0, None)


def test_a_person_who_asks_does_not_wait_for_the_pause() -> None:
    drained = Gate(wish="closed", closed=True, rev=2)
    scene = Scene(24).service(
        service_spec(asleep=1, argv=()), run=None, gate=drained, drained_s=1.0, stayed_until_s=T0_S + 60
    )
    draft = scene.read().draft()
    apply(draft, SetWish(target="chat", verb="hold", by="ana"))
    scene.s = draft.done()
    assert [a.form for a in decide(scene.s).actions if isinstance(a, Move)] == ["asleep"]


def test_who_asked_for_it_waits_with_its_gate_closed() -> None:
    """Held by a person, and it does not sleep: it is not opened again meanwhile."""
    drained = Gate(wish="closed", closed=True, rev=2)
    scene = Scene(24).service(
        service_spec(asleep=1, argv=()), run=None, gate=drained, drained_s=1.0, wish="hold"
    )
    scene.put(replace(chat(scene), stayed_until_s=T0_S + 60))
    decision = decide(scene.read().s)
    assert decision.actions == () and decision.verdicts["chat"].code == "stayed"
    assert decision.recheck_at_s == T0_S + 60


def test_nobody_has_the_device_kept_for_him_while_it_stays() -> None:
    scene = Scene(24).service(service_spec(argv=(), asleep=1), run=None, stayed_until_s=T0_S + 60)
    scene.job(job_spec("old", 14), "stopped", enqueued_s=T0_S - 4000, key=-1e9)
    scene.job(job_spec("small", 4, placement="share"), "stopped")
    verdicts = decide(scene.read().s).verdicts
    assert (verdicts["old"].code, verdicts["small"].code) == ("stayed", "goes")


@given(messy_scenes())
@deep(150)
def test_no_move_of_a_server_that_is_not_ours_outlives_its_limit(scene: Scene) -> None:
    for sid in scene.s.services:
        holder = scene.s.holders[sid]
        scene.put(replace(holder, spec=replace(holder.spec, argv=()), run=None))
    limits = [p.limit_at_s for p in scene.s.pending.values()]
    turn(scene, max([scene.s.now_s, *limits]) + 6.0)
    for sid in scene.s.services:
        moving = scene.s.pending.get(sid)
        assert moving is None or moving.limit_at_s > scene.s.now_s
