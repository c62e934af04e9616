"""One request as its client and the holding drive it: bytes come, it's routed, held or sent, or its client leaves."""

from headway.core.route import Local, Refuse, To
from headway.gate import local
from headway.gate.call import Call
from headway.gate.heads import BadRequest
from headway.gate.lines import Forward, Held, Line, Refused
from headway.gate.request import Step
from headway.gate.waiting import Ticket

PROBE_LIMIT_S = 5.0  # for the whole answer of a server that sleeps


class Exchange(Call):
    """One request of one client connection."""

    __slots__ = ()

    # The request

    def begin(self) -> None:
        """The head is here."""
        if self.intake.reads_first:
            if self.intake.expects:
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
        intake, streams = self.intake, self.intake.streams
        try:
            used = intake.feed(data)
        except BadRequest as error:
            self.refuse(error.code, error.status)
            return b""
        self.record.in_bytes = intake.in_bytes
        if streams:
            self.send_upload(data if used == len(data) else data[:used])
        elif intake.read and self.ticket is None:
            self._admit()
        elif intake.read and self.step is Step.READING:
            self.send()  # a client that didn't wait for `100 Continue` may have sent it while it's held
        return data[used:]

    def _admit(self) -> None:
        hub, head = self.hub, self.head
        model = self.record.model = self.intake.what.model or self.look.named
        match self.look.way(model):
            case Local(kind, service, name):
                self.say_local(*hub.answer(head, kind, service, name))
            case Refuse(code, status, facts):
                self.say_refused(local.unknown(hub.table, code, status, facts))
            case To(demand=True) if self.intake.broken and not hub.holding.shadow:
                self.say_refused(Refused("body_not_json", 400, 0.0, {}))
            case To() as to:
                self._arrive(to)

    def _arrive(self, to: To) -> None:
        hub, caller = self.hub, self.caller
        line = hub.holding.lines.get(to.service)
        self.to, self.line = to, line
        self.record.admitted(to, line, caller)
        if to.local is not None and self.closed and not to.asleep:
            self.say_local(*hub.answer(self.head, to.local, to.service))
            return
        ticket = Ticket(
            to.service, caller.class_, caller.client, id=self.record.id, priority=caller.priority,
            wait_s=caller.wait_s, demand=to.demand, model=self.record.model, owner=self,
        )  # fmt: skip
        if line is not None and to.asleep and self.closed and not self.head.upgrade:
            self._probe(line, ticket)
            return
        match hub.holding.arrive(ticket, hub.now()):
            case Forward():
                self.ticket = ticket
                self.granted()
            case Held():
                self.ticket = ticket
                self.hold()
            case Refused() as refused:
                self.say_refused(refused)
        hub.poke()

    def _probe(self, line: Line, ticket: Ticket) -> None:
        """Ask a server that sleeps; counted nowhere, it pins nothing. What is not answered the gate answers itself."""
        line.probe(ticket)
        self.ticket = ticket
        self.hub.loop.call_later(PROBE_LIMIT_S, self.cut)
        self.granted()

    # The holding's word

    def granted(self) -> None:
        """It's counted as forwarded: send it, or let its body come."""
        if self.step is Step.WAITING:
            self.hub.waiting.discard(self)
        self.record.sent_s = self.hub.now()
        if not self.intake.read:
            self.step = Step.READING
            self.say_continue()
        else:
            self.send()

    def refused(self, refused: Refused) -> None:
        """The holding gave up on it: its bound ended, or its service failed or is gone."""
        self.hub.waiting.discard(self)
        self.ticket = None
        self.say_refused(refused)

    def client_gone(self) -> None:
        """The client's connection is gone, whatever the phase: give up the place, cancel or drain the call."""
        self.answer.client = None
        drains = self.line is not None and self.line.row.on_cancel == "drain" and self.intake.done
        if self.tunnel is not None:
            self.tunnel.close()
        elif self.step is Step.SENT and drains and self.upstream is not None:
            self.record.note = "client_gone"
            self.upstream.resume()
        else:
            self.over("client_gone")
            self.hub.poke()
