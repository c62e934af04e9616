"""The daemon's side of the link: what every gate was told and has answered. No sockets here.

A gate's permission to forward ends by its own word or its death, never by silence. A gate exists while its lock is
held, connected or not: that is the roster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from headway.core import wire
from headway.core.facts import GateState
from headway.core.model import GateWish, Waiting

PING_EVERY_S = 2.0
SILENT_AFTER = 3  # pings without an answer
FENCE_AFTER_S = 10.0


@dataclass(slots=True)
class Peer:
    """One connection of one gate. It starts blank: nothing said on an older one counts."""

    send: Callable[[bytes], None]
    gate: str | None = None  # from its hello
    pid: int | None = None
    log: str | None = None
    closed: dict[str, tuple[int, int]] = field(default_factory=dict)  # service -> (rev, pinning)
    demand: dict[str, wire.Demand] = field(default_factory=dict)
    told_s: dict[str, float] = field(default_factory=dict)
    pinged: int = 0
    ponged: int = 0
    buffer: bytes = b""

    @property
    def silent(self) -> bool:
        return self.pinged - self.ponged >= SILENT_AFTER


@dataclass(frozen=True, slots=True)
class Troubled:
    """A gate had trouble with a server: the daemon looks at it at once."""

    service: str


class Links:
    """Tables out, answers in. `tell` gets a GateState for each service whose state changed."""

    def __init__(
        self,
        daemon: str,
        roster: Callable[[], frozenset[str]],
        write_routes: Callable[[bytes], None],
        tell: Callable[[GateState | Troubled], None],
    ) -> None:
        self.daemon, self._roster, self._write_routes, self._tell = daemon, roster, write_routes, tell
        self.table = wire.Table(wire.PROTO, daemon, {})
        self.peers: dict[str, Peer] = {}  # by gate id: the newest connection of each
        self._since_s: dict[str, float] = {}  # when each gate that does not answer was first missed
        self._last: dict[str, GateState] = {}
        self._written = True  # the file says what the table says
        self.on_held: Callable[[str, wire.Held], None] = lambda gate, held: None

    # ---------------------------------------------------------------- out

    def publish(
        self,
        rows: Mapping[str, wire.Service],
        mode: wire.Mode,
        salt: str,
        now_s: float,
        tokens: tuple[wire.Token, ...] = (),
    ) -> None:
        """Make this the table. The file first, then the roster is read, then the messages go out."""
        before = self.table
        changed = {name: row for name, row in rows.items() if before.services.get(name) != row}
        whole = set(rows) != set(before.services)
        whole |= (before.mode, before.salt, before.tokens) != (mode, salt, tokens)
        if not changed and not whole:
            return
        self.table = replace(before, services=dict(rows), mode=mode, salt=salt, tokens=tokens)
        self._write()
        message = self.table if whole else replace(self.table, services=changed, whole=False)
        self._send_all(wire.encode(message))
        for name, row in sorted(changed.items()):
            was = before.services.get(name)
            if was is None or (was.gate, was.rev) != (row.gate, row.rev):
                self._order(name, row.gate, row.rev)
        for name in before.services.keys() - rows.keys():
            self._forget(name)
        for name in changed:
            self._merge(name, now_s)

    def _write(self) -> None:
        """A new gate reads this file. While it cannot be written no close is complete: it may still say open."""
        try:
            self._write_routes(wire.encode(self.table))
            self._written = True
        except OSError:
            self._written = False

    def _forget(self, name: str) -> None:
        """A service of that name that comes later is another one."""
        self._last.pop(name, None)
        for peer in self.peers.values():
            peer.closed.pop(name, None)
            peer.demand.pop(name, None)

    def _order(self, name: str, wish: GateWish, rev: int) -> None:
        order = wire.Open(name, rev) if wish == "open" else wire.Close(name, rev)
        self._send_all(wire.encode(order))

    def _send_all(self, line: bytes) -> None:
        for peer in self.peers.values():
            peer.send(line)

    # ---------------------------------------------------------------- in

    def feed(self, peer: Peer, data: bytes, now_s: float) -> None:
        """Bytes of one connection. Raises WireError when it must be cut."""
        *lines, peer.buffer = (peer.buffer + data).split(b"\n")
        if len(peer.buffer) > wire.MAX_LINE_BYTES:
            raise wire.WireError("a line without an end")
        for line in lines:
            self._take(peer, wire.decode(line), now_s)

    def _take(self, peer: Peer, message: wire.Message, now_s: float) -> None:
        if peer.gate is None:
            if not isinstance(message, wire.Hello):
                raise wire.WireError("a connection begins with hello")
            self._hello(peer, message, now_s)
            return
        match message:
            case wire.Closed(service, rev, pinning):
                peer.closed[service] = (rev, pinning)
                self._merge(service, now_s)
            case wire.Demand(service):
                peer.demand[service] = message
                peer.told_s[service] = now_s
                self._merge(service, now_s)
            case wire.Trouble(service):
                self._tell(Troubled(service))
            case wire.Pong(n):
                peer.ponged = max(peer.ponged, n)
            case wire.Bye():
                self.lost(peer, now_s)
            case wire.Held(service):
                self.on_held(peer.gate, message)
            case wire.Unsupported():
                pass
            case _:
                peer.send(wire.encode(wire.Unsupported(type(message).__name__.lower())))

    def _hello(self, peer: Peer, hello: wire.Hello, now_s: float) -> None:
        peer.gate, peer.pid, peer.log = hello.gate, hello.pid, hello.log
        self.peers[hello.gate] = peer  # a second connection of the same gate replaces the first
        peer.send(wire.encode(self.table))
        self.merge_all(now_s)

    def lost(self, peer: Peer, now_s: float) -> None:
        """Its connection ended. The gate may well live on: the roster says."""
        if peer.gate is not None and self.peers.get(peer.gate) is peer:
            del self.peers[peer.gate]
            self.merge_all(now_s)

    # ---------------------------------------------------------------- what it comes to

    def merge_all(self, now_s: float) -> None:
        gates = self._gates()
        for name in self.table.services:
            self._merge(name, now_s, gates)

    def _gates(self) -> list[Peer | None]:
        """Every gate that lives or is connected; None: one that is not connected."""
        return [self.peers.get(gate_id) for gate_id in sorted(self._roster() | self.peers.keys())]

    def _merge(self, name: str, now_s: float, gates: list[Peer | None] | None = None) -> None:
        row = self.table.services.get(name)
        if row is None:
            return
        state = self._state(name, row, self._gates() if gates is None else gates)
        if state != self._last.get(name):
            self._last[name] = state
            self._tell(state)

    def _state(self, name: str, row: wire.Service, gates: list[Peer | None]) -> GateState:
        closed, pinning, spoken = row.gate == "closed" and self._written, 0, bool(gates)
        active, last_end_s = 0, None
        waiting: dict[str, Waiting] = {}
        for gate in gates:
            demand = gate.demand.get(name) if gate else None
            rev, pinned = gate.closed.get(name, (-1, 0)) if gate else (-1, 0)
            closed = closed and rev == row.rev
            pinning += pinned if rev == row.rev else 0
            if gate is None or demand is None:
                spoken = False
                continue
            told_s = gate.told_s[name]
            active += demand.active
            if demand.last_end_age_s is not None:
                last_end_s = max(last_end_s or 0.0, told_s - demand.last_end_age_s)
            for class_, held in demand.waiting.items():
                waiting[class_] = _joined(waiting.get(class_), held, told_s)
        return GateState(
            service=name,
            rev=row.rev,
            closed=closed,
            pinning=pinning,
            active=active if spoken else None,
            demand=waiting,
            last_end_s=last_end_s,
        )

    # ---------------------------------------------------------------- time

    def tick(self, now_s: float, ping: bool, awaited: Collection[str]) -> list[str]:
        """Once a second.

        Args:
            awaited: services that are awake and wait for their close to be complete. Nobody is fenced for others.

        Returns:
            The gates to fence: missed for 10 s while such a close waits for them.
        """
        if ping:
            for peer in self.peers.values():
                peer.pinged += 1
                peer.send(wire.encode(wire.Ping(peer.pinged)))
        roster = self._roster()
        mute = {gate for gate in roster if (one := self.peers.get(gate)) is None or one.silent}
        waits = self._close_waits_for(awaited)
        self._since_s = {gate: self._since_s.get(gate, now_s) for gate in mute & waits}
        if not self._written:
            self._write()
        self.merge_all(now_s)
        return sorted(gate for gate, since_s in self._since_s.items() if now_s - since_s >= FENCE_AFTER_S)

    def _close_waits_for(self, awaited: Collection[str]) -> set[str]:
        """Gates that have not answered a close at its revision, or still had requests when they did."""
        found: set[str] = set()
        for name, row in self.table.services.items():
            if row.gate == "closed" and name in awaited:
                found |= {g for g in self._roster() if not _answered(self.peers.get(g), name, row.rev)}
        return found


def _answered(peer: Peer | None, name: str, rev: int) -> bool:
    return peer is not None and peer.closed.get(name) == (rev, 0)


def _joined(before: Waiting | None, held: wire.Waiting, told_s: float) -> Waiting:
    since_s = told_s - held.oldest_s
    if before is None or not before.n:
        return Waiting(n=held.n, since_s=since_s, priority_max=held.priority_max)
    if not held.n:
        return before
    return Waiting(
        n=before.n + held.n,
        since_s=min(before.since_s, since_s),
        priority_max=max(before.priority_max, held.priority_max),
    )
