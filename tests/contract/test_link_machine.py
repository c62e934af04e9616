"""The link of real gates and a real daemon, driven at random and by script, against the invariant of its model.

Whenever the daemon believes that a service is drained, no living gate has a request forwarded to it, and none is
forwarded until an `open` was sent. A service that nobody closes is never disturbed.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headway.core import wire
from headway.core.facts import GateState
from headway.daemon.links import Links, Peer
from headway.gate.lines import Forward
from headway.gate.waiting import Phase
from tests.parts.link_world import MOVED, STEADY, GateSide, LinkWorld

pytestmark = pytest.mark.contract

BYTES = st.one_of(st.integers(min_value=1, max_value=400), st.just(1 << 20))
ANY = st.integers(min_value=0, max_value=1 << 16)  # picks one of however many there are
GATES_MAX = 3


class Machine(RuleBasedStateMachine):
    """Every step that a machine with kills, cuts and partial reads may take, in any order."""

    links: type[Links] = Links

    def __init__(self) -> None:
        super().__init__()
        self.world = LinkWorld(self.links)

    def gate(self, pick: int, want: Callable[[GateSide], object] = lambda gate: True) -> GateSide | None:
        found = [gate for gate in self.world.gates if want(gate)]
        return found[pick % len(found)] if found else None

    # ---------------------------------------------------------------- the daemon

    @precondition(lambda self: self.world.links is not None)
    @rule()
    def kill_daemon(self) -> None:
        self.world.kill_daemon()

    @precondition(lambda self: self.world.links is None)
    @rule()
    def start_daemon(self) -> None:
        self.world.start_daemon()

    @precondition(lambda self: self.world.links is not None and self.world.rows[MOVED].gate == "open")
    @rule()
    def close(self) -> None:
        self.world.order(MOVED, "closed")

    @precondition(
        lambda self: (
            self.world.links is not None
            and self.world.awake[MOVED]
            and self.world.rows[MOVED].gate == "closed"
        )
    )
    @rule()
    def open(self) -> None:
        self.world.order(MOVED, "open")

    @precondition(lambda self: self.world.links is not None and self.world.drained(MOVED))
    @rule()
    def step_aside(self) -> None:
        self.world.awake[MOVED] = False

    @precondition(lambda self: self.world.links is not None and not self.world.awake[MOVED])
    @rule()
    def wake(self) -> None:
        self.world.awake[MOVED] = True

    @precondition(lambda self: self.world.links is not None)
    @rule(ping=st.booleans(), passed_s=st.sampled_from((0.1, 1.0, 11.0)))
    def tick(self, ping: bool, passed_s: float) -> None:
        self.world.now_s += passed_s
        self.world.tick(ping)

    @precondition(lambda self: self.world.links is not None)
    @rule(pick=ANY, most=BYTES)
    def daemon_reads(self, pick: int, most: int) -> None:
        wires = [one for one in self.world.wires if one.daemon_end]
        if wires:
            self.world.daemon_reads(wires[pick % len(wires)], most)

    # ---------------------------------------------------------------- gates

    @precondition(lambda self: len(self.world.gates) < GATES_MAX)
    @rule()
    def lock_gate(self) -> None:
        self.world.lock_gate()

    @rule(pick=ANY)
    def read_file(self, pick: int) -> None:
        if gate := self.gate(pick, lambda gate: not gate.ready):
            self.world.read_file(gate)

    @rule(pick=ANY)
    def kill_gate(self, pick: int) -> None:
        if gate := self.gate(pick):
            self.world.kill_gate(gate)

    @precondition(lambda self: self.world.links is not None)
    @rule(pick=ANY)
    def connect(self, pick: int) -> None:
        if gate := self.gate(pick, lambda gate: gate.ready and gate.wire is None):
            self.world.connect(gate)

    @rule(pick=ANY, lost=st.integers(min_value=0, max_value=600))
    def drop(self, pick: int, lost: int) -> None:
        if gate := self.gate(pick, lambda gate: gate.wire is not None):
            self.world.drop(gate, lost)

    @rule(pick=ANY, most=BYTES)
    def gate_reads(self, pick: int, most: int) -> None:
        if gate := self.gate(pick, lambda gate: gate.wire is not None):
            self.world.gate_reads(gate, most)

    # ---------------------------------------------------------------- requests

    @rule(pick=ANY, service=st.sampled_from((MOVED, MOVED, STEADY)))
    def arrive(self, pick: int, service: str) -> None:
        if gate := self.gate(pick, lambda gate: gate.ready):
            answer = self.world.arrive(gate, service)
            assert service == MOVED or isinstance(answer, Forward)

    @rule(pick=ANY, how=st.sampled_from(("ended", "came_back", "left")))
    def over(self, pick: int, how: str) -> None:
        phase = Phase.WAITING if how == "left" else Phase.FORWARDED
        gate = self.gate(pick, lambda gate: gate.phased(phase))
        if gate is None:
            return
        ticket, world = gate.phased(phase)[0], self.world
        if how == "came_back" and ticket.service == STEADY:
            return  # its server never refuses anybody
        calls: Mapping[str, Callable[[], object]] = {
            "ended": lambda: gate.holding.ended(ticket, world.now_s),
            "came_back": lambda: gate.holding.came_back(ticket, world.now_s),
            "left": lambda: gate.holding.left(ticket),
        }
        world.then(gate, ticket, calls[how])

    @invariant()
    def holds(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        """Once nothing fails any more, every close comes to an end."""
        world = self.world
        if world.links is None:
            world.start_daemon()
        if world.rows[MOVED].gate == "open":
            world.order(MOVED, "closed")
        world.settle()
        for gate in world.gates:
            for ticket in [t for t in gate.phased(Phase.FORWARDED) if t.service == MOVED]:
                world.then(gate, ticket, partial(gate.holding.ended, ticket, world.now_s))
        world.settle()
        world.tick(ping=False)
        assert world.drained(MOVED), world.told.get(MOVED)
        world.check()


TestLink = Machine.TestCase
TestLink.settings = settings(
    max_examples=60, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)


# -------------------------------------------------------------------- each rule is needed


class ForgetsTheUnconnected(Links):
    """Asks only the gates that are connected."""

    def _gates(self) -> list[Peer | None]:
        return list(self.peers.values())


class TakesAnyRevision(Links):
    """An answer to an earlier close is as good as one to this."""

    def _state(self, name: str, row: wire.Service, gates: list[Peer | None]) -> GateState:
        for peer in self.peers.values():
            if name in peer.closed:
                peer.closed[name] = (row.rev, peer.closed[name][1])
        return super()._state(name, row, gates)


class WritesTheFileLast(Links):
    """The file says closed only when everybody has been asked."""

    late: bytes | None = None

    def _write(self) -> None:
        self.late = wire.encode(self.table)

    def publish(
        self,
        rows: Mapping[str, wire.Service],
        mode: wire.Mode,
        salt: str,
        now_s: float,
        tokens: tuple[wire.Token, ...] = (),
    ) -> None:
        super().publish(rows, mode, salt, now_s, tokens)
        if rows[MOVED].gate == "open":
            self._write_routes(wire.encode(self.table))

    def tick(self, now_s: float, ping: bool, awaited: Collection[str]) -> list[str]:
        fenced = super().tick(now_s, ping, awaited)
        self._write_routes(wire.encode(self.table))
        return fenced


class KeepsAnswers(Links):
    """A new connection inherits what was said on an older one."""

    def _hello(self, peer: object, hello: wire.Hello, now_s: float) -> None:
        before = self.peers.get(hello.gate)
        super()._hello(peer, hello, now_s)  # type: ignore[arg-type]
        if before is not None:
            self.peers[hello.gate].closed = before.closed
            self.merge_all(now_s)


def gate_at(world: LinkWorld, connected: bool = True) -> GateSide:
    gate = world.lock_gate()
    world.read_file(gate)
    if connected:
        world.connect(gate)
        world.settle()
    return gate


def an_unconnected_gate_serves(world: LinkWorld) -> None:
    world.order(MOVED, "open")
    gate_at(world)
    away = gate_at(world)
    world.drop(away, 0)
    world.arrive(away, MOVED)
    world.order(MOVED, "closed")
    world.daemon_reads(world.wires[-1], 1)
    for _ in range(3):
        for one in list(world.wires):
            world.daemon_reads(one, 1 << 20)
        world.gate_reads(world.gates[0], 1 << 20)
        world.check()


def a_late_answer_comes(world: LinkWorld) -> None:
    gate = gate_at(world)
    wire_ = gate.wire
    assert wire_ is not None
    world.order(MOVED, "open")
    world.gate_reads(gate, 1 << 20)
    world.order(MOVED, "closed")
    world.gate_reads(gate, 1 << 20)  # answered, and the answer is under way
    world.order(MOVED, "open")
    world.gate_reads(gate, 1 << 20)
    world.arrive(gate, MOVED)
    world.order(MOVED, "closed")
    world.daemon_reads(wire_, 1 << 20)
    world.check()


def a_gate_starts_beside_the_close(world: LinkWorld) -> None:
    world.order(MOVED, "open")
    world.order(MOVED, "closed")
    assert world.drained(MOVED)
    gate = gate_at(world, connected=False)
    world.arrive(gate, MOVED)
    world.check()


def a_gate_comes_back(world: LinkWorld) -> None:
    gate = gate_at(world)
    world.order(MOVED, "open")
    world.settle()
    world.order(MOVED, "closed")
    world.settle()
    world.order(MOVED, "open")
    world.gate_reads(gate, 1 << 20)
    world.arrive(gate, MOVED)
    world.drop(gate, 0)
    assert world.links is not None
    peer = world.links.peers[gate.name]
    peer.closed[MOVED] = (world.rows[MOVED].rev + 1, 0)  # as one would who answered ahead
    world.connect(gate)
    world.daemon_reads(world.wires[-1], 1 << 20)
    world.order(MOVED, "closed")
    world.check()


BROKEN = {
    "an unconnected gate is forgotten": (ForgetsTheUnconnected, an_unconnected_gate_serves),
    "an answer of any revision counts": (TakesAnyRevision, a_late_answer_comes),
    "the file is written last": (WritesTheFileLast, a_gate_starts_beside_the_close),
    "an older connection counts": (KeepsAnswers, a_gate_comes_back),
}


@pytest.mark.parametrize(("broken", "script"), BROKEN.values(), ids=BROKEN.keys())
def test_each_rule_is_needed(broken: type[Links], script: Callable[[LinkWorld], None]) -> None:
    script(LinkWorld())
    with pytest.raises(AssertionError, match="drained|said nothing"):
        script(LinkWorld(broken))


def test_the_random_walk_finds_a_broken_rule_too() -> None:
    class Broken(Machine):
        links = ForgetsTheUnconnected

    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            Broken, settings=settings(TestLink.settings, max_examples=200, database=None)
        )


def test_nothing_is_drained_before_the_first_word_of_a_gate() -> None:
    world = LinkWorld()
    gate = gate_at(world, connected=False)
    world.order(MOVED, "open")
    world.order(MOVED, "closed")
    assert not world.drained(MOVED)
    world.kill_gate(gate)
    world.tick(ping=False)
    assert world.drained(MOVED)
    assert world.file_says(MOVED) == "closed" and world.file_says(STEADY) == "open"
