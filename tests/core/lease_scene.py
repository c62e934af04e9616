"""Leases put into a scene by hand, and what a turn makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headway.core import fold, leases, wishes
from headway.core.commands import AskLease, Command, Reply
from headway.core.decide import decide, target
from headway.core.model import Lease, Move, Verdict, Waiting
from headway.drivers.lease import MOVES
from tests.core.make import T0_S, Scene, dev, gib

GPU = dev("gpu0")
ASKED = Waiting(n=1, since_s=T0_S - 1.0)


def made(size: float | None = 12, **given: Any) -> AskLease:
    spec = {key: given.pop(key) for key in ("count", "pinned_devices") if key in given}
    need = None if size is None else gib(size)
    return AskLease(spec=leases.spec_of("render", MOVES, need, **spec), **{"pid": 5000, **given})


def told(scene: Scene, command: Command) -> Reply:
    draft = scene.draft()
    reply = wishes.apply(draft, command)
    scene.s = draft.done()
    return reply


def asked(scene: Scene, size: float | None = 12, **given: Any) -> str:
    reply = told(scene, made(size, **given))
    assert reply.accepted and reply.holder, reply
    return reply.holder


def held(scene: Scene, size: float | None = 12, on: tuple[str, ...] = ("gpu0",), **given: Any) -> str:
    """A lease that was granted long ago and holds its bytes."""
    lid = asked(scene, size)
    devices = tuple(dev(name) for name in on)
    fields = {
        "form": "granted",
        "since_s": T0_S - 400.0,
        "granted_s": T0_S - 400.0,
        "fencing": 1,
        "devices": devices,
        "seen_bytes": {device: gib(size or 4) for device in devices},
    }
    return put(scene, lid, **{**fields, **given})


def put(scene: Scene, lid: str, **fields: Any) -> str:
    scene.put(replace(scene.s.holders[lid], **fields)).read()
    return lid


def of(scene: Scene, lid: str) -> Lease:
    lease = scene.s.holders[lid]
    assert isinstance(lease, Lease)
    return lease


def turn(scene: Scene) -> tuple[Move, ...]:
    draft = scene.draft()
    decision = decide(draft.view())
    fold.decided(draft, decision)
    scene.s = draft.done()
    return tuple(action for action in decision.actions if isinstance(action, Move))


def settled(scene: Scene, hid: str) -> Verdict:
    """What the plan says of it, before any step."""
    return target(scene.s)[1][hid]


def verdict(scene: Scene, hid: str) -> Verdict:
    return decide(scene.s).verdicts[hid]


def preemptible(priority: int = 50, **given: Any) -> dict[str, Any]:
    return {"preemptible": True, "priority": priority, **given}
