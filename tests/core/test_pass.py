"""Properties of the pass over random worlds, with time all but frozen and every decision carried out perfectly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core import fit, fold
from headway.core.decide import decide, target
from headway.core.draft import Draft
from headway.core.facts import DeviceRead, Fact, GateState, MoveAnswered, RunSeen
from headway.core.model import (
    CloseGate,
    Decision,
    Exit,
    Gate,
    Job,
    JobSpec,
    Measure,
    Move,
    OpenGate,
    Policy,
    Service,
    Snapshot,
    Waiting,
)
from tests.core.make import Scene, dev, gib, job_spec, reading, service_spec

pytestmark = pytest.mark.core

TICK_S = 1e-6


# ---------------------------------------------------------------- random, possible snapshots


@st.composite
def scenes(draw: Any) -> Scene:
    """Devices, services and jobs in forms that go together, with requests waiting and jobs queued."""
    policy = Policy(
        max_active_jobs=draw(st.sampled_from([None, 1, 2, 40])),
        push_back_s=draw(st.sampled_from([0.0, 60.0])),
    )
    scene = Scene(*draw(st.lists(st.sampled_from([16, 24, 48]), min_size=1, max_size=3)), policy=policy)
    for number in range(draw(st.integers(0, 3))):
        _draw_service(draw, scene, f"s{number}")
    for number in range(draw(st.integers(0, 5))):
        _draw_job(draw, scene, f"j{number}")
    return scene.read()


def _devices(draw: Any, scene: Scene, count: int) -> tuple[str, ...]:
    names = draw(st.permutations(sorted(scene.totals)))
    return tuple(sorted(names[:count]))


def _draw_service(draw: Any, scene: Scene, name: str) -> None:
    residency_s = draw(st.sampled_from([0.0, 10.0]))
    spec = service_spec(
        name,
        draw(st.sampled_from([None, 2, 8, 15.7, 20, 40])),
        draw(st.sampled_from([None, 1])),
        count=draw(st.sampled_from([1, 1, 2])),
        min_residency_s=residency_s,
        keep_awake=draw(st.booleans()),
    )
    since_s = scene.s.now_s - draw(st.sampled_from([0.0, 5.0, 400.0]))
    demand = {}
    if draw(st.booleans()):
        waits_s = draw(st.sampled_from([0.1, 40.0, 1000.0]))
        cls = draw(st.sampled_from(["attended", "attended", "background"]))
        demand = {cls: Waiting(n=1, since_s=scene.s.now_s - waits_s)}
    form = draw(st.sampled_from([f.name for f in spec.forms]))
    active = draw(st.sampled_from([0, 0, 2])) if form == "awake" else 0
    on = _devices(draw, scene, spec.count)
    given: dict[str, Any] = {"since_s": since_s, "demand": demand if not active else {}, "active": active}
    given["active_since_s"] = scene.s.now_s - 1.0 if active else None
    if not _goes_with(scene, scene.__class__.service, spec, form, on, given):
        scene.service(spec, "stopped", **{**given, "active": 0, "active_since_s": None, "demand": demand})


def _draw_job(draw: Any, scene: Scene, name: str) -> None:
    spec = job_spec(
        name,
        draw(st.sampled_from([None, 1, 4, 12, 22, 100])),
        draw(st.sampled_from([None, 0.5])),
        count=draw(st.sampled_from([1, 1, 1, 2, 0])),
        placement=draw(st.sampled_from(["gap", "gap", "share"])),
        priority=draw(st.sampled_from([20, 50, 80])),
        min_residency_s=draw(st.sampled_from([0.0, 60.0])),
    )
    since_s = scene.s.now_s - draw(st.sampled_from([0.0, 30.0, 400.0]))
    form = draw(st.sampled_from([f.name for f in spec.forms]))
    on = _devices(draw, scene, spec.count)
    given: dict[str, Any] = {"since_s": since_s, "saved_age_s": draw(st.sampled_from([None, 0.0]))}
    given["enqueued_s"] = scene.s.now_s - draw(st.sampled_from([1.0, 500.0, 5000.0]))
    given["key"] = given["enqueued_s"] - 1800.0 * spec.priority
    if not _goes_with(scene, scene.__class__.job, spec, form, on, given):
        scene.job(spec, "stopped", **given)


def _goes_with(scene: Scene, put: Any, spec: Any, form: str, on: tuple[str, ...], given: Any) -> bool:
    """Put it there if all of them may be there together; else the scene is as before."""
    if form != spec.forms[-1].name and len(on) < spec.count:
        return False
    before = scene.s
    put(scene, spec, form, on, **given)
    if not wrong_together(scene.s, {h.id: (h.form or "", h.devices) for h in scene.s.holders.values()}):
        return True
    scene.s = before
    return False


def wrong_together(s: Snapshot, placed: dict[str, tuple[str, tuple[str, ...]]]) -> list[str]:
    """What may not be in these forms on these devices at once."""
    found = []
    for device in s.devices.values():
        here = [(s.holders[hid], form) for hid, (form, devices) in placed.items() if device.id in devices]
        total = sum(fit.need(holder, form) or 0 for holder, form in here)
        if total > (device.total_bytes or 0):
            found.append(f"{device.name}: {total} bytes in {sorted((h.id, f) for h, f in here)}")
        for one, form in here:
            for other, other_form in here:
                if one.id < other.id and form == one.top and fit.excludes(one, other, other_form):
                    found.append(f"{device.name}: {one.id} beside {other.id}")
    lanes = {"gpu": s.policy.max_active_jobs or len(s.devices), "cpu": 4}
    for lane, limit in lanes.items():
        jobs = [h for h in s.holders.values() if isinstance(h, Job) and h.lane == lane]
        if sum(placed.get(job.id, ("", ()))[0] == job.top for job in jobs) > limit:
            found.append(f"more jobs than {limit} in {lane}")
    return found


# ---------------------------------------------------------------- perfect drivers


def carried_out(s: Snapshot, decision: Decision) -> Snapshot:
    """Everything that was decided happens at once, as it should, and is measured."""
    draft = Draft(s, s.now_s + TICK_S)
    fold.decided(draft, decision)
    for action in decision.actions:
        for fact in _outcome(draft, action):
            fold.fold(draft, fact)
    s = draft.done()
    draft = Draft(s, s.now_s + TICK_S)
    for device in s.devices.values():
        fold.fold(draft, _measured(s, device.id, draft.now_s))
    return draft.done()


def _outcome(draft: Draft, action: Any) -> list[Fact]:
    holder = draft.holders[action.holder] if not isinstance(action, Measure) else None
    if isinstance(action, OpenGate | CloseGate):
        assert isinstance(holder, Service)
        opens = isinstance(action, OpenGate)
        waiting = sum(w.n for w in holder.demand.values())
        return [
            GateState(
                service=holder.id,
                rev=holder.gate.rev,
                closed=not opens,
                pinning=0,
                active=waiting if opens else 0,
                demand={} if opens else holder.demand,
            )
        ]
    if isinstance(action, Move):
        assert holder is not None
        gone = action.form == holder.bottom
        run_id = action.run_id or "none"
        exit_ = Exit(code=-15, at_s=draft.now_s) if gone else None
        seen = RunSeen(holder=holder.id, run_id=run_id, lock_held=not gone, pid=1, exit=exit_, gone=gone)
        return [
            seen,
            MoveAnswered(holder=holder.id, to=action.form, run_id=action.run_id, upstream="http://x"),
        ]
    return []


def _measured(s: Snapshot, device: str, at_s: float) -> DeviceRead:
    seen = {}
    for holder in s.holders.values():
        moving = s.pending.get(holder.id)
        form = moving.to if moving else holder.form
        if device in holder.devices and (bytes_ := fit.need(holder, form) or 0):
            seen[holder.id] = bytes_
    found = s.devices[device]
    return reading(found.name, (found.total_bytes or 0) / (1 << 30), at_s, seen)


def rest(s: Snapshot) -> tuple[Snapshot, list[Move], int]:
    """Decide and carry out until nothing is left to do."""
    moves: list[Move] = []
    for number in range(100):
        decision = decide(s)
        if not [action for action in decision.actions if not isinstance(action, Measure)]:
            return s, moves, number
        moves += [action for action in decision.actions if isinstance(action, Move)]
        s = carried_out(s, decision)
    raise AssertionError(f"no rest: {moves[-6:]}")


# ---------------------------------------------------------------- properties


@given(scenes())
@settings(max_examples=400)
def test_the_pass_comes_to_rest_and_pushes_nobody_twice(scene: Scene) -> None:
    _, moves, rounds = rest(scene.s)
    story = [(move.holder, move.form, move.devices, move.cause) for move in moves]
    assert rounds <= 2 * len(scene.s.holders) + 2, story
    came = [move.holder for move in moves if not move.frees]
    assert len(came) == len(set(came)), story
    pushed = [(move.holder, move.form) for move in moves if move.frees]
    assert len(pushed) == len(set(pushed)), story


@given(scenes())
@settings(max_examples=400)
def test_no_plan_ever_puts_together_what_does_not_go_together(scene: Scene) -> None:
    s = scene.s
    for _ in range(30):
        plan, _ = target(s)
        planned = {hid: plan.form_of(s.holders[hid]) for hid in {*plan.placed, *plan.standing}}
        assert wrong_together(s, planned) == []
        for hid, (form, devices) in planned.items():
            holder = s.holders[hid]
            if form == holder.top:
                assert len(devices) == holder.spec.count  # all of its devices, or none
        decision = decide(s)
        if not [action for action in decision.actions if not isinstance(action, Measure)]:
            break
        s = carried_out(s, decision)
        forms = {h.id: (h.form or "", h.devices) for h in s.holders.values()}
        assert wrong_together(s, forms) == []


@given(scenes(), st.sampled_from(["job", "service"]))
@settings(max_examples=200)
def test_a_want_that_can_never_fit_reserves_nothing_and_changes_nothing_for_others(
    scene: Scene, kind: str
) -> None:
    before, _ = target(scene.s)
    if kind == "job":
        scene.job(job_spec("huge", 500, priority=100), "stopped", key=-1e9, enqueued_s=0.0)
    else:
        long_ago = Waiting(n=1, since_s=scene.s.now_s - 1e5)
        scene.service(service_spec("huge", 500), "stopped", demand={"attended": long_ago})
    after, verdicts = target(scene.s)
    assert verdicts["huge"].code in ("never_fits", "slots")
    assert "huge" not in after.placed
    assert after.reserved == before.reserved
    assert after.placed == before.placed


@given(scenes())
@settings(max_examples=150)
def test_the_same_snapshot_gives_the_same_decision(scene: Scene) -> None:
    again = replace(scene.s, holders=dict(reversed(list(scene.s.holders.items()))))
    assert decide(scene.s) == decide(again)


@given(scenes())
@settings(max_examples=150)
def test_at_most_one_move_per_holder_and_none_for_a_device_that_one_takes(scene: Scene) -> None:
    s = scene.s
    for _ in range(20):
        decision = decide(s)
        moves = [action for action in decision.actions if isinstance(action, Move)]
        assert len({move.holder for move in moves}) == len(moves)
        taken = [device for move in moves if not move.frees for device in move.devices]
        freed = {device for move in moves if move.frees for device in move.devices}
        assert len(set(taken)) == len(taken) and not freed & set(taken)
        if not moves:
            break
        s = carried_out(s, decision)


def test_the_scenes_here_are_worth_testing() -> None:
    """A scene with every kind of holder in it makes moves; or the properties above would prove nothing."""
    scene = Scene(24).service(form="stopped", demand={"attended": Waiting(n=1, since_s=990.0)}).job()
    assert scene.s.holders["chat"].need_bytes("awake") == gib(16) and dev("gpu0") in scene.s.devices
    _, moves, rounds = rest(scene.read().s)
    assert [(move.holder, move.form) for move in moves] == [("train", "stopped"), ("chat", "awake")]
    assert rounds == 3 and Gate().wish == "closed"


NEVER = {
    # name: (job, code)
    "too large, and no place": (job_spec("big", 100), "never_fits"),
    "too many devices, and no place": (job_spec("wide", 1, count=2), "never_fits"),
    "too large, and after another": (job_spec("late", 100, after=("train",)), "never_fits"),
    "fits, and no place": (job_spec("small", 1), "slots"),
    "fits, and after another": (job_spec("next", 1, after=("train",)), "after"),
}


@pytest.mark.parametrize(("spec", "code"), NEVER.values(), ids=NEVER.keys())
def test_one_that_can_never_fit_is_told_that_before_anything_that_passes(spec: JobSpec, code: str) -> None:
    scene = Scene(24).job(job_spec("train", 4))
    job = scene.queue(spec)
    assert decide(scene.s).verdicts[job].code == code
