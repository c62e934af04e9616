"""A model server that ends by itself is told as that, in whatever order the world says so."""

from dataclasses import replace

import pytest

from headway.core.decide import decide
from headway.core.facts import Observed, RunSeen
from headway.core.model import Exit, Gate, Move, Run, Service
from tests.core.make import T0_S, Scene, gib, moving, reading, service_spec

pytestmark = pytest.mark.core

KILLED = Exit(code=-9, at_s=T0_S - 2.0)
ALIVE = Run(id="chat.1", lock_held=True, pid=4711)


def served() -> Scene:
    """A service that answered something since it woke, with its run."""
    return Scene(24).service(service_spec(), run=ALIVE, last_end_s=T0_S - 0.5, since_s=T0_S - 60.0)


def seen(gone: bool) -> RunSeen:
    return RunSeen(holder="chat", run_id="chat.1", lock_held=not gone, pid=4711, exit=KILLED, gone=gone)


def chat(scene: Scene) -> Service:
    service = scene.s.service("chat")
    assert service is not None
    return service


def test_a_probe_that_finds_nobody_leaves_the_end_to_the_run() -> None:
    scene = served()
    assert scene.happens(Observed(holder="chat", at_s=T0_S, form="stopped", down=True)) == []
    assert chat(scene).form == "awake"
    assert [event.code for event in scene.happens(seen(gone=True))] == ["run.exit", "service.died"]
    assert (chat(scene).form, chat(scene).devices) == ("stopped", ())


def test_one_that_died_before_it_was_asked_to_leave_died_by_itself() -> None:
    scene = served().under_way("chat", "awake", "stopped", started_s=T0_S - 1.0)
    assert "service.died" in [event.code for event in scene.happens(seen(gone=True))]
    assert "chat" not in scene.s.pending


def test_one_that_ended_after_it_was_asked_to_did_as_it_was_told() -> None:
    scene = served().under_way("chat", "awake", "stopped", started_s=T0_S - 3.0)
    assert "service.died" not in [event.code for event in scene.happens(seen(gone=True))]
    assert scene.s.pending["chat"].step == "answered", "its memory is measured"


def test_a_start_whose_process_ends_is_a_failed_move() -> None:
    scene = Scene(24).service(service_spec(), form="stopped", run=ALIVE)
    scene.put(chat(scene), moving("chat", "stopped", "awake", creates=True))
    events = scene.happens(seen(gone=True))
    assert [event.code for event in events] == ["run.exit", "move.failed"]
    assert events[1].facts["reason"] == "server_exited"
    assert chat(scene).failures == 1


def test_what_a_dead_leader_left_is_ended_though_its_engine_cannot_be_asked() -> None:
    spec = replace(service_spec(), reads_busy=True)
    left = replace(ALIVE, exit=KILLED)
    gate = Gate(wish="closed", closed=True, rev=2)
    scene = Scene(24).service(spec, run=left, gate=gate, drained_s=T0_S - 1.0, engine_active=None)
    (move,) = [action for action in decide(scene.s).actions if isinstance(action, Move)]
    assert (move.holder, move.form) == ("chat", "stopped")


KEPT = {  # name: (declared residue GiB or None, GiB seen asleep, told?)
    "its declared residue and a little": (1.0, 1.06, False),
    "more than it declared": (1.0, 1.2, True),
    "a small residue that nobody declared": (None, 0.5, False),
    "most of its memory, and nobody declared anything": (None, 9.0, True),
}


@pytest.mark.parametrize(("declared", "held", "told"), KEPT.values(), ids=KEPT.keys())
def test_a_server_that_sleeps_by_itself_and_keeps_memory_is_told_once(
    declared: float | None, held: float, told: bool
) -> None:
    spec = service_spec(asleep=1.0)
    forms = (
        spec.forms[0],
        replace(spec.forms[1], declared_bytes=None if declared is None else gib(declared)),
    )
    spec = replace(spec, forms=(*forms, spec.forms[2]))
    scene = Scene(24).service(spec, form="asleep", run=ALIVE, since_s=T0_S - 60.0)
    events = [
        event.code
        for later_s in (0.0, 1.0, 2.0)
        for event in scene.at(T0_S + later_s).happens(reading("gpu0", 24, scene.s.now_s, {"chat": gib(held)}))
    ]
    assert events.count("memory.not_released") == int(told)
