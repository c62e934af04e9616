"""Random, possible snapshots in which everybody is where he may be, and drivers that do everything perfectly."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st

from headway.core import fit, fold, wishes
from headway.core.decide import decide
from headway.core.draft import Draft
from headway.core.facts import DeviceRead, Fact, GateState, MoveAnswered, RunSeen
from headway.core.model import (
    CloseGate,
    Decision,
    Exit,
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
from tests.core.make import Scene, job_spec, reading, service_spec

T = TypeVar("T")
TICK_S = 1e-6  # what carrying out one decision takes: rules of time stay as they were
Places = dict[str, tuple[str, tuple[str, ...]]]


# ---------------------------------------------------------------- at rest


def deep(examples: int) -> settings:
    """So many examples of a property; HEADWAY_DEPTH times as many where that is set."""
    return settings(max_examples=examples * int(os.environ.get("HEADWAY_DEPTH", "1")))


class Picks:
    """Choices read off one string of bytes: cheap to draw and to shrink. 0, and no byte left, is the first choice."""

    def __init__(self, bytes_: bytes) -> None:
        self.left = iter(bytes_)

    def __call__(self, choices: Sequence[T]) -> T:
        return choices[next(self.left, 0) % len(choices)]


picks = st.builds(Picks, st.binary(min_size=160, max_size=160))


def scenes() -> st.SearchStrategy[Scene]:
    """Scenes as `scene_of` makes them."""
    return picks.map(scene_of)


def scene_of(pick: Picks) -> Scene:
    """Devices, services and jobs in forms that go together, with requests waiting and jobs queued.

    The times that damp the pass (residency, the guard against pushing back) are 0 in half of the scenes.
    """
    damped = pick([False, True])
    policy = Policy(max_active_jobs=pick([None, 1, 2, 40]), push_back_s=60.0 if damped else 0.0)
    count = pick([1, 2, 1, 2, 3, 4])
    scene = Scene(*(pick([24, 16, 48]) for _ in range(count)), policy=policy)
    for number in range(pick([0, 1, 2, 2, 3, 4])):
        _one_service(pick, scene, f"s{number}", damped)
    for number in range(pick([0, 1, 2, 3, 4, 5])):
        _one_job(pick, scene, f"j{number}", damped)
    return scene.read()


def crowds() -> st.SearchStrategy[Scene]:
    """Scenes as `crowd_of` makes them."""
    return picks.map(crowd_of)


def crowd_of(pick: Picks) -> Scene:
    """Many small holders at rest on one device or two, and large ones that want to come: much to push aside."""
    policy = Policy(max_active_jobs=pick([40, 5]), push_back_s=0.0)
    scene = Scene(*[48] * pick([1, 1, 2]), policy=policy)
    for number in range(pick([3, 4, 5, 6])):
        sizes: dict[str, Any] = {"running": pick([4, 2, 8, 14]), "parked": pick([1, 2, None])}
        spec = job_spec(
            f"j{number}", **sizes, placement="share", priority=pick([50, 20]), min_residency_s=0.0
        )
        given: dict[str, Any] = {"saved_age_s": pick([None, 0.0]), "wish": pick(["run", "run", "hold"])}
        given["key"] = _key(scene, scene.s.now_s - 500.0, spec)
        given["retry_at_s"] = pick([None, None, scene.s.now_s + 5.0])
        form = pick([spec.forms[0].name, *(f.name for f in spec.forms[:-1])])
        _goes_with(scene, scene.__class__.job, spec, form, (pick(sorted(scene.totals)),), given)
    for number in range(pick([0, 1, 2])):
        spec_ = service_spec(
            f"s{number}", pick([8, 12, 20]), pick([1, None]), min_residency_s=0.0, keep_awake=True
        )
        _goes_with(scene, scene.__class__.service, spec_, pick(["awake", "stopped"]), ("gpu0",), {})
    _large_ones(pick, scene)
    return scene.read()


def _large_ones(pick: Picks, scene: Scene) -> None:
    """What is too much for the room that is left: requests, and jobs that rank above or below those that run."""
    if pick([True, True, False]):
        waits_s, cls = pick([1.0, 40.0]), pick(["attended", "attended", "background"])
        demand = {cls: Waiting(n=1, since_s=scene.s.now_s - waits_s)}
        scene.service(service_spec("big", pick([20, 40, 47])), "stopped", demand=demand)
    for number in range(pick([1, 2])):
        sizes: dict[str, Any] = {"running": pick([20, 40, 47, 48]), "placement": pick(["gap", "share"])}
        spec = job_spec(f"large{number}", **sizes, priority=pick([80, 10]))
        key, retry_at_s = _key(scene, scene.s.now_s - 500.0, spec), pick([None, None, scene.s.now_s + 5.0])
        scene.job(spec, "stopped", key=key, retry_at_s=retry_at_s)


def devices_of(pick: Picks, scene: Scene, count: int) -> tuple[str, ...]:
    """That many devices, any of them; fewer where there are not so many."""
    names, found = sorted(scene.totals), []
    for _ in range(min(count, len(names))):
        found.append(names.pop(names.index(pick(names))))
    return tuple(sorted(found))


def _count(pick: Picks, scene: Scene, counts: list[int]) -> int:
    """How many devices it needs; now and then more than there are."""
    count = pick(counts)
    return count if pick([False, False, False, True]) else min(count, len(scene.totals))


def _one_service(pick: Picks, scene: Scene, name: str, damped: bool) -> None:
    spec = service_spec(
        name,
        pick([8, 12, 15.7, 20, 15.7, 2, 40, 100, None]),
        pick([None, 1]),
        count=_count(pick, scene, [1, 1, 1, 2, 2, 3]),
        min_residency_s=10.0 if damped else 0.0,
        keep_awake=pick([False, True]),
    )
    if pick([False, True, False]):  # one that measures the device while it starts
        alone = tuple(replace(way, exclusive=True) if way.creates else way for way in spec.moves)
        spec = replace(spec, moves=alone)
    since_s = scene.s.now_s - pick([400.0, 5.0, 0.0])
    form = pick([spec.forms[0].name, *(f.name for f in spec.forms)])
    demand = {}
    if form != "awake" and pick([True, True, False]):
        waits_s = pick([0.1, 40.0, 1000.0])
        cls = pick(["attended", "attended", "background"])
        demand = {cls: Waiting(n=1, since_s=scene.s.now_s - waits_s)}
    active = pick([0, 0, 0, 2]) if form == "awake" else 0
    on = devices_of(pick, scene, spec.count)
    given: dict[str, Any] = {"since_s": since_s, "demand": demand if not active else {}, "active": active}
    given["active_since_s"] = scene.s.now_s - 1.0 if active else None
    if not _goes_with(scene, scene.__class__.service, spec, form, on, given):
        scene.service(spec, "stopped", **{**given, "active": 0, "active_since_s": None, "demand": demand})


def _one_job(pick: Picks, scene: Scene, name: str, damped: bool) -> None:
    spec = job_spec(
        name,
        pick([4, 12, 14, 22, 1, 40, 100, None]),
        pick([None, 0.5]),
        count=_count(pick, scene, [1, 1, 1, 2, 3, 0]),
        placement=pick(["gap", "gap", "share"]),
        priority=pick([20, 50, 80]),
        min_residency_s=60.0 if damped else 0.0,
    )
    since_s = scene.s.now_s - pick([400.0, 30.0, 0.0])
    form = pick([spec.forms[0].name, *(f.name for f in spec.forms)])
    on = devices_of(pick, scene, spec.count)
    given: dict[str, Any] = {"since_s": since_s, "saved_age_s": pick([None, 0.0])}
    given["enqueued_s"] = scene.s.now_s - pick([1.0, 500.0, 5000.0])
    given["key"] = _key(scene, given["enqueued_s"], spec)
    if not _goes_with(scene, scene.__class__.job, spec, form, on, given):
        scene.job(spec, "stopped", **given)


def _key(scene: Scene, enqueued_s: float, spec: JobSpec) -> float:
    """Rank keys differ, as they do in life: no two jobs come at the same moment."""
    return wishes.rank_key(enqueued_s, spec.priority) + len(scene.s.holders) * wishes.ARRIVAL_S


def _goes_with(scene: Scene, put: Any, spec: Any, form: str, on: tuple[str, ...], given: Any) -> bool:
    """Put it there if all of them may be there together; else the scene is as before."""
    if form != spec.forms[-1].name and len(on) < spec.count:
        return False
    before = scene.s
    put(scene, spec, form, on, **given)
    if not wrong_together(scene.s, standing(scene.s)):
        return True
    scene.s = before
    return False


def standing(s: Snapshot) -> Places:
    """Where everybody is: in the form he leaves while he frees, in the one he goes to while he takes."""
    found: Places = {}
    for holder in s.holders.values():
        moving = s.pending.get(holder.id)
        form = moving.to if moving is not None and not moving.frees else holder.form
        found[holder.id] = (form or holder.top, holder.devices)
    return found


def wrong_together(s: Snapshot, placed: Places) -> list[str]:
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
