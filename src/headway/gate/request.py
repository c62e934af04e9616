"""What every request has, from its head to its end: what it is, where it stands, how it's answered, how it ends.

Whatever way it ends, `over` runs once, and a ticket that was forwarded is given back to the holding exactly once.
"""

import asyncio
import time
from enum import Enum
from typing import TYPE_CHECKING

from headway.core.route import To
from headway.gate import bodies
from headway.gate.answer import Answer
from headway.gate.intake import Intake
from headway.gate.lines import Line, Refused, aged
from headway.gate.look import Look
from headway.gate.record import Record
from headway.gate.tunnel import Tunnel
from headway.gate.upstream import Upstream
from headway.gate.waiting import Ticket

if TYPE_CHECKING:
    from headway.gate.hub import Hub
    from headway.gate.protocol import Client

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
    """One request. `Call` adds what happens with the server, `Exchange` what the client and the holding say."""

    __slots__ = (
        "_data", "_retried", "_upload", "_upload_bytes", "answer", "beat_at_s", "caller", "connect", "head", "hub",
        "intake", "line", "look", "record", "step", "ticket", "to", "tunnel", "upstream",
    )  # fmt: skip

    def __init__(self, client: "Client", hub: "Hub", look: Look, length: int | None, request_id: str) -> None:
        """Raises BadRequest when its body is too large to be read."""
        self.hub, self.look, self.head, self.caller = hub, look, look.head, look.caller
        self.intake = Intake(look, length)
        self.record = Record(request_id, hub.now(), look.head.method)
        self.answer = Answer(client, look.head, self.record)
        self.step = Step.READING
        self.line: Line | None = None
        self.to: To | None = None
        self.ticket: Ticket | None = None
        self.upstream: Upstream | None = None
        self.tunnel: Tunnel | None = None
        self.beat_at_s: float | None = None
        self.connect: asyncio.Task[None] | None = None
        self._data = b""
        self._retried = False
        self._upload: list[bytes] = []
        self._upload_bytes = 0

    @property
    def client(self) -> "Client | None":
        """The client's connection, None once it's gone."""
        return self.answer.client

    @property
    def closed(self) -> bool:
        """Whether its service is known and may not be used now."""
        return self.line is not None and not (self.line.open or self.hub.holding.shadow)

    def beat(self, now_s: float) -> None:
        """Called about every half second while it waits: a held, admitted stream says that it lives."""
        if not self.intake.what.stream or self.line is None or self.answer.shape == "ollama":
            return  # NDJSON has nothing that a reader skips
        if not self.line.admitted():
            self.beat_at_s = None
        elif self.beat_at_s is None:
            self.beat_at_s = now_s + HEARTBEAT_EVERY_S
        elif now_s >= self.beat_at_s:
            self.beat_at_s = now_s + HEARTBEAT_EVERY_S
            self.answer.heartbeat()

    def say_continue(self) -> None:
        """Let a client that waits for it send its body."""
        if self.intake.expects and self.client is not None:
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

    def digest(self) -> None:
        """Note whose conversation it is, and let its body go: it's not needed any more."""
        intake = self.intake
        if intake.what.fields is not None and self.to is not None and self.to.demand:
            self.record.conversation = bodies.conversation(intake.what, self.hub.salt, self.caller.client)
        intake.forget()

    def settle_close(self) -> None:
        """Note whether the connection can be used again after this answer."""
        if not (self.head.keep and self.intake.done) or self.hub.draining:
            self.answer.close_after()

    # Ends

    def cut(self) -> None:
        """Its service must stop now."""
        if self.tunnel is not None:
            self.tunnel.close()
        elif self.step is not Step.OVER:
            self.fail("upstream_cut", 503)

    def refuse(self, code: str, status: int) -> None:
        """Answer with an error of the gate's own."""
        self.detach()
        self.give_back()
        self.say_refused(Refused(code, status, 0.0, {}))

    def fail(self, code: str, status: int) -> None:
        """An error while an answer may be under way: a broken answer is cut, never continued with another."""
        if self.answer.started and not self.answer.beating:
            self.over(code, cut=True)
        else:
            self.refuse(code, status)

    def say_refused(self, refused: Refused) -> None:
        """Answer with a refusal, and be over. A probe of a closed service gets the gate's own answer instead."""
        if self.to is not None and self.to.local is not None and self.closed:
            self.say_local(*self.hub.answer(self.head, self.to.local, self.to.service))
            return
        self.settle_close()
        self.answer.refuse(aged(refused, time.clock_gettime(time.CLOCK_BOOTTIME), self.hub.boot))
        self.over(refused.code)

    def say_local(self, status: int, body: bytes, media: str, extra: dict[str, str]) -> None:
        """Answer with the gate's own words, and be over."""
        self.record.answered(status, self.hub.now())
        self.settle_close()
        self.answer.reply(status, body, media, extra)
        self.over("local")

    def detach(self) -> None:
        """Take back whatever is under way: the dial, the call, the place in the line."""
        if self.connect is not None:
            self.connect.cancel()
            self.connect = None
        if self.upstream is not None:
            self.upstream.drop()
            self.upstream = None
        if self.step is Step.WAITING and self.ticket is not None:
            self.hub.waiting.discard(self)
            self.hub.holding.left(self.ticket)
            self.ticket = None

    def over(self, how: str, *, cut: bool = False) -> None:
        """The request is over; told once. `cut`: break the client's connection, its answer is not whole."""
        if self.step is Step.OVER:
            return
        if self.upstream is not None or self.connect is not None or self.step is Step.WAITING:
            self.detach()
        self.step = Step.OVER
        if self.intake.what is not bodies.NOTHING:
            self.digest()
        self.give_back()
        self.hub.ended(self, how)
        client, self.answer.client = self.answer.client, None
        if client is not None:
            client.exchange_over(self, cut=cut)
