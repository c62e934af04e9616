"""One request from its head to its last byte: read, routed, held or sent, answered, counted out.

Whatever way it ends, `_over` runs once, and a ticket that was forwarded is given back to the holding exactly once.
"""

from enum import Enum
from typing import TYPE_CHECKING, Any

from headway.core.route import Local, Refuse, To, locate, route
from headway.gate import bodies, refusals
from headway.gate.answer import Answer
from headway.gate.callers import Caller
from headway.gate.heads import BadRequest, RequestHead, ResponseHead, write_request, write_response
from headway.gate.intake import Intake
from headway.gate.lines import Forward, Held, Line, Refused, refusal
from headway.gate.record import Record
from headway.gate.tunnel import Tunnel
from headway.gate.upstream import Upstream, read_address
from headway.gate.waiting import Ticket

if TYPE_CHECKING:
    from headway.gate.hub import Hub
    from headway.gate.protocol import Client

UPLOAD_HIGH_BYTES = 256 * 1024
HEARTBEAT_EVERY_S = 15.0


class Step(Enum):
    """Where a request is."""

    READING = "reading"
    WAITING = "waiting"
    CONNECTING = "connecting"
    SENT = "sent"
    TUNNEL = "tunnel"
    OVER = "over"


class Request:
    """What a request is, and how it's answered; `Exchange` adds what happens with the server."""

    __slots__ = ("answer", "beat_at_s", "caller", "fixed", "head", "hub", "intake", "line", "record", "step", "ticket",
                 "to", "tunnel", "upstream")  # fmt: skip

    def __init__(self, client: "Client", hub: "Hub", head: RequestHead, caller: Caller, request_id: str) -> None:
        """Raises BadRequest when its body is too large to be read."""
        self.hub, self.head, self.caller, self.fixed = hub, head, caller, client.fixed
        place = locate(hub.routes, head.path, client.fixed)
        row = hub.routes.services.get(place.service) if place.service is not None else None
        self.intake = Intake(head, place.service is not None, row)
        self.record = Record(request_id, hub.now(), head.method)
        self.answer = Answer(client, head, self.record)
        self.step = Step.READING
        self.line: Line | None = None
        self.to: To | None = None
        self.ticket: Ticket | None = None
        self.upstream: Upstream | None = None
        self.tunnel: Tunnel | None = None
        self.beat_at_s: float | None = None

    @property
    def client(self) -> "Client | None":
        """The client's connection, None once it's gone."""
        return self.answer.client

    @property
    def body_done(self) -> bool:
        """Whether the client's request is here to its end."""
        return self.intake.done

    def beat(self, now_s: float) -> None:
        """Called about every half second while it waits: a held, admitted stream says that it lives."""
        if not self.intake.what.stream or refusals.shape_of(self.head.path) != "openai" or self.ticket is None:
            return
        if not self.hub.holding.admitted(self.ticket):
            self.beat_at_s = None
        elif self.beat_at_s is None:
            self.beat_at_s = now_s + HEARTBEAT_EVERY_S
        elif now_s >= self.beat_at_s:
            self.beat_at_s = now_s + HEARTBEAT_EVERY_S
            self.answer.heartbeat()

    def say_continue(self) -> None:
        """Let a client that waits for it send its body."""
        if self.client is not None:
            self.client.write(self.intake.take_continue())

    def hold(self) -> None:
        """It waits."""
        self.step = Step.WAITING
        self.hub.waiting.add(self)
        if self.line is not None:
            self.record.held(self.line)

    def give_back(self) -> None:
        """A forwarded ticket is over: its place goes on to who is next."""
        ticket, self.ticket = self.ticket, None
        if ticket is not None:
            self.hub.dispatch(self.hub.holding.ended(ticket, self.hub.now()))

    def settle_close(self) -> None:
        """Note whether the connection can be used again after this answer."""
        if not self.head.keep or not self.intake.done or self.hub.draining:
            self.answer.close_after()


class Exchange(Request):
    """One request of one client connection, and the call it makes."""

    __slots__ = ("_connect", "_data", "_retried", "_upload", "_upload_bytes")

    def __init__(self, client: "Client", hub: "Hub", head: RequestHead, caller: Caller, request_id: str) -> None:
        super().__init__(client, hub, head, caller, request_id)
        self._connect: Any = None
        self._data = b""
        self._retried = False
        self._upload: list[bytes] = []
        self._upload_bytes = 0

    # The request

    def begin(self) -> None:
        """The head is here."""
        if self.intake.reads_first:
            self.say_continue()
        else:
            self._admit()

    def feed(self, data: bytes) -> bytes:
        """Bytes from the client; returns those after this request's end."""
        if self.tunnel is not None:
            self.tunnel.from_client(data)
            return b""
        if self.intake.done or self.step is Step.OVER:
            return data
        try:
            used = self.intake.feed(data)
        except BadRequest as error:
            self.refuse(error.code, error.status)
            return b""
        self.record.in_bytes = self.intake.in_bytes
        if self.intake.streams:
            self._send_upload(data if used == len(data) else data[:used])
        elif self.body_done and self.ticket is None:
            self._admit()
        elif self.body_done:
            self._send()
        return data[used:]

    def _admit(self) -> None:
        hub, head = self.hub, self.head
        model = self.intake.what.model or hub.query_model(head)
        self.record.model = model
        match route(hub.routes, head.method, head.path, model, self.fixed):
            case Local(kind, service, name):
                self._local(*hub.answer(kind, service, name))
            case Refuse(code, status, facts):
                self._refused(hub.unknown(code, status, facts))
            case To() as to:
                self._arrive(to)

    def _arrive(self, to: To) -> None:
        hub, caller = self.hub, self.caller
        line = hub.holding.lines.get(to.service)
        self.to, self.line = to, line
        self.record.admitted(to, line, caller)
        if to.local is not None and line is not None and not (line.open or hub.holding.shadow):
            self._local(*hub.answer(to.local, to.service, None))
            return
        ticket = Ticket(
            to.service, caller.class_, caller.client, id=self.record.id, priority=caller.priority,
            wait_s=caller.wait_s, demand=to.demand, owner=self,
        )  # fmt: skip
        match hub.holding.arrive(ticket, hub.now()):
            case Forward():
                self.ticket = ticket
                self.granted()
            case Held():
                self.ticket = ticket
                self.hold()
            case Refused() as refused:
                self._refused(refused)
        hub.poke()

    # The holding's word

    def granted(self) -> None:
        """It's counted as forwarded: send it, or let its body come."""
        self.hub.waiting.discard(self)
        self.record.granted(self.hub.now())
        if self.intake.buffered and not self.body_done:
            self.step = Step.READING
            self.say_continue()
        else:
            self._send()

    def refused(self, refused: Refused) -> None:
        """The holding gave up on it: its bound ended, or its service failed or is gone."""
        self.hub.waiting.discard(self)
        self.ticket = None
        self._refused(refused)

    # To the server

    def _send(self) -> None:
        """Write the request to an idle connection, else dial. Only what is kept whole may use an idle one."""
        row = self.line.row if self.line is not None else None
        address = read_address(row.upstream or "") if row is not None else None
        if row is None or address is None or self.to is None:
            self._unreachable()
            return
        body, length = b"", None
        if self.intake.buffered:
            ollama = self.to.path.startswith("/api/")
            body = bodies.rewrite(self.intake.what, self.intake.media, row.model, ollama=ollama)
            length = len(body)
        path = (address.prefix + self.to.path).encode("latin-1")
        self._data = write_request(
            self.head, path, address.host_header, self.record.id, length=length,
            key=self.hub.keys.get(row.name), strip=self.caller.ours,
        ) + body  # fmt: skip
        again = not self.intake.streams and not self._retried
        idle = self.hub.pool.take(address, self.hub.now()) if again else None
        if idle is not None:
            self._attach(idle)
        else:
            self.step = Step.CONNECTING
            self._connect = self.hub.dial(address, self)

    def reached(self, upstream: Upstream) -> None:
        """The server took the connection."""
        self._connect = None
        if self.ticket is None or self.step is not Step.CONNECTING:
            upstream.drop()
            return
        moves = self.hub.holding.reached(self.ticket, self.hub.now())
        self._attach(upstream)
        self.hub.dispatch(moves)

    def unreachable(self, what: str) -> None:
        """Nobody took the connection: `refused` or `timeout`. Nothing was sent: it waits again, at the head."""
        self._connect = None
        if self.ticket is not None:
            self.hub.trouble(self.ticket.service, what)
            self._unreachable()

    def _unreachable(self) -> None:
        ticket, now_s = self.ticket, self.hub.now()
        if ticket is None:
            return
        if self._retried:  # the first try went to a connection that then broke: not unsent any more
            self.give_back()
            self._refused(refusal("upstream_unreachable", self.line))
            return
        match self.hub.holding.came_back(ticket, now_s):
            case Held():
                self.hold()
                self.record.returned()
            case Refused() as refused:
                self.ticket = None
                self._refused(refused)
        self.hub.poke()

    def _attach(self, upstream: Upstream) -> None:
        self.step, self.upstream = Step.SENT, upstream
        self.say_continue()
        upload, self._upload = self._upload, []
        upstream.start(self, b"".join((self._data, *upload)), head_only=self.head.method == "HEAD")
        if self.intake.streams:
            self._data = b""
        if self.client is not None:
            self.client.unpause("upload")

    def _send_upload(self, data: bytes) -> None:
        if self.step is Step.SENT and self.upstream is not None:
            self.upstream.write(data)
        elif self.step is not Step.OVER:
            self._upload.append(data)
            self._upload_bytes += len(data)
            if self._upload_bytes > UPLOAD_HIGH_BYTES and self.client is not None:
                self.client.pause("upload")

    def upload_full(self) -> None:
        """The server reads slower than the client writes."""
        if self.client is not None:
            self.client.pause("upstream")

    def upload_free(self) -> None:
        """The server reads again."""
        if self.client is not None:
            self.client.unpause("upstream")

    # From the server

    def interim(self, head: bytes, read: ResponseHead) -> None:
        """An interim answer (103 and the like); 100 is ours to say."""
        if read.status != 100 and self.client is not None and self.head.minor == 1 and not self.answer.started:
            self.client.write(head)

    def response_head(self, read: ResponseHead, length: int | None) -> None:
        """The final head."""
        self.record.answered(read.status, self.hub.now())
        self._data = b""
        self.settle_close()
        self.answer.begin(read, to_end=length is None and not read.chunked)

    def response_data(self, data: bytes, parts: list[bytes]) -> None:
        """A piece of the body."""
        self.answer.data(data, parts)

    def response_over(self, upstream: Upstream | None) -> None:
        """The last byte came; `upstream` may be used again."""
        self.upstream = None
        if upstream is not None and self.body_done:
            self.hub.pool.put(upstream, self.hub.now())
        elif upstream is not None:
            upstream.close()
        self.answer.end()
        self._over("done")

    def upstream_lost(self, upstream: Upstream) -> None:
        """The connection ended before the answer did."""
        self.upstream = None
        if self.tunnel is not None:
            self.tunnel.close()
        elif self.client is not None and upstream.reused and not upstream.responded and not self._retried:
            self._retried = True  # a kept connection that had timed out there: once more on a fresh one
            self._send()
        else:
            self._fail("upstream_closed", 502)

    def upstream_broken(self) -> None:
        """The answer is not HTTP/1."""
        self.upstream = None
        self._fail("upstream_bad", 502)

    def tunnel_open(self, read: ResponseHead, rest: bytes) -> None:
        """The server switched protocols: from here bytes pass both ways. An idle tunnel does not pin."""
        upstream = self.upstream
        if upstream is None:
            return
        self.record.answered(101, self.hub.now())
        self.answer.write(write_response(read, self.record.id, framing=b"", close=False))
        self.answer.close_after()
        self.step = Step.TUNNEL
        self.tunnel = Tunnel(self, upstream)
        self.give_back()
        if rest:
            self.tunnel.from_upstream(rest)
        if self.client is not None:
            self.client.take_pending()

    def tunnel_data(self, data: bytes) -> None:
        """Bytes of a tunnel from the server."""
        if self.tunnel is not None:
            self.tunnel.from_upstream(data)

    def tunnel_over(self) -> None:
        """The tunnel closed itself."""
        if self.upstream is not None:
            self.upstream.close()
            self.upstream = None
        self._over("done")

    # Ends

    def client_gone(self) -> None:
        """The client's connection is gone, whatever the phase: give up the place, cancel or drain the call."""
        self.answer.client = None
        drains = self.line is not None and self.line.row.on_cancel == "drain" and self.body_done
        if self.tunnel is not None:
            self.tunnel.close()
        elif self.step is Step.SENT and drains and self.upstream is not None:
            self.record.note = "client_gone"
            self.upstream.resume()
        else:
            self._over("client_gone")
            self.hub.poke()

    def cut(self) -> None:
        """Its service must stop now."""
        if self.tunnel is not None:
            self.tunnel.close()
        elif self.step is not Step.OVER:
            self._fail("upstream_cut", 503)

    def refuse(self, code: str, status: int) -> None:
        """Answer with an error of the gate's own."""
        self._detach()
        self.give_back()
        self._refused(Refused(code, status, 0.0, {}))

    def _fail(self, code: str, status: int) -> None:
        """An error while an answer may be under way: a broken answer is cut, never continued with another."""
        if self.answer.started and not self.answer.beating:
            self._over(code, cut=True)
        else:
            self.refuse(code, status)

    def _refused(self, refused: Refused) -> None:
        self.settle_close()
        self.answer.refuse(refused)
        self._over(refused.code)

    def _local(self, status: int, body: bytes, media: str, extra: dict[str, str]) -> None:
        self.record.answered(status, self.hub.now())
        self.settle_close()
        self.answer.reply(status, body, media, extra)
        self._over("local")

    def _detach(self) -> None:
        if self._connect is not None:
            self._connect.cancel()
            self._connect = None
        if self.upstream is not None:
            self.upstream.drop()
            self.upstream = None
        if self.step is Step.WAITING and self.ticket is not None:
            self.hub.waiting.discard(self)
            self.hub.holding.left(self.ticket)
            self.ticket = None

    def _over(self, how: str, *, cut: bool = False) -> None:
        if self.step is Step.OVER:
            return
        self._detach()
        self.step = Step.OVER
        self.give_back()
        self.hub.ended(self, how)
        client, self.answer.client = self.answer.client, None
        if client is not None:
            client.exchange_over(self, cut=cut)
