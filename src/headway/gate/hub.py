"""What all connections of one gate share: the table, the holding, the link, the pool, the log, and the only timers.

Timers: the link's throttle, the holding's bounds, and one beat (heartbeats, quiet tunnels, slow clients, clients that
left while their reading was paused).
"""

import asyncio
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.core import wire
from headway.core.route import Routes, prepare
from headway.gate import bodies, gone, local
from headway.gate.heads import RequestHead
from headway.gate.holding import Holding
from headway.gate.lines import Moves
from headway.gate.link import Effects, Identity, Link
from headway.gate.tunnel import Tunnel
from headway.gate.upstream import Dial, Pool, Upstream, dial, read_address

if TYPE_CHECKING:
    from headway.gate.call import Call
    from headway.gate.protocol import Client
    from headway.gate.request import Request

BEAT_S = 0.5
LIMITS_EVERY_BEATS = 4
PROBE_LEAVE_S = 5.0  # an event stream that nobody counts as use must not keep its service from closing
Put = Callable[[dict[str, Any]], None]
EMPTY = prepare(wire.Table(wire.PROTO, "", {}))


class Hub:
    """One gate."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        identity: Identity,
        put: Put,
        *,
        boot: str = "",
        connect: Dial = dial,
    ) -> None:
        self.loop, self.put, self._boot, self._connect = loop, put, boot, connect
        self.holding = Holding()
        self.link = Link(self.holding, identity, self.lag_ms)
        self.pool = Pool()
        self.table: wire.Table | None = None
        self.routes: Routes = EMPTY
        self.hosts: tuple[str, ...] = ()
        self.origins: tuple[str, ...] = ()
        self.tokens: tuple[wire.Token, ...] = ()
        self.keys: dict[str, bytes] = {}
        self.clients: set[Client] = set()
        self.waiting: set[Request] = set()
        self.tunnels: set[Tunnel] = set()
        self.draining = False
        self.on_drain: Callable[[], None] = lambda: None
        self.send: Callable[[bytes], None] = lambda data: None
        self._ids = itertools.count(1)
        self._flush: asyncio.TimerHandle | None = None
        self._bound: asyncio.TimerHandle | None = None
        self._bound_s: float | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._beats = 0
        self._worst_lag_s = 0.0

    # The table

    def obey(self, effects: Effects) -> None:
        """Carry out what the link read from the daemon."""
        if effects.table is not None:
            self._take_table(effects.table)
        for name in effects.closed:
            line = self.holding.lines.get(name)
            address = read_address(line.row.upstream or "") if line is not None else None
            if address is not None:
                self.pool.sweep(self.now(), address)
            self._cut_later(name, PROBE_LEAVE_S, probes=True)
        for name, after_s in effects.aborts:
            self._cut_later(name, after_s)
        self.dispatch(effects.moves)
        if effects.drain:
            self.on_drain()

    def _take_table(self, table: wire.Table) -> None:
        self.table, self.routes = table, prepare(table)
        self.hosts, self.origins, self.tokens = table.hosts, table.origins, table.tokens
        self.keys.clear()
        for name, row in table.services.items():
            if row.key_file:
                try:
                    self.keys[name] = Path(row.key_file).read_bytes().strip()
                except OSError:
                    continue  # the server will answer 401, which names the problem

    def _cut_later(self, name: str, after_s: float, *, probes: bool = False) -> None:
        line = self.holding.lines.get(name)
        if line is not None and not line.open and line.forwarded:
            self.loop.call_later(after_s, self._cut, name, line.row.rev, probes)

    def _cut(self, name: str, rev: int, probes: bool) -> None:
        """End what is still forwarded, unless the service was opened since."""
        line = self.holding.lines.get(name)
        if line is not None and not line.open and line.row.rev == rev:
            for ticket in list(line.forwarded):
                if not (probes and ticket.demand):
                    ticket.owner.cut()

    # For exchanges

    def now(self) -> float:
        """The loop's clock, in seconds."""
        return self.loop.time()

    def dispatch(self, moves: Moves) -> None:
        """Tell the owners of tickets what the holding decided."""
        for ticket in moves.forward:
            ticket.owner.granted()
        for ticket, refused in moves.refuse:
            ticket.owner.refused(refused)
        self.poke()

    def poke(self) -> None:
        """Something changed: say it on the link when due, and watch the next bound."""
        due_s = self.link.next_flush_s()
        if due_s is not None:
            now_s = self.now()
            if due_s <= now_s:
                self._flush_now()
            elif self._flush is None:
                self._flush = self.loop.call_at(due_s, self._flush_now)
        if self.waiting or self._bound_s is not None or self.tunnels:
            self._watch()

    def trouble(self, service: str, what: str) -> None:
        """A server did not take a connection."""
        self.link.trouble(service, "timeout" if what == "timeout" else "refused", self.now())
        self.send(self.link.take_out())

    def dial(self, address: Any, exchange: "Call") -> asyncio.Task[None]:
        """Connect for this request; it hears `reached` or `unreachable`."""
        task = self.loop.create_task(self._dial(address, exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _dial(self, address: Any, exchange: "Call") -> None:
        try:
            upstream = await self._connect(address, lambda: Upstream(self.pool, address))
        except TimeoutError:
            exchange.unreachable("timeout")
        except OSError:
            exchange.unreachable("refused")
        else:
            exchange.reached(upstream)

    def request_id(self, head: RequestHead) -> str:
        """The caller's id when it is a plain one, else a new one."""
        return local.given_id(head) or f"{self.link.identity.gate}-{next(self._ids):x}"

    def answer(self, kind: str, service: str | None, name: str | None) -> local.Reply:
        """The gate's own answer."""
        return local.answer(self.holding, self.link.identity.version, kind, service, name)

    def ended(self, exchange: "Request", how: str) -> None:
        """A request is over: write its row."""
        now_s = self.now()
        hash_ = None
        if exchange.to is not None and exchange.to.demand and self.table is not None:
            hash_ = bodies.conversation(exchange.intake.what, self.table.salt, exchange.caller.client)
        row = exchange.record.row(now_s, how, hash_)
        row["at_s"] = round(time.clock_gettime(time.CLOCK_BOOTTIME) - row["took_s"], 4)
        row["wall_s"] = round(time.time() - row["took_s"], 3)
        row["boot"] = self._boot
        self.put(row)

    # Time

    def start(self) -> None:
        """Begin the beat."""
        self._next_beat_s = self.now() + BEAT_S
        self.loop.call_at(self._next_beat_s, self._beat)

    def lag_ms(self) -> float:
        """The worst lateness of the beat since this was last asked, in milliseconds."""
        lag_s, self._worst_lag_s = self._worst_lag_s, 0.0
        return round(lag_s * 1000, 3)

    def _beat(self) -> None:
        now_s = self.now()
        self._worst_lag_s = max(self._worst_lag_s, now_s - self._next_beat_s)
        self._next_beat_s = now_s + BEAT_S
        self.loop.call_at(self._next_beat_s, self._beat)
        self._beats += 1
        for exchange in list(self.waiting):
            exchange.beat(now_s)
        for tunnel in list(self.tunnels):
            tunnel.rest(now_s)
        for transport in gone.find([client.transport for client in self.clients if client.paused]):
            transport.abort()
        if self._beats % LIMITS_EVERY_BEATS == 0:
            self.pool.sweep(now_s)
            for client in list(self.clients):
                client.check_time(now_s)

    def _flush_now(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        self.link.flush(self.now())
        self.send(self.link.take_out())
        due_s = self.link.next_flush_s()
        if due_s is not None:
            self._flush = self.loop.call_at(due_s, self._flush_now)

    def _watch(self) -> None:
        due_s = self.holding.next_deadline_s(self.now())
        if due_s == self._bound_s:
            return
        if self._bound is not None:
            self._bound.cancel()
        self._bound_s = due_s
        self._bound = self.loop.call_at(due_s, self._tick) if due_s is not None else None

    def _tick(self) -> None:
        self._bound = self._bound_s = None
        self.dispatch(self.holding.tick(self.now()))
        self._watch()
