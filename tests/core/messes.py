"""Random snapshots of a machine in the middle of things: moves under way, dead runs, strangers, devices unread."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from headway.core.model import (
    Exit,
    Form,
    Gate,
    Holder,
    Lease,
    MoveRule,
    Pending,
    Run,
    Service,
    Snapshot,
    Spec,
)
from tests.core.make import Scene, dev, gib
from tests.core.scenes import Picks, devices_of, picks, scene_of, standing, wrong_together


def messy_scenes() -> st.SearchStrategy[Scene]:
    """Scenes as `mess_of` makes them."""
    return picks.map(mess_of)


def mess_of(pick: Picks) -> Scene:
    """A machine in the middle of things, and not all of it well."""
    scene = scene_of(pick)
    if pick([False, True]):
        _one_lease(pick, scene)
    for hid in sorted(scene.s.holders):
        _meddle(pick, scene, hid)
    for hid in sorted(scene.s.holders):
        if pick([False, False, True]):
            _one_move(pick, scene, hid)
    scene.read(foreign=pick([0, 0, gib(2), gib(10)]))
    for name in sorted(scene.totals):
        _trouble(pick, scene, name)
    scene.s = replace(
        scene.s,
        store_ok=pick([*[True] * 7, False]),
        meter_trouble=pick([*[None] * 9, "hangs"]),
        booted_s=scene.s.now_s - pick([*[1000.0] * 5, 2.0]),
    )
    return scene


def _one_lease(pick: Picks, scene: Scene) -> None:
    forms = (Form(name="granted", declared_bytes=gib(pick([1, 6]))), Form(name="revoked"))
    spec = Spec(name="mine", kind="lease", driver="lease", forms=forms, moves=())
    on = (dev(pick(sorted(scene.totals))),)
    held = {on[0]: forms[0].declared_bytes or 0}
    before = scene.s
    scene.put(Lease(id="mine", spec=spec, form="granted", forms=forms, devices=on, seen_bytes=held))
    if wrong_together(scene.s, standing(scene.s)):
        scene.s = before


def _meddle(pick: Picks, scene: Scene, hid: str) -> None:
    """What may be said of one holder beside its form: wishes, gates, probes, failures, a run that died."""
    holder, now_s = scene.s.holders[hid], scene.s.now_s
    changes: dict[str, Any] = {}
    if isinstance(holder, Lease):
        return
    if isinstance(holder, Service):
        changes["wish"] = pick([*["run"] * 5, "hold", "stop", "kill"])
        if how := pick([None, None, "drained", "closing", "pinned", "open", "stuck"]):
            changes["gate"] = Gate(
                wish="closed" if how in ("drained", "closing", "pinned") else "open",
                rev=3,
                closed=how in ("drained", "pinned"),
                pinning=1 if how in ("pinned", "open") else 0,
                stuck_s=now_s - 1.0 if how == "stuck" else None,
            )
            changes["drained_s"] = now_s - 2.0 if how == "drained" else None
        if pick([False, True, False]):
            changes["spec"] = replace(holder.spec, reads_busy=True)
            changes["engine_active"] = pick([None, 0, 1])
            changes["engine_read_s"] = pick([None, now_s - 3.0, now_s - 1.0])
        changes["active"] = pick([*[holder.active] * 5, None])
        changes["last_end_s"] = pick([None, now_s - 1.0, now_s - 100.0])
    else:
        wishes = [*["run"] * 7, "hold", "pause", "wind_down", "stop", "kill", "cancel"]
        if holder.form == holder.bottom:
            wishes = ["run", "run", "run", "hold"]
        changes["wish"] = pick(wishes)
        changes["pushed_s"] = pick([None, None, now_s - 5.0])
    if pick([*[False] * 7, True]):
        changes["failures"], changes["retry_at_s"] = 2, now_s + 5.0
    if pick([False, False, False, True]) and holder.run:
        exit_ = pick([None, Exit(code=1, at_s=now_s - 1.0)])
        changes["run"] = replace(holder.run, lock_held=pick([False, True]), exit=exit_)
    if pick([False, False, True]) and holder.seen_bytes:
        grown = pick([0, 0, gib(1)])
        changes["seen_bytes"] = {d: b + grown for d, b in holder.seen_bytes.items() if grown or b < gib(2)}
    scene.put(replace(holder, **changes))


def _one_move(pick: Picks, scene: Scene, hid: str) -> None:
    """A move under way, where one could have been begun."""
    holder, s = scene.s.holders[hid], scene.s
    ways = [found for found in holder.spec.moves if found.source == holder.form]
    if not ways:
        return
    found = pick(ways)
    names = devices_of(pick, scene, holder.spec.count)
    devices = holder.devices or tuple(dev(name) for name in names)
    if len(devices) < holder.spec.count or not _may_begin(s, found, devices):
        return
    answered = found.frees and pick([False, True])
    number = holder.runs + 1 if found.creates else holder.runs
    pending = Pending(
        holder=hid,
        source=found.source,
        to=found.to,
        devices=devices,
        exclusive=found.exclusive,
        frees=found.frees,
        creates=found.creates,
        started_s=s.now_s - 20.0,
        limit_at_s=s.now_s + pick([9.0, 9.0, -1.0, -6.0]),
        step="answered" if answered else "asked",
        answered_s=s.now_s + pick([-1.0, 0.5]) if answered else None,
        rung=pick([0, 0, 1]),
        run_id=f"{hid}.{number}",
        used_before={d: s.devices[d].used_bytes or 0 for d in devices},
    )
    before = scene.s
    scene.put(replace(holder, devices=devices, runs=number), pending)
    if found.creates and pick([False, True]):
        scene.put(replace(scene.s.holders[hid], run=Run(id=f"{hid}.{number}", lock_held=True, pid=4712)))
    if wrong_together(scene.s, standing(scene.s)):
        scene.s = before


def _may_begin(s: Snapshot, found: MoveRule, devices: tuple[str, ...]) -> bool:
    beside = [p for p in s.pending.values() if set(p.devices) & set(devices)]
    if found.exclusive or any(p.exclusive for p in beside):
        return not beside
    if found.frees:
        return all(p.frees or found.overlaps_start for p in beside)
    return all(p.frees and overlaps(s.holders[p.holder], p) for p in beside)


def overlaps(holder: Holder, pending: Pending) -> bool:
    """May a start begin beside this release, by its driver's table?"""
    ways = [r for r in holder.spec.moves if (r.source, r.to) == (pending.source, pending.to)]
    return bool(ways) and ways[0].overlaps_start


def _trouble(pick: Picks, scene: Scene, name: str) -> None:
    device, now_s = scene.s.devices[dev(name)], scene.s.now_s
    how = pick([*["well"] * 10, "N/A", "trouble", "stale", "changed", "never", "sum", "tight"])
    changes: dict[str, dict[str, Any]] = {
        "well": {},
        "N/A": {"free_bytes": None, "used_bytes": None},
        "trouble": {"trouble": "lost", "free_bytes": None, "used_bytes": None},
        "stale": {"read_at_s": now_s - 8.1},
        "changed": {"last_change_s": now_s},
        "never": {"read_at_s": None, "free_bytes": None, "used_bytes": None, "total_bytes": None},
        "sum": {"per_process": False},
        "tight": {"free_bytes": max(0, (device.free_bytes or 0) - gib(6))},
    }
    changed = replace(device, **changes[how])
    scene.s = replace(scene.s, devices={**scene.s.devices, device.id: changed})


def readable(s: Snapshot, device_id: str) -> bool:
    """Is there a reading of it that says what is free now?"""
    device = s.devices[device_id]
    known = None not in (device.total_bytes, device.free_bytes, device.used_bytes, device.read_at_s)
    fresh = device.read_at_s is not None and s.now_s - device.read_at_s <= s.policy.reading_max_age_s
    newer = device.read_at_s is not None and device.read_at_s > device.last_change_s
    return known and fresh and newer and not device.trouble and not s.meter_trouble
