"""One request from its head to its last byte: read, routed, held or sent, answered, counted out.

Whatever way it ends, `_over` runs once, and a ticket that was forwarded is given back to the holding exactly once.
"""

from enum import Enum
from typing import TYPE_CHECKING, Any

from headway.core.route import Local, Refuse, To, locate, route
from headway.gate import bodies, refusals
from headway.gate.callers import Caller
from headway.gate.heads import BadRequest, RequestHead, ResponseHead, write_request, write_response
from headway.gate.lines import Forward, Held, Line, Refused, refusal
from headway.gate.record import Record
from headway.gate.tunnel import Tunnel
from headway.gate.upstream import Address, Upstream, read_address
from headway.gate.waiting import Ticket

if TYPE_CHECKING:
    from headway.gate.hub import Hub
    from headway.gate.protocol import Client

UPLOAD_HIGH_BYTES = 256 * 1024
HEARTBEAT_EVERY_S = 15.0
SMALL_JSON_BYTES = 1024 * 1024  # a JSON body up to this is kept whole so that it can be sent once more
ERROR_TEXT_MAX_BYTES = 64 * 1024


class Step(Enum):
    """Where a request is."""

    READING = "reading"
    WAITING = "waiting"
    CONNECTING = "connecting"
    SENT = "sent"
    TUNNEL = "tunnel"
    OVER = "over"


class Exchange:
    """One request of one client connection."""

    __slots__ = (
        "_body", "_buffered", "_clipped", "_connect", "_continue", "_data", "_error", "_media", "_parts", "_recode",
        "_retried", "_upload", "beat_at_s", "beating", "caller", "client", "head", "hub", "line", "record", "started",
        "step", "ticket", "to", "tunnel", "upstream", "what",
    )  # fmt: skip

    def __init__(self, client: "Client", hub: "Hub", head: RequestHead, caller: Caller, request_id: str) -> None:
        self.client: Client | None = client
        self.hub, self.head, self.caller = hub, head, caller
        self.step = Step.READING
        self.record = Record(request_id, hub.now(), head.method)
        self.line: Line | None = None
        self.to: To | None = None
        self.ticket: Ticket | None = None
        self.upstream: Upstream | None = None
        self.tunnel: Tunnel | None = None
        self.what = bodies.Read(b"")  # what the body says, when it was read whole
        self.started = self.beating = False  # bytes of an answer went out; its head was ours (heartbeats)
        self.beat_at_s: float | None = None
        self._body: bodies.Length | bodies.Chunked | None = None
        self._parts: list[bytes] = []
        self._buffered = self._retried = self._recode = self._clipped = False
        self._continue = b"expect" in head.fields and head.minor == 1
        self._upload: list[bytes] = []
        self._media = head.text(b"content-type")
        self._data = b""  # what was sent, while it could be sent again
        self._connect: Any = None
        self._error = b""

    # The request

    def begin(self) -> None:
        """The head is here: decide whether the body must be read before it's known where it goes."""
        head, place = self.head, locate(self.hub.routes, self.head.path, self._fixed())
        has_body = head.chunked or bool(head.length)
        media = self._media.lower()
        row = self.hub.routes.services.get(place.service) if place.service is not None else None
        form = media.startswith("multipart/form-data")
        must_read = place.service is None or (row is not None and row.model is not None and (form or "json" in media))
        fits = head.length is None or head.length <= (bodies.BUFFER_MAX_BYTES if must_read else SMALL_JSON_BYTES)
        self._buffered = has_body and (must_read or ("json" in media and fits))
        if self._buffered and not fits:
            self.refuse("body_too_large", 413)
            return
        if has_body:
            parts = self._parts if self._buffered else None
            self._body = bodies.Chunked(parts) if head.chunked else bodies.Length(head.length or 0, parts)
        if self._buffered and not (self._continue and place.service is not None):
            self._say_continue()  # the body says where it goes; bound to a service, admission comes first
        else:
            self._admit()

    def feed(self, data: bytes) -> bytes:
        """Bytes from the client; returns those after this request's end."""
        if self.tunnel is not None:
            self.tunnel.from_client(data)
            return b""
        body = self._body
        if body is None or body.done or self.step is Step.OVER:
            return data
        try:
            used = body.feed(data)
        except BadRequest as error:
            self.refuse(error.code, error.status)
            return b""
        self.record.in_bytes += used
        if not self._buffered:
            self._send_upload(data if used == len(data) else data[:used])
        elif self.record.in_bytes > bodies.BUFFER_MAX_BYTES:
            self.refuse("body_too_large", 413)
            return b""
        elif body.done:
            self._body_read()
        return data[used:]

    @property
    def body_done(self) -> bool:
        """Whether the client's request is here to its end."""
        return self._body is None or self._body.done

    def _body_read(self) -> None:
        self.what = bodies.read_body(b"".join(self._parts), self._media)
        self._parts.clear()
        if self.ticket is None:
            self._admit()
        else:
            self._send()

    def _fixed(self) -> str | None:
        return self.client.fixed if self.client is not None else None

    def _say_continue(self) -> None:
        if self._continue and self.client is not None and not self.body_done:
            self.client.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._continue = False

    # Where to

    def _admit(self) -> None:
        hub, head = self.hub, self.head
        model = self.what.model or hub.query_model(head)
        answer = route(hub.routes, head.method, head.path, model, self._fixed())
        self.record.model = model
        match answer:
            case Local(kind, service, name):
                self._answer(*hub.answer(kind, service, name))
            case Refuse(code, status, facts):
                self._refused(Refused(code if hub.table is not None else "no_table", status, 0.0, facts))
            case To():
                self._arrive(answer)

    def _arrive(self, to: To) -> None:
        hub, caller, now_s = self.hub, self.caller, self.hub.now()
        line = hub.holding.lines.get(to.service)
        self.to, self.line = to, line
        self.record.admitted(to, line, caller)
        if to.local is not None and line is not None and not (line.open or hub.holding.shadow):
            self._answer(*hub.answer(to.local, to.service, None))
            return
        ticket = Ticket(
            to.service, caller.class_, caller.client, id=self.record.id, priority=caller.priority,
            wait_s=caller.wait_s, demand=to.demand, owner=self,
        )  # fmt: skip
        match hub.holding.arrive(ticket, now_s):
            case Forward():
                self.ticket = ticket
                self.granted()
            case Held():
                self.ticket = ticket
                self._hold()
            case Refused() as refused:
                self._refused(refused)
        hub.poke()

    def _hold(self) -> None:
        self.step = Step.WAITING
        self.hub.waiting.add(self)
        if self.line is not None:
            self.record.held(self.line)

    # The holding's word

    def granted(self) -> None:
        """It's counted as forwarded: send it."""
        self.hub.waiting.discard(self)
        self.record.granted(self.hub.now())
        self.step = Step.CONNECTING
        if self._buffered and not self.body_done:
            self.step = Step.READING
            self._say_continue()
            return
        self._send()

    def refused(self, refused: Refused) -> None:
        """The holding gave up on it: its bound ended, or its service failed or is gone."""
        self.hub.waiting.discard(self)
        self.ticket = None
        self._refused(refused)

    # To the upstream

    def _send(self) -> None:
        """Write the request to an idle connection, else dial. Only what is kept whole may use an idle one."""
        row = self.line.row if self.line is not None else None
        address = read_address(row.upstream or "") if row is not None else None
        if row is None or address is None or self.to is None:
            self._unreachable()
            return
        whole = self._buffered or self._body is None
        body, length = b"", None
        if self._buffered:
            ollama = self.to.path.startswith("/api/")
            body = bodies.rewrite(self.what, self._media, row.model, ollama=ollama)
            length = len(body)
        path = (address.prefix + self.to.path).encode("latin-1")
        data = write_request(
            self.head, path, address.host_header, self.record.id, length=length,
            key=self.hub.keys.get(row.name), strip=self.caller.ours,
        ) + body  # fmt: skip
        self._data = data
        idle = self.hub.pool.take(address, self.hub.now()) if whole and not self._retried else None
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
        if self.ticket is None:
            return
        self.hub.trouble(self.ticket.service, what)
        self._unreachable()

    def _unreachable(self) -> None:
        ticket, now_s = self.ticket, self.hub.now()
        if ticket is None:
            return
        if self._retried:  # the first try was sent to a connection that then broke: not unsent any more
            self._give_back()
            self._refused(refusal("upstream_unreachable", self.line))
            return
        match self.hub.holding.came_back(ticket, now_s):
            case Held():
                self._hold()
                self.record.returned(now_s)
            case Refused() as refused:
                self.ticket = None
                self._refused(refused)
        self.hub.poke()

    def _attach(self, upstream: Upstream) -> None:
        self.step, self.upstream = Step.SENT, upstream
        self._say_continue()
        upload, self._upload = self._upload, []
        upstream.start(self, b"".join((self._data, *upload)), head_only=self.head.method == "HEAD")
        if self._body is not None and not self._buffered:
            self._data = b""
        if self.client is not None:
            self.client.unpause("upload")

    def _send_upload(self, data: bytes) -> None:
        if self.step is Step.SENT and self.upstream is not None:
            self.upstream.write(data)
        elif self.step is not Step.OVER:
            self._upload.append(data)
            if self.record.in_bytes > UPLOAD_HIGH_BYTES and self.client is not None:
                self.client.pause("upload")

    def upload_full(self) -> None:
        """The server reads slower than the client writes."""
        if self.client is not None:
            self.client.pause("upstream")

    def upload_free(self) -> None:
        """The server reads again."""
        if self.client is not None:
            self.client.unpause("upstream")

    # From the upstream

    def interim(self, head: bytes, read: ResponseHead) -> None:
        """An interim answer (103 and the like); 100 is ours to say."""
        if read.status != 100 and self.client is not None and self.head.minor == 1 and not self.started:
            self.client.write(head)

    def response_head(self, read: ResponseHead, length: int | None) -> None:
        """The final head: pass it, or, after heartbeats, only its body."""
        self.record.answered(read.status, self.hub.now())
        self._data = b""
        if self.beating:
            self._clipped = read.status != 200 or not read.stream
            self._recode = True
            return
        to_end = length is None and not read.chunked
        self._recode = read.chunked and self.head.minor == 0
        close = to_end or self._recode or not self.head.keep or not self.body_done or self.hub.draining
        if close and self.client is not None:
            self.client.must_close = True
        framing = b"" if self._recode else read.framing
        self._to_client(write_response(read, self.record.id, framing=framing, close=close))

    def response_data(self, data: bytes, parts: list[bytes]) -> None:
        """A piece of the body: `data` as it came, `parts` without the chunk framing."""
        self.record.out_bytes += len(data)
        self.record.tail(data)
        if not self._recode:
            self._to_client(data)
        elif self._clipped:
            self._error = (self._error + b"".join(parts))[:ERROR_TEXT_MAX_BYTES]
        elif self.beating and self.head.minor == 1:
            self._to_client(b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part))
        else:
            self._to_client(b"".join(parts))

    def response_over(self, upstream: Upstream | None) -> None:
        """The last byte came; `upstream` may be used again."""
        self.upstream = None
        if upstream is not None:
            if self.body_done:
                self.hub.pool.put(upstream, self.hub.now())
            else:
                upstream.close()
        if self._clipped:
            self._say_error(self._error)
        elif self.beating and self.head.minor == 1:
            self._to_client(b"0\r\n\r\n")
        self._over("done")

    def upstream_lost(self, upstream: Upstream) -> None:
        """The connection ended before the answer did."""
        self.upstream = None
        if self.tunnel is not None:
            self.tunnel.close()
        elif self.client is not None and upstream.reused and not upstream.responded and not self._retried:
            self._retried = True  # a kept connection that had timed out there: once more on a fresh one
            self._send()
        elif self.started and not self.beating:
            self._over("upstream_lost", cut=True)
        else:
            self._give_back()
            self._refused(Refused("upstream_closed", 502, 0.0, {}))

    def upstream_broken(self) -> None:
        """The answer is not HTTP/1."""
        self.upstream = None
        if self.started and not self.beating:
            self._over("upstream_bad", cut=True)
        else:
            self._give_back()
            self._refused(Refused("upstream_bad", 502, 0.0, {}))

    def tunnel_open(self, read: ResponseHead, rest: bytes) -> None:
        """The server switched protocols: from here bytes pass both ways. An idle tunnel does not pin."""
        assert self.upstream is not None
        self.record.answered(101, self.hub.now())
        self._to_client(write_response(read, self.record.id, framing=b"", close=False))
        self.step = Step.TUNNEL
        self._give_back()
        self.tunnel = Tunnel(self, self.upstream)
        if rest:
            self.tunnel.from_upstream(rest)
        if self.client is not None:
            self.client.take_pending()

    def tunnel_data(self, data: bytes) -> None:
        """Bytes of a tunnel from the server."""
        if self.tunnel is not None:
            self.tunnel.from_upstream(data)

    # Ends

    def client_gone(self) -> None:
        """The client's connection is gone, whatever the phase: give up the place, cancel or drain the call."""
        self.client = None
        if self.step is Step.WAITING and self.ticket is not None:
            self.hub.waiting.discard(self)
            self.hub.holding.left(self.ticket)
            self.ticket = None
            self.hub.poke()
        elif self.step is Step.SENT and self.line is not None and self.line.row.on_cancel == "drain" and self.body_done:
            self.record.note = "client_gone"
            if self.upstream is not None:
                self.upstream.resume()
            return
        if self.tunnel is not None:
            self.tunnel.close()
            return
        self._over("client_gone")

    def cut(self) -> None:
        """Its service must stop now."""
        if self.tunnel is not None:
            self.tunnel.close()
        elif self.started and not self.beating:
            self._over("upstream_cut", cut=True)
        elif self.step is not Step.OVER:
            self._detach()
            self._give_back()
            self._refused(refusal("upstream_cut", self.line))

    def beat(self, now_s: float) -> None:
        """Called about every half second while it waits: a held, admitted stream says that it lives."""
        if not self.what.stream or refusals.shape_of(self.head.path) != "openai" or self.ticket is None:
            return
        if not self.hub.holding.admitted(self.ticket):
            self.beat_at_s = None
        elif self.beat_at_s is None:
            self.beat_at_s = now_s + HEARTBEAT_EVERY_S
        elif now_s >= self.beat_at_s and self.client is not None:
            self.beat_at_s = now_s + HEARTBEAT_EVERY_S
            if not self.beating:
                self.beating = True
                self.client.must_close = self.client.must_close or self.head.minor == 0 or not self.head.keep
                self._to_client(refusals.stream_head(self.record.id, chunked=self.head.minor == 1))
            self._chunk(b": headway\n\n")

    def refuse(self, code: str, status: int) -> None:
        """Answer with an error of the gate's own."""
        self._detach()
        self._give_back()
        self._refused(Refused(code, status, 0.0, {}))

    def _refused(self, refused: Refused) -> None:
        shape = refusals.shape_of(self.head.path)
        self.record.refused(refused.code, refused.status)
        document = refusals.document(shape, refused.code, refused.status, refused.facts)
        if self.beating:
            self._say_error(refusals.encode(document))
            self._over(refused.code)
            return
        self._reply(refused.status, refusals.encode(document), refusals.retry_headers(refused))
        self._over(refused.code)

    def _answer(self, status: int, body: bytes, media: str, extra: dict[str, str]) -> None:
        self.record.answered(status, self.hub.now())
        self._reply(status, body, extra, media)
        self._over("local")

    def _reply(self, status: int, body: bytes, extra: dict[str, str], media: str = "application/json") -> None:
        if self.client is None:
            return
        close = self.client.must_close or not self.head.keep or not self.body_done or self.hub.draining
        self.client.must_close = close
        self._to_client(
            refusals.reply(status, body, media=media, request_id=self.record.id, close=close,
                           head_only=self.head.method == "HEAD", extra=extra)
        )  # fmt: skip

    def _say_error(self, document: bytes) -> None:
        self._chunk(b"data: " + document.replace(b"\n", b" ") + b"\n\n")
        if self.head.minor == 1:
            self._to_client(b"0\r\n\r\n")
        if self.client is not None:
            self.client.must_close = True

    def _chunk(self, data: bytes) -> None:
        self._to_client(b"%x\r\n%b\r\n" % (len(data), data) if self.head.minor == 1 else data)

    def _to_client(self, data: bytes) -> None:
        self.started = True
        if self.client is not None:
            self.client.write(data)

    def _give_back(self) -> None:
        """The forwarded ticket is over: its place goes on to who is next."""
        ticket, self.ticket = self.ticket, None
        if ticket is not None:
            self.hub.dispatch(self.hub.holding.ended(ticket, self.hub.now()))

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
        self._give_back()
        self.hub.ended(self, how)
        client, self.client = self.client, None
        if client is not None:
            client.exchange_over(self, cut=cut)
