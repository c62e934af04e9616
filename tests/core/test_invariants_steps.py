"""What a step may never do: two at once, take beside an unverified release, leave a driver's table, outrun a gate."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core import fold
from headway.core.decide import decide
from headway.core.model import (
    CloseGate,
    Decision,
    Gate,
    Holder,
    Job,
    Lease,
    Move,
    MoveRule,
    OpenGate,
    Service,
    Snapshot,
    Waiting,
    Wish,
)
from tests.core.make import SLEEP, START, STOP, Scene, dev, gib, job_spec, service_spec
from tests.core.messes import messy_scenes, overlaps
from tests.core.scenes import carried_out, crowds, deep, rest, scenes

pytestmark = pytest.mark.core

NOW_S = 1000.0
GPU = (dev("gpu0"),)
START_MORE_S = 5.0  # what a start has beyond its limit


def moves_of(decision: Decision) -> list[Move]:
    return [action for action in decision.actions if isinstance(action, Move)]


def way_of(holder: Holder, source: str | None, to: str) -> MoveRule | None:
    return next((way for way in holder.spec.moves if (way.source, way.to) == (source, to)), None)


def begun(s: Snapshot) -> list[Move]:
    """Moves of holders that were not on the move."""
    return [move for move in moves_of(decide(s)) if move.holder not in s.pending]


def climbed(s: Snapshot) -> list[Move]:
    """The next rung of moves under way."""
    return [move for move in moves_of(decide(s)) if move.holder in s.pending]


# ---------------------------------------------------------------- one at a time


@given(messy_scenes())
@deep(150)
def test_there_is_at_most_one_move_per_holder(scene: Scene) -> None:
    moves = moves_of(decide(scene.s))
    assert len({move.holder for move in moves}) == len(moves)


@given(messy_scenes())
@deep(150)
def test_an_exclusive_move_is_alone_on_its_devices_but_for_a_person_s_kill(scene: Scene) -> None:
    s = scene.s
    decision = decide(s)
    new = {move.holder for move in begun(s)}
    draft = scene.draft()
    fold.decided(draft, decision)
    for pending in draft.pending.values():
        beside = [
            p for p in draft.pending.values() if p is not pending and set(p.devices) & set(pending.devices)
        ]
        if pending.exclusive:
            met = {p.holder for p in beside if p.holder in new or pending.holder in new}
            started = [hid for hid in met if hid not in new or s.holders[hid].wish != "kill"]
            assert not started, (pending.holder, started)


@given(messy_scenes())
@deep(150)
def test_one_taking_move_per_device_and_none_beside_memory_that_is_not_verified_free(scene: Scene) -> None:
    s = scene.s
    decision = decide(s)
    taken: list[str] = []
    for move in begun(s):
        if move.frees:
            continue
        for p in s.pending.values():
            if set(p.devices) & set(move.devices):
                assert p.frees and overlaps(s.holders[p.holder], p), (move, p)
                assert not move.exclusive
        freed = {d for other in moves_of(decision) if other.frees for d in other.devices}
        assert not freed & set(move.devices)
        taken += move.devices
    assert len(set(taken)) == len(taken)


@given(messy_scenes())
@deep(150)
def test_several_devices_are_taken_all_or_none(scene: Scene) -> None:
    s = scene.s
    for move in begun(s):
        holder = s.holders[move.holder]
        if not move.frees:
            assert len(set(move.devices)) == len(move.devices) == holder.spec.count
        if holder.devices and holder.form != holder.bottom:
            assert move.devices == holder.devices


# ---------------------------------------------------------------- the tables


@given(messy_scenes())
@deep(150)
def test_every_change_of_form_is_in_its_driver_s_table(scene: Scene) -> None:
    s = scene.s
    for move in begun(s):
        holder = s.holders[move.holder]
        way = way_of(holder, holder.form, move.form)
        assert way is not None, move
        assert (move.creates, move.frees, move.exclusive) == (way.creates, way.frees, way.exclusive)
        assert (
            holder.spec.argv or isinstance(holder, Lease) or not (way.creates or move.form == holder.bottom)
        )
        number = holder.runs + 1 if way.creates else None
        assert move.run_id == (f"{holder.id}.{number}" if number else holder.run and holder.run.id)


@given(messy_scenes(), st.booleans())
@deep(150)
def test_a_move_under_way_is_only_ever_made_to_free_more(scene: Scene, others: bool) -> None:
    if others:  # nothing here is ours to end
        for holder in list(scene.s.holders.values()):
            scene.put(replace(holder, spec=replace(holder.spec, argv=())))
    s = scene.s
    for move in climbed(s):
        holder, before = s.holders[move.holder], s.pending[move.holder]
        assert move.frees and not move.creates and not move.exclusive and move.rung == before.rung + 1
        lower = holder.below(move.form, before.to) if before.frees else move.form != holder.top
        assert lower or move.form == holder.bottom
        if not holder.spec.argv:
            assert way_of(holder, before.source if before.frees else before.to, move.form)
            assert move.form != holder.bottom
        ends = {"kill"} if before.frees else {"stop", "kill", "cancel"}
        late = s.now_s >= before.limit_at_s + (0.0 if before.frees else START_MORE_S)
        assert late or (holder.wish in ends and not before.kill)


@given(messy_scenes())
@deep(120)
def test_everybody_is_told_why_and_the_next_look_is_in_the_future(scene: Scene) -> None:
    s = scene.s
    decision = decide(s)
    assert set(s.pending) <= {*decision.verdicts, *(move.holder for move in climbed(s))}
    waiting = {hid for lane, line in s.queue.items() if lane != "held" for _, hid in line}
    assert waiting <= set(decision.verdicts)
    assert decision.recheck_at_s is None or decision.recheck_at_s > s.now_s
    for pending in s.pending.values():
        limit_at_s = pending.limit_at_s + (0.0 if pending.frees else START_MORE_S)
        if limit_at_s > s.now_s:
            assert decision.recheck_at_s is not None and decision.recheck_at_s <= limit_at_s


# ---------------------------------------------------------------- gates


@given(messy_scenes())
@deep(150)
def test_no_model_is_moved_before_its_gate_is_closed_and_empty_and_its_engine_idle(scene: Scene) -> None:
    s = scene.s
    for move in begun(s):
        service = s.holders[move.holder]
        if not isinstance(service, Service) or (service.wish == "kill" and move.form == service.bottom):
            continue
        gate = service.gate
        if service.form == service.top or not move.frees:
            assert gate.wish == "closed" and gate.closed and gate.pinning == 0, move
        ended = service.run is not None and service.run.exit is not None
        if service.form == service.top and service.spec.reads_busy and not ended:
            assert service.engine_active == 0
            assert service.engine_read_s is not None and service.drained_s is not None
            assert service.engine_read_s >= service.drained_s


@given(messy_scenes())
@deep(150)
def test_a_gate_is_open_only_for_a_model_that_is_up_and_stays(scene: Scene) -> None:
    s = scene.s
    decision = decide(s)
    for action in decision.actions:
        if not isinstance(action, OpenGate | CloseGate):
            continue
        service = s.service(action.holder)
        assert service is not None
        assert service.gate.wish == ("closed" if isinstance(action, OpenGate) else "open")
        if isinstance(action, OpenGate):
            assert service.form == service.top and service.ready and service.upstream
            assert service.id not in s.pending
            assert not [move for move in moves_of(decision) if move.holder == service.id]
    told = {action.holder for action in decision.actions if isinstance(action, CloseGate)}
    away = [sid for sid in s.services if s.holders[sid].form != s.holders[sid].top]
    for service in (s.service(sid) for sid in away):
        assert service is not None and (service.gate.wish == "closed" or service.id in told)


# ---------------------------------------------------------------- to its end


@given(messy_scenes())
@deep(120)
def test_nothing_is_created_while_the_store_is_silent_but_models(scene: Scene) -> None:
    s = replace(scene.s, store_ok=False)
    assert not [move for move in begun(s) if move.creates and isinstance(s.holders[move.holder], Job)]


@given(scenes())
@deep(180)
def test_the_pass_rests_within_two_rounds_per_holder_and_nobody_comes_or_goes_twice(scene: Scene) -> None:
    s, moves, rounds = rest(scene.s)
    assert rounds <= 2 * len(scene.s.holders), story(moves)
    came = [move.holder for move in moves if not move.frees]
    assert len(came) == len(set(came)), story(moves)
    ways = [(move.holder, move.form) for move in moves]
    assert len(ways) == len(set(ways)), story(moves)
    again = carried_out(s, decide(s))
    assert {h.id: h.form for h in again.holders.values()} == {h.id: h.form for h in s.holders.values()}


@given(crowds())
@deep(120)
def test_it_rests_in_a_crowd_without_guards_too_and_nobody_is_pushed_the_same_way_twice(scene: Scene) -> None:
    """One that was pushed may push a weaker one in its turn, so somebody may come twice; nobody goes twice."""
    _, moves, rounds = rest(scene.s)
    assert rounds <= 2 * len(scene.s.holders), story(moves)
    pushed = [(move.holder, move.form) for move in moves if move.frees]
    assert len(pushed) == len(set(pushed)), story(moves)


def story(moves: list[Move]) -> list[tuple[object, ...]]:
    return [(move.holder, move.form, move.devices, move.cause) for move in moves]


@given(st.one_of(scenes(), crowds()))
@deep(90)
def test_no_two_push_each_other(scene: Scene) -> None:
    _, moves, _ = rest(scene.s)
    pushed: dict[str, Move] = {}
    for move in moves:
        if move.frees and move.cause in scene.s.holders:
            pushed[move.holder] = move
            back = pushed.get(move.cause or "")
            assert back is None or back.cause != move.holder


# ---------------------------------------------------------------- locks, each from both sides

ASKED = {"attended": Waiting(n=1, since_s=NOW_S - 1)}
CLOSED = Gate(wish="closed", closed=True, rev=2)


def coming(exclusive: bool, on: str) -> Scene:
    """A model is asked for on gpu0 while another one starts on `on`, perhaps as one that wants to be alone."""
    moves = (replace(START, exclusive=exclusive), STOP)
    scene = Scene(48, 48).service(service_spec("a", 8, moves=moves, pinned_devices=(on,)), "stopped")
    scene.put(replace(scene.s.holders["a"], devices=(dev(on),)))
    scene.under_way("a", "stopped", "awake", devices=(dev(on),), exclusive=exclusive)
    return scene.service(service_spec("b", 8, pinned_devices=("gpu0",)), "stopped", demand=ASKED)


def leaving(on: str, exclusive: bool, asks: bool = True) -> Scene:
    """A held model whose sleep is due on gpu0, while a job is being stopped on `on`."""
    sleep = replace(SLEEP, exclusive=exclusive)
    spec = service_spec("a", 8, 1, moves=(START, sleep, STOP))
    scene = Scene(48, 48).service(spec, gate=CLOSED, drained_s=1.0, wish="hold" if asks else "run")
    scene.job(job_spec("b", 8, placement="share"), on=(on,))
    return scene.under_way("b", "running", "stopped", devices=(dev(on),))


def stopping(under_way: MoveRule, wish: Wish = "stop") -> Scene:
    """A job that was asked to stop, beside a model that is on its way up or down on the same device."""
    down = under_way.frees
    scene = Scene(48).service(
        service_spec("a", 8, 1), "awake" if down else "stopped", gate=CLOSED, devices=GPU
    )
    scene.job(job_spec("b", 8, placement="share"), wish=wish)
    return scene.under_way("a", under_way.source, under_way.to, exclusive=under_way.exclusive)


LOCKS: dict[str, tuple[Scene, list[tuple[str, str]]]] = {
    # name: (scene, moves that begin)
    "a start beside a start on the same device waits": (coming(False, "gpu0"), []),
    "on another device it does not": (coming(False, "gpu1"), [("b", "awake")]),
    "nor when that one wants its own device alone": (coming(True, "gpu1"), [("b", "awake")]),
    "a sleep that needs its device alone waits for a stop there": (leaving("gpu0", True), []),
    "not for one on another device": (leaving("gpu1", True), [("a", "asleep")]),
    "a sleep that does not need it alone goes beside it": (leaving("gpu0", False), [("a", "asleep")]),
    "a stop waits for a sleep that needs its device alone": (stopping(SLEEP), []),
    "not for one that does not": (stopping(replace(SLEEP, exclusive=False)), [("b", "stopped")]),
    "a stop waits for a start that measures its device": (stopping(replace(START, exclusive=True)), []),
    "not for any other start": (stopping(START), [("b", "stopped")]),
    "nor does a cancel wait for any other": (stopping(START, "cancel"), [("b", "stopped")]),
    "a cancel waits for a start that measures its device": (
        stopping(replace(START, exclusive=True), "cancel"),
        [],
    ),
    "a kill by a person waits for no start": (
        stopping(replace(START, exclusive=True), "kill"),
        [("b", "stopped")],
    ),
    "nor for a sleep that needs its device alone": (stopping(SLEEP, "kill"), [("b", "stopped")]),
    "nobody sleeps who was not asked to": (leaving("gpu1", True, asks=False), []),
}


@pytest.mark.parametrize("name", LOCKS)
def test_locks(name: str) -> None:
    scene, expected = LOCKS[name]
    assert [(move.holder, move.form) for move in begun(scene.read().s)] == expected


def test_a_want_on_two_devices_waits_for_both_and_holds_neither() -> None:
    scene = Scene(24, 24).service(service_spec("wide", 20, count=2), "stopped", demand=ASKED)
    scene.job(job_spec("slow", 14, placement="share"), on=("gpu1",), wish="stop").read()
    scene.under_way("slow", "running", "stopped", devices=(dev("gpu1"),))
    assert begun(scene.s) == []
    slow = scene.s.holders["slow"]
    assert isinstance(slow, Job)
    scene.put(replace(slow, form="stopped", devices=(), seen_bytes={}, ended="done"))
    draft = scene.at(NOW_S + 1).draft()
    draft.end_move("slow")
    scene.s = draft.done()
    assert [(move.holder, move.devices) for move in begun(scene.read().s)] == [
        ("wide", (dev("gpu0"), dev("gpu1")))
    ]


def test_an_answer_without_the_bytes_lets_nobody_in() -> None:
    scene = Scene(24).service(form="stopped", demand=ASKED).job(job_spec(parked=1)).read()
    scene.under_way("train", "running", "parked", step="answered", answered_s=NOW_S - 0.5)
    assert begun(scene.s) == [] and scene.s.devices[GPU[0]].used_bytes == gib(14)
