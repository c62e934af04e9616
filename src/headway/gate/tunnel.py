"""An upgraded connection: bytes pass raw both ways. It pins its service only while it is in use.

What a client sends into the tunnel of a closed service is kept (its reading is paused) and is demand; the service's
own bytes always pass.
"""

from typing import TYPE_CHECKING, Any

from headway.gate.lines import Forward, Held, Refused
from headway.gate.upstream import Upstream
from headway.gate.waiting import Phase, Ticket

if TYPE_CHECKING:
    from headway.gate.call import Call

LEAVE_LIMIT_S = 3600.0  # a gate that is replaced closes even a used one then: pings would go on for ever
IDLE_AFTER_S = 5.0  # no byte in either direction for this long: not in use


class Tunnel:
    """One tunnel. Its ticket is one burst of use."""

    __slots__ = ("_kept", "_owner", "_ticket", "_upstream", "closed", "last_s", "service")

    def __init__(self, owner: "Call", upstream: Upstream) -> None:
        self._owner, self._upstream = owner, upstream
        assert owner.to is not None
        self.service = owner.to.service
        self._ticket: Ticket | None = None
        self._kept: list[bytes] = []
        self.closed = False
        self.last_s = owner.hub.now()
        owner.hub.holding.lines[self.service].tunnels += 1
        owner.hub.tunnels.add(self)

    def from_client(self, data: bytes) -> None:
        """Pass it on, or keep it until the service is open again."""
        hub = self._owner.hub
        self.last_s = hub.now()
        self._owner.record.in_bytes += len(data)
        if self._ticket is None:
            caller = self._owner.caller
            self._ticket = Ticket(
                self.service, caller.class_, caller.client, id=self._owner.record.id, priority=caller.priority,
                owner=self,
            )  # fmt: skip
            match hub.holding.arrive(self._ticket, self.last_s):
                case Forward():
                    pass
                case Held():
                    self._pause(True)
                case Refused():
                    self._ticket = None
                    self.close()
                    return
            hub.poke()
        if self._ticket.phase is Phase.FORWARDED:
            self._upstream.write(data)
        else:
            self._kept.append(data)

    def from_upstream(self, data: bytes) -> None:
        """Pass it to the client."""
        self.last_s = self._owner.hub.now()
        self._owner.record.out_bytes += len(data)
        client: Any = self._owner.client
        if client is not None:
            client.write(data)

    def granted(self) -> None:
        """The service is open: send what was kept."""
        kept, self._kept = self._kept, []
        self.last_s = self._owner.hub.now()
        for data in kept:
            self._upstream.write(data)
        self._pause(False)

    def refused(self, refused: Refused) -> None:
        """The wait ended without the service."""
        self._ticket = None
        self.close()

    def rest(self, now_s: float) -> None:
        """Called now and then: a quiet tunnel pins no more."""
        ticket = self._ticket
        if ticket is not None and ticket.phase is Phase.FORWARDED and now_s - self.last_s >= IDLE_AFTER_S:
            self._ticket = None
            self._owner.hub.dispatch(self._owner.hub.holding.ended(ticket, now_s))

    def leave(self, now_s: float, since_s: float, quiet_s: float) -> None:
        """Called now and then once its gate is being replaced, `since_s`: its client comes back to the new one."""
        quiet = not self._kept and now_s - self.last_s >= quiet_s
        if quiet or now_s - since_s >= LEAVE_LIMIT_S:
            self.close()

    def close(self) -> None:
        """Either side is gone: close the other."""
        if self.closed:
            return
        self.closed = True
        hub, ticket = self._owner.hub, self._ticket
        self._ticket = None
        hub.tunnels.discard(self)
        hub.holding.lines[self.service].tunnels -= 1
        if ticket is not None and ticket.phase is Phase.WAITING:
            hub.holding.left(ticket)
        elif ticket is not None and ticket.phase is Phase.FORWARDED:
            hub.dispatch(hub.holding.ended(ticket, hub.now()))
        hub.poke()
        self._owner.tunnel_over()

    def cut(self) -> None:
        """Its service must stop now."""
        self.close()

    def _pause(self, wanted: bool) -> None:
        client: Any = self._owner.client
        if client is not None and wanted:
            client.pause("tunnel")
        elif client is not None:
            client.unpause("tunnel")
