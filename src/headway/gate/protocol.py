"""The client's side of the gate: one connection, one request at a time, disconnect noticed in every phase."""

import asyncio
import math
from typing import TYPE_CHECKING

from headway.gate import local, refusals
from headway.gate.callers import check_place, needs_token
from headway.gate.connection import Connection, Takes
from headway.gate.exchange import Exchange
from headway.gate.heads import HEAD_MAX_BYTES, BadRequest, RequestHead, read_request
from headway.gate.look import Place, looked
from headway.gate.request import Request
from headway.gate.upstream import HIGH_BYTES

if TYPE_CHECKING:
    from headway.gate.hub import Hub

PENDING_HIGH_BYTES = 64 * 1024
HEAD_LIMIT_S = 30.0  # from a request's first byte to the end of its head
BODY_QUIET_S = 60.0  # a body that is read whole may pause this long
IDLE_LIMIT_S = 120.0  # between two requests
LINGER_S = 2.0  # after a refusal whose body was not read: let the client read the answer before the close


class Client(Connection):
    """One client connection. `fixed` is the service of the port it came to, None for the front door."""

    __slots__ = (
        "_pending", "_takes", "exchange", "fixed", "full", "hub", "linger_s", "must_close", "place", "read_s",
        "since_s",
    )  # fmt: skip

    def __init__(self, hub: "Hub", fixed: str | None) -> None:
        super().__init__()
        self.hub, self.fixed = hub, fixed
        self.exchange: Exchange | None = None
        self.must_close = False
        self.full = False  # it reads slower than its server writes
        self._takes = Takes()
        self.place: Place = ("", fixed, False)
        self.read_s = 0.0
        self.since_s = 0.0  # between requests: since when; in a head: when its first byte came
        self.linger_s: float | None = None
        self._pending = b""

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        transport.set_write_buffer_limits(HIGH_BYTES)  # type: ignore[attr-defined]
        peer = transport.get_extra_info("peername")
        here = transport.get_extra_info("sockname")
        asks = str(peer[0]) if isinstance(peer, tuple) else "local"
        self.place = (asks, self.fixed, isinstance(here, tuple) and needs_token(str(here[0])))
        self.read_s = self.since_s = self.hub.now()
        self.hub.clients.add(self)

    def data_received(self, data: bytes) -> None:
        self.read_s = self.hub.now()
        if self.linger_s is not None:
            return
        exchange = self.exchange
        if exchange is not None:
            data = exchange.feed(data)
            if self.exchange is not None:  # it may be over by now
                if data:
                    self._keep(data)
                return
        if not self._pending:
            self.since_s = self.read_s
        self._pending += data
        self._next()

    def eof_received(self) -> bool:
        return False  # a client that closes its side is gone: it would never see that nobody answers

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        self.hub.clients.discard(self)
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.client_gone()

    def pause_writing(self) -> None:
        self.full = True
        if self.exchange is not None and self.exchange.upstream is not None:
            self.exchange.upstream.pause()

    def resume_writing(self) -> None:
        self.full = False
        if self.exchange is not None and self.exchange.upstream is not None:
            self.exchange.upstream.resume()

    # For the exchange

    def take_pending(self) -> None:
        """Bytes that came behind an upgrade belong to the tunnel."""
        data, self._pending = self._pending, b""
        self.unpause("pipeline")
        if data and self.exchange is not None:
            self.exchange.feed(data)

    def exchange_over(self, exchange: Request, *, cut: bool) -> None:
        """The request is over; go on with the next, or close."""
        self.exchange = None
        if self.gone or self.transport is None:
            return
        if cut:
            self.transport.abort()
        elif not exchange.intake.done:
            self._linger()
        elif self.must_close:
            self.transport.close()
        else:
            self.since_s = self.hub.now()
            if self._paused:
                self.unpause_all()
            if self._pending:
                self.hub.loop.call_soon(self._next)

    def leave_if_quiet(self, quiet_s: float) -> None:
        """Close, when there has been no request on it for this long."""
        here = self.exchange is None and self.linger_s is None and self.transport is not None
        if here and not self._pending and self.hub.now() - self.since_s >= quiet_s:
            self.transport.close()  # type: ignore[union-attr]

    def check_time(self, now_s: float) -> None:
        """Called every few seconds: close what is too slow or done lingering."""
        if self.transport is None or self.gone:
            return
        quiet_s = now_s - self.read_s
        if self._takes.nothing(self.full, self.transport, now_s) or now_s >= (self.linger_s or math.inf):
            self.transport.abort()
        elif self.linger_s is not None:
            return
        elif self.exchange is None:
            if now_s - self.since_s >= (HEAD_LIMIT_S if self._pending else IDLE_LIMIT_S):
                self.transport.close()
        elif not self.exchange.intake.done and not self.paused and quiet_s >= BODY_QUIET_S:
            self.exchange.refuse("timeout", 408)

    # Inside

    def _keep(self, data: bytes) -> None:
        self._pending += data
        if len(self._pending) > PENDING_HIGH_BYTES:
            self.pause("pipeline")

    def _next(self) -> None:
        """Begin the next request, if its head is here."""
        if self.exchange is not None or self.gone or self.linger_s is not None:
            return
        while self._pending.startswith(b"\r\n"):
            self._pending = self._pending[2:]  # an empty line between requests is allowed
        end = self._pending.find(b"\r\n\r\n")
        if end < 0 or end > HEAD_MAX_BYTES:
            if len(self._pending) > HEAD_MAX_BYTES:
                self._refuse(BadRequest("head_too_large", 431))
            return
        head, self._pending = self._pending[: end + 4], self._pending[end + 4 :]
        try:
            read, length = read_request(head)
        except BadRequest as error:
            self._refuse(error)
            return
        id = self.hub.request_id(read)
        try:
            self._begin(read, length, id)
        except BadRequest as error:
            self._refuse(error, read, id)

    def _serves(self, exchange: Exchange) -> bool:
        """Whether this is the request under way. A call, since the type of an attribute that was just set would stick:
        compiled, None in its place is a TypeError."""
        return self.exchange is exchange

    def _begin(self, head: RequestHead, length: int | None, id: str) -> None:
        hub = self.hub
        if head.method == "OPTIONS" and head.keep and not (head.chunked or length) and self._preflight(head):
            return
        look = looked(hub, head, self.place)
        exchange = Exchange(self, hub, look, length, id)
        self.exchange = exchange
        exchange.begin()
        if self._pending and self._serves(exchange):
            data, self._pending = self._pending, b""
            rest = exchange.feed(data)
            self._pending = rest + self._pending
            if len(self._pending) > PENDING_HIGH_BYTES:
                self.pause("pipeline")
            if self._pending and not self._serves(exchange):  # over at once: nobody else begins the next
                hub.loop.call_soon(self._next)

    def _preflight(self, head: RequestHead) -> bool:
        """Answer a page's question whether it may ask: that needs no token. False for another request."""
        check_place(head, self.hub.hosts, self.hub.origins, self.place[0])
        said = local.preflight(head, self.hub.origins)
        if said is None:
            return False
        self.write(said)
        self.hub.loop.call_soon(self._next)
        return True

    def _refuse(self, error: BadRequest, head: RequestHead | None = None, id: str = "") -> None:
        """A request that isn't read further: answer, and let the client read it before the close."""
        self.hub.unread(id or None, error.code, error.status)
        shape = refusals.shape_of(head.path) if head is not None else "openai"
        more = local.cors(head, self.hub.origins) if head is not None else ()
        body = refusals.encode(refusals.document(shape, error.code, error.status, {}))
        self.write(refusals.reply(error.status, body, request_id=id, close=True, more=more))
        self._linger()

    def _linger(self) -> None:
        self._pending = b""
        if self.transport is None or self.gone:
            return
        self.linger_s = self.hub.now() + LINGER_S
        self.unpause_all()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()
