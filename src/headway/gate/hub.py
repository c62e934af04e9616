"""What all connections of one gate share: the table, the holding, the link, the pool, the log, and the only timers.

Timers: the link's throttle, the holding's bounds, and one beat (heartbeats, quiet tunnels, slow clients, clients that
left while their reading was paused).
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.core import wire
from headway.core.route import Routes, prepare
from headway.gate import local, metrics
from headway.gate.beat import Beat
from headway.gate.heads import RequestHead
from headway.gate.holding import Holding
from headway.gate.lines import NO_MOVES, Moves
from headway.gate.link import Effects, Identity, Link
from headway.gate.record import unread
from headway.gate.tunnel import Tunnel
from headway.gate.upstream import Dial, Pool, Upstream, dial, read_address

if TYPE_CHECKING:
    from headway.gate.call import Call
    from headway.gate.protocol import Client
    from headway.gate.request import Request

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
        self.loop, self.put, self.boot, self._connect = loop, put, boot, connect
        self.now = loop.time  # the loop's clock, in seconds
        self.holding = Holding()
        self._beat = Beat(self)
        self.link = Link(self.holding, identity, self._beat.lag_ms)
        self._name = identity.gate
        self.pool = Pool()
        self.table: wire.Table | None = None
        self.routes: Routes = EMPTY
        self.hosts: tuple[str, ...] = ()
        self.origins: tuple[str, ...] = ()
        self.tokens: tuple[wire.Token, ...] = ()
        self.salt = ""
        self.counts = metrics.Counts()
        self.dropped: Callable[[], int] = lambda: 0  # lines that the log could not take
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
        self.table, self.routes, self.salt = table, prepare(table), table.salt
        self.hosts, self.origins, self.tokens = table.hosts, table.origins, table.tokens
        self.keys = _keys(table)
        for name, line in list(self.holding.lines.items()):
            if line.probing and ((row := table.services.get(name)) is None or line.open or not row.probes):
                for ticket in list(line.probing):
                    ticket.owner.cut()  # its server does not just sleep any more

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

    def dispatch(self, moves: Moves) -> None:
        """Tell the owners of tickets what the holding decided."""
        if moves is not NO_MOVES:
            for ticket in moves.forward:
                ticket.owner.granted()
            for ticket, refused in moves.refuse:
                ticket.owner.refused(refused)
        self.poke()

    def poke(self) -> None:
        """Something changed: say it on the link when due, and watch the next bound."""
        if self._flush is None or self.holding.urgent or self.holding.drained:
            due_s = self.link.next_flush_s()
            if due_s is not None and due_s <= self.now():
                self._flush_now()
            elif due_s is not None and self._flush is None:
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
        given = local.given_id(head) if b"x-request-id" in head.fields else None
        return given or f"{self._name}-{next(self._ids):x}"

    def answer(
        self, head: RequestHead, kind: str, service: str | None, name: str | None = None
    ) -> local.Reply:
        """The gate's own answer."""
        version = self.link.identity.version
        if kind == "metrics" and service is None:
            text = metrics.render(
                self.counts, self.holding.lines, version=version, gate=self.link.identity.gate,
                linked=self.link.connected, clients=len(self.clients), dropped=self.dropped(),
            )  # fmt: skip
            return 200, text.encode(), metrics.MEDIA, {}
        anthropic = b"anthropic-version" in head.fields
        return local.answer(self.holding, version, kind, service, name, anthropic=anthropic)

    def ended(self, exchange: "Request", how: str) -> None:
        """A request is over: count it and write its row."""
        now_s = self.now()
        self.counts.ended(exchange.record, now_s)
        self.put(exchange.record.row(now_s, how, self.boot))

    def unread(self, id: str | None, code: str, status: int) -> None:
        """A request was not read further than its head."""
        self.counts.refused(status)
        self.put(unread(id, code, status))

    # Time

    def start(self) -> None:
        """Begin the beat."""
        self._beat.start()

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


def _keys(table: wire.Table) -> dict[str, bytes]:
    """The services' own keys. Without a readable one its server will answer 401, which names the problem."""
    keys = {}
    for name, row in table.services.items():
        if row.key_file:
            with contextlib.suppress(OSError):
                keys[name] = Path(row.key_file).read_bytes().strip()
    return {name: key for name, key in keys.items() if key}
