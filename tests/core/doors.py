"""The gates of the false world: requests that are held, sent, answered and broken."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

from headway.core.facts import GateState
from headway.core.model import Policy, Waiting
from tests.core.timeline import LINK_S, Timeline


@dataclass(slots=True)
class Request:
    service: str
    cls: str
    at_s: float
    takes_s: float
    sent_s: float | None = None
    end_s: float | None = None
    how: str = "waiting"  # waiting, sent, answered, broken


@dataclass(slots=True)
class GateDoor:
    """The gates of one service."""

    rev: int = 0
    open: bool = False
    waiting: list[Request] = field(default_factory=list)
    sent: list[Request] = field(default_factory=list)
    last_end_s: float | None = None


class Doors(Timeline):
    """One gate per service: whole states after every change, orders a moment late."""

    def __init__(self, devices: dict[str, int], policy: Policy | None = None) -> None:
        super().__init__(devices, policy)
        self.doors: dict[str, GateDoor] = {}
        self.requests: list[Request] = []

    @abstractmethod
    def server(self, sid: str) -> str | None:
        """The form of the program behind a service; None: no process of it lives."""

    def ask(self, service: str, after_s: float = 0.0, takes_s: float = 0.5, cls: str = "attended") -> Request:
        request = Request(service=service, cls=cls, at_s=self.now_s + after_s, takes_s=takes_s)
        self.requests.append(request)
        self.later(after_s, lambda: self._arrives(request))
        return request

    def _arrives(self, request: Request) -> None:
        door = self.doors[request.service]
        if door.open:
            self._send(request)
        else:
            door.waiting.append(request)
        self._tell_gate(request.service)

    def _send(self, request: Request) -> None:
        form, door = self.server(request.service), self.doors[request.service]
        if form != "awake":
            if form is not None:
                self.wrong.append(f"{self.now_s}: {request.service} asked while {form}")
            door.waiting.insert(0, request)  # nothing was sent: back to the head of its queue
            return
        request.sent_s, request.how = self.now_s, "sent"
        door.sent.append(request)
        self.later(request.takes_s, lambda: self._ends(request, "answered"))

    def _ends(self, request: Request, how: str) -> None:
        door = self.doors[request.service]
        if request not in door.sent:
            return
        door.sent.remove(request)
        request.end_s, request.how = self.now_s, how
        if request.cls == "attended":
            door.last_end_s = self.now_s
        self._tell_gate(request.service)

    def _tell_gate(self, sid: str) -> None:
        door = self.doors[sid]
        demand: dict[str, Waiting] = {}
        for request in door.waiting:
            before = demand.get(request.cls)
            since_s = min(request.at_s, before.since_s) if before else request.at_s
            demand[request.cls] = Waiting(n=(before.n if before else 0) + 1, since_s=since_s)
        state = GateState(
            service=sid,
            rev=door.rev,
            closed=not door.open,
            pinning=len(door.sent),
            active=len(door.sent),
            demand=demand,
            last_end_s=door.last_end_s,
        )
        self.told(state, LINK_S)

    def _order_gate(self, sid: str, rev: int, open_: bool) -> None:
        door = self.doors[sid]
        door.rev, door.open = rev, open_
        if open_:
            waiting, door.waiting = door.waiting, []
            for request in waiting:
                self._send(request)
        self._tell_gate(sid)
