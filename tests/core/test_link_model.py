"""The close and open handshake as a model: every interleaving of messages, lost links, kills and requests.

Safe means: while the server is not fully awake, no request is in flight there. As specified it's safe; without any of
its rules the search finds a way to break it.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import pytest

pytestmark = pytest.mark.core

REV_MAX = 5
QUEUE_MAX = 3
NEVER = -1  # a gate's revision on a connection that brought no table yet

Phase = Literal["boot", "open", "closing", "moving", "closed"]
Server = Literal["awake", "moving", "asleep"]


class Gate(NamedTuple):
    """One gate process. `to_gate` and `to_daemon` are messages under way, in order."""

    alive: bool = True
    open: bool = False
    rev: int = 0
    inflight: int = 0
    linked: bool = False
    to_gate: tuple[tuple[bool, int], ...] = ()  # (open?, rev)
    to_daemon: tuple[tuple[int, int], ...] = ()  # (closed at rev, pinning)


class World(NamedTuple):
    """Everything at one moment, and the faults that may still happen."""

    gates: tuple[Gate, ...]
    acks: tuple[bool, ...]
    daemon: bool
    phase: Phase
    rev: int
    server: Server
    file_open: bool
    drops: int
    gate_kills: int
    daemon_kills: int


@dataclass(frozen=True)
class Rules:
    """The rules of the link, each of which can be left out."""

    roster: bool = True  # a gate counts while it lives, connected or not
    file_first: bool = True  # "closed" is in routes.json before the message goes out
    revisions: bool = True  # an answer counts only at the last revision sent
    blank: bool = True  # a connection starts blank: nothing is answered before its table


def put(world: World, index: int, gate: Gate, ack: bool | None = None) -> World:
    gates, acks = list(world.gates), list(world.acks)
    gates[index] = gate
    if ack is not None:
        acks[index] = ack
    return world._replace(gates=tuple(gates), acks=tuple(acks))


def told(gate: Gate, rev: int, pinning: int) -> Gate:
    return gate._replace(to_daemon=(*gate.to_daemon, (rev, pinning))[-QUEUE_MAX:])


def gate_steps(world: World, index: int, rules: Rules) -> Iterator[World]:
    """What one gate may do, and what may happen to it."""
    gate = world.gates[index]
    if not gate.alive:  # a new process: lock, then the routes file
        yield put(world, index, Gate(open=world.file_open))
        return
    if gate.open and not gate.inflight:  # check and count in one step
        yield put(world, index, gate._replace(inflight=1))
    if gate.inflight:
        ended = gate._replace(inflight=0)
        says = not gate.open and gate.linked and gate.rev != NEVER
        yield put(world, index, told(ended, gate.rev, 0) if says else ended)
    if gate.linked and gate.to_gate:
        (wants_open, rev), *rest = gate.to_gate
        read = gate._replace(to_gate=tuple(rest), open=wants_open, rev=rev)
        yield put(world, index, read if wants_open else told(read, rev, read.inflight))
    if gate.linked and world.drops:
        cut = gate._replace(linked=False, to_gate=(), to_daemon=())
        yield put(world, index, cut, False)._replace(drops=world.drops - 1)
    if world.gate_kills:  # its clients are cut with it
        yield put(world, index, Gate(alive=False), False)._replace(gate_kills=world.gate_kills - 1)
    if not gate.linked and world.daemon:
        table = ((world.phase == "open", world.rev),)  # the whole table comes first
        rev = NEVER if rules.blank else gate.rev
        yield put(world, index, gate._replace(linked=True, to_gate=table, to_daemon=(), rev=rev))
    if gate.linked and world.daemon and gate.to_daemon:
        (rev, pinning), *more = gate.to_daemon
        counts = rev == world.rev or not rules.revisions
        ack = (pinning == 0 and world.phase != "open") if counts else None
        yield put(world, index, gate._replace(to_daemon=tuple(more)), ack)


def may_move(world: World, rules: Rules) -> bool:
    """Permission ends by a gate's word or its death, never by silence."""
    return all(
        not gate.alive or (world.acks[i] and gate.linked) or (not rules.roster and not gate.linked)
        for i, gate in enumerate(world.gates)
    )


def send(world: World, wants_open: bool) -> World:
    gates = tuple(
        gate._replace(to_gate=(*gate.to_gate, (wants_open, world.rev)))
        if gate.alive and gate.linked
        else gate
        for gate in world.gates
    )
    return world._replace(gates=gates, acks=(False,) * len(gates))


def daemon_steps(world: World, rules: Rules) -> Iterator[World]:
    """What the daemon may do, its death and its return."""
    if not world.daemon:  # nothing of the link is saved: revisions start again
        back = world._replace(daemon=True, phase="boot", rev=0)
        yield back._replace(acks=(False,) * len(world.gates))
        return
    room = world.rev < REV_MAX and all(len(gate.to_gate) < QUEUE_MAX for gate in world.gates)
    later = world._replace(rev=world.rev + 1)
    if room and world.server == "awake" and world.phase in ("boot", "closing", "closed"):
        yield send(later._replace(phase="open", file_open=True), True)
    if room and world.phase == "open":
        file_open = False if rules.file_first else world.file_open
        yield send(later._replace(phase="closing", file_open=file_open), False)
    if world.phase == "closing" and world.server == "awake" and may_move(world, rules):
        yield world._replace(phase="moving", server="moving")
    if world.server == "moving":
        phase: Phase = "boot" if world.phase == "boot" else "closed"
        yield world._replace(server="asleep", phase=phase, file_open=False)
    if world.server == "asleep" and world.phase == "closed":
        yield world._replace(server="awake")
    if world.server == "asleep" and world.phase == "boot":
        yield world._replace(phase="closed")
    if world.daemon_kills:
        gates = tuple(gate._replace(linked=False, to_gate=(), to_daemon=()) for gate in world.gates)
        dead = world._replace(gates=gates, acks=(False,) * len(gates), daemon=False)
        yield dead._replace(daemon_kills=world.daemon_kills - 1)


def search(
    rules: Rules, gates: int, drops: int, gate_kills: int, daemon_kills: int
) -> tuple[World | None, set[tuple[Phase, Server]]]:
    """Breadth first over everything reachable: the first unsafe world, if any, and the phases seen."""
    start = World(
        (Gate(),) * gates, (False,) * gates, True, "boot", 0, "awake", False, drops, gate_kills, daemon_kills
    )
    seen, todo = {start}, deque([start])
    phases: set[tuple[Phase, Server]] = set()
    while todo:
        world = todo.popleft()
        phases.add((world.phase, world.server))
        if world.server != "awake" and any(gate.inflight for gate in world.gates):
            return world, phases
        steps = list(daemon_steps(world, rules))
        for index in range(gates):
            steps.extend(gate_steps(world, index, rules))
        fresh = [step for step in steps if step not in seen]
        seen.update(fresh)
        todo.extend(dict.fromkeys(fresh))
    return None, phases


EVERYWHERE = {
    ("boot", "awake"), ("boot", "moving"), ("boot", "asleep"), ("open", "awake"), ("closing", "awake"),
    ("moving", "moving"), ("closed", "asleep"), ("closed", "awake"),
}  # fmt: skip

SIZES = {"one gate, many faults": (1, 2, 2, 2), "two gates": (2, 0, 1, 1)}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES.keys())
def test_safe_as_specified(size: tuple[int, int, int, int]) -> None:
    unsafe, phases = search(Rules(), *size)
    assert unsafe is None
    assert phases >= EVERYWHERE, "the search must reach every phase to mean anything"


@pytest.mark.parametrize("rule", ["roster", "file_first", "revisions", "blank"])
def test_unsafe_without(rule: str) -> None:
    unsafe, _ = search(replace(Rules(), **{rule: False}), gates=1, drops=1, gate_kills=1, daemon_kills=1)
    assert unsafe is not None
