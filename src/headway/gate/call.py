"""The call to the server: dial or take an idle connection, send, pass the answer on, once more where that is safe."""

from typing import Final

from headway.gate.heads import BadResponse, ResponseHead, write_response
from headway.gate.lines import Held, Refused, refusal
from headway.gate.request import Request, Step
from headway.gate.tunnel import Tunnel
from headway.gate.upstream import Upstream, read_address
from headway.gate.waiting import Phase

UPLOAD_HIGH_BYTES = 256 * 1024
PACKED: Final = frozenset(
    (b"accept-encoding",)
)  # the head was sent: it can't say any more how the body is packed


class Call(Request):
    """A request and its call."""

    __slots__ = ()

    # To the server

    def send(self) -> None:
        """Write the request to an idle connection, else dial. Only what is kept whole may use an idle one."""
        row = self.line.row if self.line is not None else None
        address = read_address(row.upstream or "") if row is not None else None
        if row is None or address is None or self.to is None:
            self._unreachable()
            return
        hub, to, look = self.hub, self.to, self.look
        framing, data, without = self.intake.outgoing(row.model, ollama=to.path.startswith("/api/"))
        if self.answer.beating:
            without |= PACKED
        begun = look.begin(row.upstream or "", to, row.model, hub.keys.get(row.name), without)
        self._data = b"%b%bX-Request-Id: %b\r\n\r\n%b" % (
            begun,
            framing,
            self.record.id.encode("latin-1"),
            data,
        )
        again = not self.intake.streams and not self._retried
        idle = hub.pool.take(address, hub.now()) if again else None
        if idle is not None:
            self._attach(idle)
        else:
            self.step = Step.CONNECTING
            self.connect = hub.dial(address, self)

    def reached(self, upstream: Upstream) -> None:
        """The server took the connection."""
        self.connect = None
        if self.ticket is None or self.step is not Step.CONNECTING:
            upstream.drop()
            return
        moves = self.hub.holding.reached(self.ticket, self.hub.now())
        self._attach(upstream)
        self.hub.dispatch(moves)

    def unreachable(self, what: str) -> None:
        """Nobody took the connection: `refused` or `timeout`. Nothing was sent: it waits again, at the head."""
        self.connect = None
        if self.ticket is not None:
            self.hub.trouble(self.ticket.service, what)
            self._unreachable()

    def _unreachable(self) -> None:
        ticket, now_s = self.ticket, self.hub.now()
        if ticket is None:
            return
        if self._retried:  # the first try went to a connection that then broke: not unsent any more
            self.give_back()
            self.say_refused(refusal("upstream_unreachable", self.line))
            return
        match self.hub.holding.came_back(ticket, now_s):
            case Held():
                self.hold()
                self.record.sent_s = None
            case Refused() as refused:
                self.ticket = None
                self.say_refused(refused)
        self.hub.poke()

    def _attach(self, upstream: Upstream) -> None:
        self.step, self.upstream = Step.SENT, upstream
        data, client = self._data, self.answer.client
        if self.intake.expects:
            self.say_continue()
        if self._upload:
            data, self._upload = b"".join((data, *self._upload)), []
        upstream.start(self, data, head_only=self.head.method == "HEAD")
        if self.intake.streams:
            self._data = b""
        if client is not None:
            if client.paused:
                client.unpause("upload")
            if client.full or upstream.paused:
                upstream.flow(paused=client.full)

    def send_upload(self, data: bytes) -> None:
        """A piece of a body that is passed on as it comes."""
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
        if (
            read.status != 100
            and self.client is not None
            and self.head.minor == 1
            and not self.answer.started
        ):
            self.client.write(head)

    def response_head(self, read: ResponseHead, length: int | None, framing: bytes, *, alone: bool) -> None:
        """The final head, and what frames its body; `alone`: nothing of the body came with it."""
        self.record.answered(read.status, self.hub.now())
        self._data = b""
        self.digest()
        self.settle_close()
        self.answer.begin(read, framing, to_end=length is None and not read.chunked)
        if alone:
            self.answer.flush()

    def response_data(self, data: bytes, parts: list[bytes]) -> None:
        """A piece of the body."""
        self.answer.data(data, parts)

    def response_over(self, upstream: Upstream | None) -> None:
        """The last byte came; `upstream` may be used again."""
        self.upstream = None
        sleeps = self.ticket is not None and self.ticket.phase is Phase.PROBING
        if upstream is not None and self.intake.done and not sleeps:
            self.hub.pool.put(upstream, self.hub.now())
        elif upstream is not None:
            upstream.close()
        self.answer.end()
        self.over("done")

    def upstream_lost(self, upstream: Upstream) -> None:
        """The connection ended before the answer did."""
        self.upstream = None
        if self.tunnel is not None:
            self.tunnel.close()
        elif self.client is not None and upstream.reused and not upstream.responded and not self._retried:
            self._retried = True  # a kept connection that had timed out there: once more on a fresh one
            self.send()
        else:
            self.fail("upstream_closed", 502)

    def upstream_broken(self) -> None:
        """The answer is not HTTP/1."""
        self.upstream = None
        self.fail("upstream_bad", 502)

    def tunnel_open(self, read: ResponseHead, rest: bytes) -> None:
        """The server switched protocols: from here bytes pass both ways. An idle tunnel does not pin.

        Raises BadResponse when nobody asked for it.
        """
        upstream = self.upstream
        if upstream is None:
            return
        if not self.head.upgrade:
            raise BadResponse("it switched protocols unasked")
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
        self.over("done")
