"""The gate's side of the link: bytes in, effects and bytes out. No clock, no I/O.

A connection starts blank: before its first whole table nothing is answered, and a permission given on an earlier
connection proves nothing on this one. What the gate may forward stays what it was until the daemon says otherwise.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from headway.core import wire
from headway.gate.holding import Holding
from headway.gate.lines import Moves

DEMAND_EVERY_S = 0.05
TROUBLE_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this gate is. `started_s` is on the clock that all methods are given."""

    gate: str
    pid: int
    version: str
    started_s: float
    log: str


@dataclass(slots=True)
class Effects:
    """What the gate must do after bytes from the daemon: send and refuse held requests, take a new table, cut
    requests of a closed service after some seconds, leave."""

    moves: Moves = field(default_factory=Moves)
    table: wire.Table | None = None
    aborts: list[tuple[str, float]] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    drain: bool = False

    def add(self, moves: Moves) -> None:
        """Join what a change caused."""
        self.moves.forward += moves.forward
        self.moves.refuse += moves.refuse


class Link:
    """One gate's link. The owner writes `take_out()` to the connection after every call."""

    def __init__(
        self, holding: Holding, identity: Identity, lag_ms: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.holding, self.identity, self._lag_ms = holding, identity, lag_ms
        self.table: wire.Table | None = None
        self.connected = False
        self._blank = True  # no table came on this connection
        self._told: set[str] = set()  # services in the tables of this connection
        self._buffer = b""
        self._out: list[bytes] = []
        self._seq = 0
        self._flushed_s = float("-inf")
        self._trouble_s: dict[str, float] = {}

    def preload(self, table: wire.Table, now_s: float) -> Effects:
        """Take `run/routes.json` at the start, before the first request is accepted."""
        effects = Effects()
        self._take_table(replace(table, whole=True), now_s, effects)
        return effects

    def connect(self, now_s: float) -> None:
        """A connection to the daemon was made: it's blank, and begins with `hello`."""
        self.connected = self._blank = True
        self._told.clear()
        self._buffer, self._out = b"", []
        me = self.identity
        self._send(
            wire.Hello(wire.PROTO, me.gate, me.pid, me.version, max(0.0, now_s - me.started_s), me.log)
        )

    def disconnect(self) -> None:
        """The connection is gone. The table stays: open services are served, closed ones held."""
        self.connected = self.holding.connected = False
        self._told.clear()
        self._buffer, self._out = b"", []

    def feed(self, data: bytes, now_s: float) -> Effects:
        """Read what the daemon sent.

        Raises:
            WireError: not this protocol; the connection must be closed (and made anew).
        """
        effects = Effects()
        lines = (self._buffer + data).split(b"\n")
        self._buffer = lines.pop()
        if len(self._buffer) > wire.MAX_LINE_BYTES:
            raise wire.WireError("a line without an end")
        for line in lines:
            self._take(wire.decode(line), now_s, effects)
        return effects

    def flush(self, now_s: float) -> None:
        """Say what changed: at once for the first or last waiter of a closed service, else 20 times a second."""
        holding = self.holding
        if not self.connected or self._blank:
            return
        for name in sorted(holding.drained):
            self._say_closed(name)
        holding.drained.clear()
        due = now_s >= self._flushed_s + DEMAND_EVERY_S  # the sum that next_flush_s gives, to the last bit
        if due:
            self._flushed_s = now_s
        names = holding.changed if due else holding.urgent
        for name in sorted(names):
            self._say_demand(name, now_s)
        if due:
            holding.changed.clear()
        else:
            holding.changed -= holding.urgent
        holding.urgent.clear()

    def next_flush_s(self) -> float | None:
        """When `flush` has something to say; None while nothing changed."""
        if not self.connected or self._blank:
            return None
        if self.holding.urgent or self.holding.drained:
            return float("-inf")
        return self._flushed_s + DEMAND_EVERY_S if self.holding.changed else None

    def trouble(self, service: str, what: wire.TroubleKind, now_s: float) -> None:
        """A server refused a connection or did not take it in time. Ten times a second and service at most."""
        if not self.connected or now_s - self._trouble_s.get(service, float("-inf")) < TROUBLE_EVERY_S:
            return
        self._trouble_s[service] = now_s
        self._send(wire.Trouble(service, what))

    def bye(self) -> None:
        """The last line of a gate that leaves on purpose."""
        if self.connected:
            self._send(wire.Bye())

    def take_out(self) -> bytes:
        """The bytes to write now."""
        out, self._out = self._out, []
        return b"".join(out)

    # Inside

    def _take(self, message: wire.Message, now_s: float, effects: Effects) -> None:
        match message:
            case wire.Table():
                if self._blank and not message.whole:
                    raise wire.WireError("a connection begins with a whole table")
                self._blank = False
                self._take_table(message, now_s, effects)
                self.holding.connected = True
                self._answer_table(message, now_s)
            case wire.Open(service, rev) if service in self._told:
                effects.add(self.holding.open(service, rev, now_s))
            case wire.Close(service, rev, abort_after_s) if service in self._told:
                self.holding.close(service, rev, now_s)
                effects.closed.append(service)
                if abort_after_s is not None:
                    effects.aborts.append((service, abort_after_s))
                self._say_closed(service)
                self.holding.drained.discard(service)
            case wire.Open() | wire.Close():
                raise wire.WireError(f"{message.service} is in no table of this connection")
            case wire.List(service):
                line = self.holding.lines.get(service)
                self._send(line.held(now_s) if line is not None else wire.Held(service, ()))
            case wire.Ping(n):
                self._send(wire.Pong(n, self._lag_ms()))
            case wire.Drain():
                effects.drain = True
            case wire.Unsupported(name):
                if name not in wire.TYPES:  # theirs, not an answer to ours
                    self._send(wire.Unsupported(name))
            case _:
                self._send(wire.Unsupported(type(message).__name__.lower()))

    def _take_table(self, message: wire.Table, now_s: float, effects: Effects) -> None:
        if message.whole or self.table is None:
            self.table = message
        else:
            self.table = replace(self.table, services={**self.table.services, **message.services})
        was_open = {name for name, line in self.holding.lines.items() if line.open}
        self.holding.shadow = self.table.mode == "shadow"
        effects.add(self.holding.apply(message.services.values(), now_s, whole=message.whole))
        effects.closed += sorted(name for name in was_open if not self._is_open(name))
        effects.table = self.table

    def _answer_table(self, message: wire.Table, now_s: float) -> None:
        if message.whole:
            self._told = set(message.services)
        else:
            self._told |= set(message.services)
        for name in sorted(message.services):
            if not self._is_open(name):
                self._say_closed(name)
                self.holding.drained.discard(name)
            self._say_demand(name, now_s)
            self.holding.changed.discard(name)
            self.holding.urgent.discard(name)

    def _is_open(self, name: str) -> bool:
        line = self.holding.lines.get(name)
        return line is not None and line.open

    def _say_closed(self, name: str) -> None:
        line = self.holding.lines.get(name)
        if line is not None and name in self._told and not line.open:
            self._send(wire.Closed(name, line.row.rev, len(line.forwarded), line.tunnels))

    def _say_demand(self, name: str, now_s: float) -> None:
        line = self.holding.lines.get(name)
        if line is not None and name in self._told:
            self._seq += 1
            self._send(line.demand(now_s, self._seq))

    def _send(self, message: wire.Message) -> None:
        self._out.append(wire.encode(message))
