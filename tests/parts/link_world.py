"""Gates and a daemon on one link, by hand: real holding, real gate link, real daemon links, and wires that cut."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from headway.core import wire
from headway.core.facts import GateState
from headway.daemon.adopt import FIRST_REV
from headway.daemon.links import Links, Peer, Troubled
from headway.gate.holding import Holding
from headway.gate.lines import Forward, Held, Refused
from headway.gate.link import Identity, Link
from headway.gate.waiting import Phase, Ticket

MOVED, STEADY = "chat", "other"  # the service that opens and closes, and the one that nobody may disturb


@dataclass
class Wire:
    """One connection: bytes under way in both directions, and which of its ends still hold it."""

    peer: Peer
    up: bytearray = field(default_factory=bytearray)
    down: bytearray = field(default_factory=bytearray)
    gate_end: bool = True
    daemon_end: bool = True


class GateSide:
    """One gate process. It holds its lock from the first moment, reads the file later, accepts after that."""

    def __init__(self, name: str) -> None:
        self.name, self.ready, self.alive = name, False, True
        self.holding = Holding()
        self.link = Link(self.holding, Identity(name, 1, "0", 0.0, "log"))
        self.wire: Wire | None = None
        self.tickets: list[Ticket] = []

    def forwarded(self, service: str) -> int:
        line = self.holding.lines.get(service)
        return len(line.forwarded) if line is not None else 0

    def phased(self, phase: Phase) -> list[Ticket]:
        return [ticket for ticket in self.tickets if ticket.phase is phase]


class LinkWorld:
    """All of it, with the file and the servers. Every step of a real machine is one call.

    Args:
        links: the daemon's side under test, or one with a rule broken.
    """

    def __init__(self, links: type[Links] = Links) -> None:
        self.links_class = links
        self.now_s = 100.0
        self.file: bytes | None = None
        self.gates: list[GateSide] = []
        self.wires: list[Wire] = []
        self.made = 0
        self.awake = {MOVED: True, STEADY: True}
        self.rows: dict[str, wire.Service] = {}
        self.told: dict[str, GateState] = {}
        self.links: Links | None = None
        self.start_daemon()
        self.order(STEADY, "open")

    # ---------------------------------------------------------------- the daemon

    def start_daemon(self) -> None:
        """A new process: all it knows is the file."""
        assert self.links is None
        open_ = set()
        if self.file is not None:
            rows = wire.read_table(self.file).services.values()
            open_ = {row.name for row in rows if row.gate == "open"}
        self.told = {}
        self.rows = {
            name: wire.Service(name, FIRST_REV, "open" if name in open_ else "closed", upstream="http://u")
            for name in (MOVED, STEADY)
        }
        self.links = self.links_class("d", self.roster, self._write, self._tell)
        self._publish()

    def kill_daemon(self) -> None:
        self.links = None
        for one in self.wires:
            one.daemon_end = False

    def order(self, service: str, wish: wire.GateWish) -> None:
        row = self.rows[service]
        self.rows[service] = replace(row, rev=row.rev + 1, gate=wish)
        self.told.pop(service, None)
        self._publish()

    def _publish(self) -> None:
        assert self.links is not None
        self.links.publish(self.rows, "live", "salt", self.now_s)

    def drained(self, service: str) -> bool:
        """What decide would go by: fold takes a state at the present revision only."""
        state = self.told.get(service)
        return state is not None and state.closed and state.pinning == 0

    def roster(self) -> frozenset[str]:
        return frozenset(gate.name for gate in self.gates if gate.alive)

    def _write(self, document: bytes) -> None:
        self.file = document

    def _tell(self, told: GateState | Troubled) -> None:
        if isinstance(told, GateState) and told.rev == self.rows[told.service].rev:
            if told.closed:
                assert self.links is not None
                missing = self.roster() - set(self.links.peers)
                assert not missing, f"closed although {sorted(missing)} said nothing"
            self.told[told.service] = told

    def tick(self, ping: bool) -> list[str]:
        assert self.links is not None
        awaited = {name for name, row in self.rows.items() if row.gate == "closed" and self.awake[name]}
        fenced = self.links.tick(self.now_s, ping, awaited)
        for name in fenced:
            self.kill_gate(next(gate for gate in self.gates if gate.name == name))
        return fenced

    # ---------------------------------------------------------------- gates

    def lock_gate(self) -> GateSide:
        self.made += 1
        gate = GateSide(f"g{self.made}")
        self.gates.append(gate)
        return gate

    def read_file(self, gate: GateSide) -> None:
        if self.file is not None:
            gate.link.preload(wire.read_table(self.file), self.now_s)
        gate.ready = True

    def kill_gate(self, gate: GateSide) -> None:
        """Its clients are cut; what it wrote can still be read."""
        gate.alive = False
        self.gates.remove(gate)
        if gate.wire is not None:
            gate.wire.gate_end = False
            gate.wire = None

    def connect(self, gate: GateSide) -> None:
        assert gate.wire is None and self.links is not None
        down = bytearray()
        one = Wire(Peer(send=down.extend), down=down)
        self.wires.append(one)
        gate.wire = one
        gate.link.connect(self.now_s)
        self._flush(gate)

    def drop(self, gate: GateSide, lost_bytes: int) -> None:
        """The connection breaks; the last bytes to the daemon never arrive."""
        assert gate.wire is not None
        gate.wire.gate_end = False
        del gate.wire.up[len(gate.wire.up) - min(lost_bytes, len(gate.wire.up)) :]
        gate.wire = None
        gate.link.disconnect()

    def gate_reads(self, gate: GateSide, most: int) -> None:
        """Some bytes from the daemon, which may be dead by now; at their end the gate sees that."""
        one = gate.wire
        assert one is not None
        data = bytes(one.down[:most])
        del one.down[:most]
        if data:
            gate.link.feed(data, self.now_s)
            self._flush(gate)
        elif not one.daemon_end:
            gate.wire = None
            gate.link.disconnect()

    def daemon_reads(self, one: Wire, most: int) -> None:
        assert self.links is not None
        data = bytes(one.up[:most])
        del one.up[:most]
        if data:
            self.links.feed(one.peer, data, self.now_s)
        elif not one.gate_end:
            self.links.lost(one.peer, self.now_s)
            self.wires.remove(one)

    def _flush(self, gate: GateSide) -> None:
        gate.link.flush(self.now_s)
        out = gate.link.take_out()
        if gate.wire is not None:
            gate.wire.up += out

    # ---------------------------------------------------------------- requests

    def arrive(self, gate: GateSide, service: str) -> Forward | Held | Refused:
        ticket = Ticket(service, id=str(self.now_s))
        answer = gate.holding.arrive(ticket, self.now_s)
        gate.tickets.append(ticket)
        self._flush(gate)
        return answer

    def then(self, gate: GateSide, ticket: Ticket, call: Callable[[], object]) -> None:
        call()
        if ticket.phase is Phase.OVER:
            gate.tickets.remove(ticket)
        self._flush(gate)

    # ---------------------------------------------------------------- what must hold

    def check(self) -> None:
        for service in (MOVED, STEADY):
            sent = {gate.name: n for gate in self.gates if (n := gate.forwarded(service))}
            if self.links is not None and self.drained(service):
                assert not sent, f"{service} counts as drained while {sent} are forwarded"
            assert self.awake[service] or not sent, f"{service} is aside while {sent} are forwarded"
        for gate in self.gates:
            line = gate.holding.lines.get(STEADY)
            assert not gate.ready or (line is not None and line.open), f"{gate.name} disturbs {STEADY}"

    def settle(self) -> None:
        """Everybody reads everything: what is true when nothing fails any more."""
        assert self.links is not None
        for _ in range(4):
            for gate in list(self.gates):
                if not gate.ready:
                    self.read_file(gate)
                while gate.wire is not None and (gate.wire.down or not gate.wire.daemon_end):
                    self.gate_reads(gate, 1 << 20)
                if gate.wire is None:
                    self.connect(gate)
            for one in list(self.wires):
                if one.daemon_end:
                    while one.up or (not one.gate_end and one in self.wires):
                        self.daemon_reads(one, 1 << 20)
            self.now_s += 0.1
            for gate in self.gates:
                self._flush(gate)

    def file_says(self, service: str) -> str | None:
        if self.file is None:
            return None
        row: dict[str, str] = json.loads(self.file)["services"][service]
        return row["gate"]
