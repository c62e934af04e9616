"""Forward, hold or refuse: the one place that decides it. No clock, no I/O, no coroutine.

`arrive` checks that the service is open and counts the request in the same call, so nothing can be closed in
between: a close that reads `pinning` sees every request that was or will be sent under the old permission.
"""

from collections.abc import Iterable

from headway.core import wire
from headway.gate.lines import (
    FORWARD,
    HELD,
    NO_MOVES,
    STALL_FIRST_S,
    STALL_MAX_S,
    Forward,
    Held,
    Line,
    Moves,
    Refused,
    refusal,
)
from headway.gate.waiting import Phase, Ticket


class Holding:
    """All services of one gate. Every method takes the clock's reading; none waits."""

    def __init__(self) -> None:
        self.lines: dict[str, Line] = {}
        self.shadow = False
        self.connected = False  # to the daemon; only words depend on it
        self.changed: set[str] = set()  # whose demand changed since the link last asked
        self.urgent: set[str] = set()  # of these: the first or last waiter of a closed service
        self.drained: set[str] = set()  # closed services whose pinning reached 0 since the link last asked

    # One request

    def arrive(self, ticket: Ticket, now_s: float) -> Forward | Held | Refused:
        """Check and count in one step."""
        line = self.lines.get(ticket.service)
        if line is None:
            return refusal("service_gone", None)
        ticket.arrived_s, ticket.counted_s = now_s, line.counted(now_s)
        if self.shadow or (line.open and not line.stall_s and (not ticket.demand or line.has_place())):
            self._grant(line, ticket)
            return FORWARD
        if line.row.state == "failed":
            return refusal(line.no(), line)
        if not ticket.demand:
            return refusal("service_aside", line)
        if ticket.wait_s is not None and ticket.wait_s <= 0:
            return refusal("wait_over", line, position=len(line.order) + 1)
        if len(line.order) >= line.row.queue_max:
            return refusal("queue_full", line, position=len(line.order) + 1)
        self._wait(line, ticket)
        return HELD

    def reached(self, ticket: Ticket, now_s: float) -> Moves:
        """Its server took the connection: whatever was refused before is over."""
        line = self.lines[ticket.service]
        if not line.stall_s or ticket.phase is Phase.PROBING:
            return NO_MOVES
        line.settle(now_s)
        line.stall_s = 0.0
        return self._release(line)

    def came_back(self, ticket: Ticket, now_s: float) -> Held | Refused:
        """Its server refused the connection before any byte: it waits again, at the head, and does not pin.

        In shadow mode nothing is held, and a probe is never held: these are refused.
        """
        line = self.lines[ticket.service]
        if line.probing and line.probed(ticket):
            return refusal("upstream_unreachable", line)
        self._uncount(line, ticket)
        line.settle(now_s)
        line.stall_s = min(STALL_MAX_S, line.stall_s * 2 or STALL_FIRST_S)
        line.retry_at_s = now_s + line.stall_s
        if self.shadow or not ticket.demand or (ticket.wait_s is not None and ticket.wait_s <= 0):
            ticket.phase = Phase.OVER
            return refusal("upstream_unreachable", line)
        self._wait(line, ticket, first=True)
        return HELD

    def ended(self, ticket: Ticket, now_s: float) -> Moves:
        """A forwarded request is over, to its last byte. The place goes to who is next."""
        line = self.lines[ticket.service]
        if line.probing and line.probed(ticket):
            return NO_MOVES
        self._uncount(line, ticket)
        ticket.phase = Phase.OVER
        if ticket.demand and ticket.class_ == "attended":
            line.last_end_s = now_s
        return self._release(line) if len(line.order) else NO_MOVES

    def left(self, ticket: Ticket) -> None:
        """A waiting request's client is gone: its place is given up, it is never sent."""
        line = self.lines[ticket.service]
        line.order.remove(ticket)
        ticket.phase = Phase.OVER
        self._touch(line, urgent=not line.open and not len(line.order))

    # The daemon's word

    def apply(self, rows: Iterable[wire.Service], now_s: float, *, whole: bool) -> Moves:
        """Take a table's rows. With `whole`, services not in it are gone and their waiters refused."""
        moves = Moves()
        rows = list(rows)
        if whole:
            for name in self.lines.keys() - {row.name for row in rows}:
                self._drop(self.lines[name], moves)
        for row in rows:
            line = self.lines.setdefault(row.name, Line(row, now_s))
            line.settle(now_s)
            line.take(row, now_s)
            self._set_open(line, row.gate == "open")
            if row.state == "failed" and not line.open:
                self._refuse_all(line, line.no(), moves)
            moves.forward += self._release(line).forward
        return moves

    def open(self, service: str, rev: int, now_s: float) -> Moves:
        """The daemon's permission for this service, at this revision. KeyError for one not in the table."""
        line = self.lines[service]
        line.settle(now_s)
        line.turn("open", rev)
        self._set_open(line, True)
        return self._release(line)

    def close(self, service: str, rev: int, now_s: float) -> None:
        """The permission ends now: whatever comes after waits. KeyError for a service not in the table."""
        line = self.lines[service]
        line.settle(now_s)
        line.turn("closed", rev)
        self._set_open(line, False)

    # Time

    def next_deadline_s(self, now_s: float) -> float | None:
        """When `tick` has something to do, if nothing else changes."""
        times = [at_s for line in self.lines.values() for at_s in line.deadlines(now_s)]
        return min(times, default=None)

    def tick(self, now_s: float) -> Moves:
        """Refuse who waited too long; try a server again that refused connections."""
        moves = Moves()
        for line in self.lines.values():
            if not len(line.order):
                continue
            places = line.places() if line.overdue(now_s) else {}
            for ticket, code in line.expire(now_s, self.connected):
                self._refuse(line, ticket, code, moves, position=places.get(ticket, 1))
            if (
                line.stall_s
                and line.open
                and len(line.order)
                and line.has_place()
                and now_s >= line.retry_at_s
            ):
                line.retry_at_s = now_s + STALL_MAX_S  # one at a time, until its connection succeeds or fails
                moves.forward.append(self._next(line))
        return moves

    # Inside

    def _grant(self, line: Line, ticket: Ticket) -> None:
        if not (line.open or self.shadow):
            raise AssertionError(f"{line.row.name} is closed")
        ticket.phase = Phase.FORWARDED
        line.forwarded.add(ticket)
        if ticket.demand:
            line.active += 1
            self.changed.add(line.row.name)

    def _uncount(self, line: Line, ticket: Ticket) -> None:
        line.forwarded.remove(ticket)
        if ticket.demand:
            line.active -= 1
            self.changed.add(line.row.name)
        if not line.open and not line.forwarded:
            self.drained.add(line.row.name)

    def _wait(self, line: Line, ticket: Ticket, *, first: bool = False) -> None:
        line.order.add(ticket, first=first)
        self._touch(line, urgent=not line.open and len(line.order) == 1)

    def _next(self, line: Line) -> Ticket:
        ticket = line.order.pop()
        self._grant(line, ticket)
        return ticket

    def _release(self, line: Line) -> Moves:
        moves = Moves()
        while len(line.order) and (self.shadow or (line.open and not line.stall_s and line.has_place())):
            moves.forward.append(self._next(line))
        return moves

    def _set_open(self, line: Line, wanted: bool) -> None:
        if wanted and not line.open:
            line.stall_s = 0.0  # a new permission is a new server
        line.open = wanted
        self._touch(line, urgent=not wanted and len(line.order) > 0)

    def _refuse_all(self, line: Line, code: str, moves: Moves) -> None:
        while len(line.order):
            self._refuse(line, line.order.pop(), code, moves)

    def _refuse(self, line: Line, ticket: Ticket, code: str, moves: Moves, **facts: int) -> None:
        ticket.phase = Phase.OVER
        moves.refuse.append((ticket, refusal(code, line, **facts)))
        self._touch(line, urgent=not line.open and not len(line.order))

    def _drop(self, line: Line, moves: Moves) -> None:
        line.open = False
        self._refuse_all(line, "service_gone", moves)
        if not line.forwarded and not line.probing and not line.tunnels:
            del self.lines[line.row.name]

    def _touch(self, line: Line, *, urgent: bool) -> None:
        self.changed.add(line.row.name)
        if urgent:
            self.urgent.add(line.row.name)
