"""A gate process of the false machine: the real holding and the real link, with clients and servers of the world."""

from __future__ import annotations

import json
from asyncio import TimerHandle
from typing import TYPE_CHECKING

from headway.core import wire
from headway.gate.holding import Holding
from headway.gate.lines import Forward, Held, Moves, Refused
from headway.gate.link import Effects, Identity, Link
from headway.gate.waiting import Phase, Ticket
from headway.sim.loop import Life
from headway.sim.runs import BOOT
from headway.sim.wires import End, Wire

if TYPE_CHECKING:
    from headway.sim.clients import Request
    from headway.sim.programs import Server
    from headway.sim.world import World

AGAIN_S = 0.3
DIAL_S = 0.0005


class Exchange:
    """One request inside one gate."""

    def __init__(self, gate: SimGate, request: Request) -> None:
        self.gate, self.request = gate, request
        self.ticket = Ticket(
            request.service, request.class_, request.client, id=request.id, wait_s=request.wait_s, owner=self
        )
        self.server: Server | None = None
        self.anyway = False
        self.arrived_s = gate.world.loop.now_s
        self.sent_s: float | None = None
        self.waited_for: str | None = None

    def granted(self) -> None:
        """It goes out by what holds now: a request that left in shadow mode may reach a server that sleeps."""
        self.anyway = self.gate.holding.shadow
        self.sent_s = self.gate.world.loop.now_s
        self.gate.world.loop.later(DIAL_S, self.dial, life=self.gate.life)

    def dial(self) -> None:
        """Connect to the upstream of the row; nobody there: it waits again, at the head."""
        gate, now_s = self.gate, self.gate.world.loop.now_s
        if self.ticket.phase is not Phase.FORWARDED:
            return
        row = gate.holding.lines[self.ticket.service].row
        server = gate.world.server_at(row.upstream)
        if server is None:
            gate.link.trouble(self.ticket.service, "refused", now_s)
            gate.out()
            answer = gate.holding.came_back(self.ticket, now_s)
            if isinstance(answer, Refused):
                self.refused(answer)
            gate.poke()
            return
        gate.dispatch(gate.holding.reached(self.ticket, now_s))
        self.server = server
        server.serve(self.request.id, self.over, self.anyway)

    def over(self, how: str) -> None:
        """The server's answer ended; in the gate's process."""
        self.gate.world.loop.later(DIAL_S, self.answered, how, life=self.gate.life)

    def answered(self, how: str) -> None:
        if self.ticket.phase is Phase.FORWARDED:
            self.gate.dispatch(self.gate.holding.ended(self.ticket, self.gate.world.loop.now_s))
            self._over(how, None)

    def refused(self, refused: Refused) -> None:
        self._over("refused", refused.code)

    def cut(self) -> None:
        """Ended by the gate: its service closes."""
        if self.server is not None:
            self.server.cancel(self.request.id)
        self.answered("cut")

    def left(self) -> None:
        """Its client is gone."""
        if self.ticket.phase is Phase.WAITING:
            self.gate.holding.left(self.ticket)
            self._over("left", None)
            self.gate.poke()
        elif self.ticket.phase is Phase.FORWARDED:
            if self.server is not None:
                self.server.cancel(self.request.id)
            self.answered("left")
        else:  # a gate that stands still has not even read it
            self._over("left", None)

    def _over(self, how: str, code: str | None) -> None:
        self.gate.exchanges.pop(self.request.id, None)
        self.gate.write(self, how)
        self.request.answered(how, code)


class SimGate:
    """Lock, then routes.json, then accept; the link to the daemon, made anew for ever."""

    def __init__(self, world: World, gate: str, pid: int) -> None:
        self.world, self.id, self.pid = world, gate, pid
        self.life = Life(f"gate {gate}", self._ended)
        self.holding = Holding()
        log = f"2026-01.{gate}.ndjson"
        self.link = Link(self.holding, Identity(gate, pid, "0", world.loop.now_s, log))
        self.log = world.disk.logs.setdefault(log, bytearray())
        self.exchanges: dict[str, Exchange] = {}
        self.wire: Wire | None = None
        self.accepting = False
        self.frozen = False
        self._backlog: list[bytes] = []
        self._unread: list[Exchange] = []
        self._flush: TimerHandle | None = None
        self._bound: TimerHandle | None = None
        world.loop.later(0.01, self._begin, life=self.life)

    def _begin(self) -> None:
        now_s = self.world.loop.now_s
        if self.world.disk.routes is not None:
            self.obey(self.link.preload(wire.read_table(self.world.disk.routes), now_s))
        self.accepting = True
        self._connect()
        for request in self.world.clients.take_backlog():
            self.arrive(request)

    def kill(self) -> None:
        """Its connections break: clients see it, servers stop what they did for them."""
        self.world.loop.kill(self.life)

    def _ended(self) -> None:
        self.accepting = False
        if self.exchanges and self.world.chance.random() < 0.5:
            line = self._line(next(iter(self.exchanges.values())), "done")
            self.log += line[: self.world.chance.randrange(len(line) - 1)]  # killed while it wrote
        for exchange in list(self.exchanges.values()):
            if exchange.server is not None:
                exchange.server.cancel(exchange.request.id)
            exchange.request.answered("gate_died", None)
        self.exchanges.clear()
        if self.wire is not None:
            self.wire.cut()
        self.world.supervisor.gate_ended(self)

    # ---------------------------------------------------------------- requests

    def arrive(self, request: Request) -> None:
        """A whole request was read."""
        exchange = Exchange(self, request)
        request.exchange = exchange
        self.exchanges[request.id] = exchange
        if self.frozen:
            self._unread.append(exchange)
        else:
            self._arrive(exchange)

    def _arrive(self, exchange: Exchange) -> None:
        if exchange.request.outcome is not None:
            return  # its client left before it was read
        match self.holding.arrive(exchange.ticket, self.world.loop.now_s):
            case Forward():
                exchange.granted()
            case Held():
                line = self.holding.lines[exchange.ticket.service]
                exchange.waited_for = "place" if line.open else line.row.state
            case Refused() as refused:
                exchange.refused(refused)
        self.poke()

    def write(self, exchange: Exchange, how: str) -> None:
        if not self.world.disk.full:  # else the line is dropped and counted
            if self.log and self.log[-1:] != b"\n":
                self.log += b"\n"  # an earlier gate of this name was killed while it wrote
            self.log += self._line(exchange, how)
            self.world.checks.logged += 1

    def _line(self, exchange: Exchange, how: str) -> bytes:
        """As gate/record.py writes it. Of how an answer ended the number of its request decides."""
        request, now_s, number = exchange.request, self.world.loop.now_s, int(exchange.request.id[1:])
        sent_s, took_s = exchange.sent_s, now_s - exchange.arrived_s
        waited_s = (now_s if sent_s is None else sent_s) - exchange.arrived_s if exchange.waited_for else 0.0
        row = {
            "id": request.id,
            "service": request.service,
            "class": request.class_,
            "demand": True,
            "how": how,
            "held": exchange.waited_for is not None,
            "waited_for": exchange.waited_for,
            "waited_s": waited_s,
            "sent_after_s": None if sent_s is None else sent_s - exchange.arrived_s,
            "took_s": took_s,
            "at_s": exchange.arrived_s,
            "wall_s": exchange.arrived_s + self.world.wall_offset_s,
            "boot": BOOT,
            "conversation": request.client,
            "finish": ("stop", "tool_calls", None)[number % 3],
            "output_tokens": number * 37 % 700,
        }
        return json.dumps(row).encode() + b"\n"

    # ---------------------------------------------------------------- the link

    def _connect(self) -> None:
        if self.wire is None and not self.frozen and (made := self.world.connect(self._end())) is not None:
            self.wire = made
            self.link.connect(self.world.loop.now_s)
            self.out()
        self.world.loop.later(AGAIN_S * self.world.pace, self._connect, life=self.life)

    def _end(self) -> End:
        return End(self.life, self._data, self._lost)

    def _data(self, data: bytes) -> None:
        if self.frozen:
            self._backlog.append(data)
            return
        try:
            effects = self.link.feed(data, self.world.loop.now_s)
        except wire.WireError:
            if self.wire is not None:
                self.wire.cut()
            return
        self.obey(effects)
        self.out()

    def _lost(self) -> None:
        self.wire = None
        self.link.disconnect()

    def freeze(self, frozen: bool) -> None:
        """SIGSTOP and SIGCONT."""
        self.frozen = frozen
        backlog, self._backlog = self._backlog, []
        for data in backlog if not frozen else ():
            if self.wire is not None:
                self._data(data)
        if frozen:
            return
        unread, self._unread = self._unread, []
        for exchange in unread:
            self._arrive(exchange)
        self.poke()

    def obey(self, effects: Effects) -> None:
        for name, after_s in effects.aborts:
            self.world.loop.later(after_s, self._cut, name, life=self.life)
        self.dispatch(effects.moves)

    def _cut(self, name: str) -> None:
        line = self.holding.lines.get(name)
        if line is not None and not line.open:
            for ticket in sorted(line.forwarded, key=lambda one: one.id):
                ticket.owner.cut()

    def dispatch(self, moves: Moves) -> None:
        for ticket in moves.forward:
            ticket.owner.granted()
        for ticket, refused in moves.refuse:
            ticket.owner.refused(refused)
        self.poke()

    def poke(self) -> None:
        """Say what changed when it is due, and watch the next bound."""
        if self.frozen:
            return
        now_s = self.world.loop.now_s
        due_s = self.link.next_flush_s()
        if due_s is not None and due_s <= now_s:
            self.link.flush(now_s)
            self.out()
            due_s = self.link.next_flush_s()
        if due_s is not None and self._flush is None:
            self._flush = self._at(max(due_s, now_s), self._flush_due)
        if self._bound is not None:
            self._bound.cancel()
            self._bound = None
        if (bound_s := self.holding.next_deadline_s(now_s)) is not None:
            self._bound = self._at(max(bound_s, now_s), self._bound_due)

    def _at(self, at_s: float, call: object) -> TimerHandle:
        return self.world.loop.call_at(at_s, call, context=self.life.context)  # type: ignore[arg-type]

    def _flush_due(self) -> None:
        self._flush = None
        self.poke()

    def _bound_due(self) -> None:
        self._bound = None
        if self.frozen:
            return
        self.dispatch(self.holding.tick(self.world.loop.now_s))

    def out(self) -> None:
        data = self.link.take_out()
        if self.wire is not None:
            self.wire.send(data, 1)
