"""Clients of the false machine: bursts of requests, each of which must get exactly one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.sim.gates import Exchange
    from headway.sim.world import World


class Request:
    """One request, from the moment its client sent it."""

    def __init__(
        self, world: World, number: int, service: str, class_: str, client: str, wait_s: float | None
    ) -> None:
        self.world, self.id, self.service = world, f"r{number}", service
        self.class_, self.client, self.wait_s = class_, client, wait_s
        self.sent_s = world.loop.now_s
        self.outcome: str | None = None
        self.exchange: Exchange | None = None

    def answered(self, how: str, code: str | None) -> None:
        """What its client sees at last."""
        if self.outcome is not None:
            self.world.wrong(f"{self.id} was answered twice: {self.outcome}, then {how}")
            return
        if how == "refused" and not code:
            self.world.wrong(f"{self.id} was refused without a code")
        self.outcome = how if code is None else f"{how}:{code}"
        self.world.clients.over(self)


class Clients:
    """All clients of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made = 0
        self._backlog: list[Request] = []  # of the listener, while no gate accepts
        self.open: dict[str, Request] = {}
        self.outcomes: dict[str, int] = {}

    def send(self, service: str, class_: str, client: str, wait_s: float | None = None) -> Request:
        """A new request, to whichever gate accepts."""
        self._made += 1
        request = Request(self._world, self._made, service, class_, client, wait_s)
        self.open[request.id] = request
        gate = self._world.accepting_gate()
        if gate is None:
            self._backlog.append(request)
        else:
            gate.arrive(request)
        return request

    def take_backlog(self) -> list[Request]:
        waiting, self._backlog = self._backlog, []
        return waiting

    def leave(self, request: Request) -> None:
        """Its client hangs up."""
        if request.outcome is not None:
            return
        if request in self._backlog:
            self._backlog.remove(request)
            request.answered("left", None)
        elif request.exchange is not None and request.id in request.exchange.gate.exchanges:
            request.exchange.left()
        else:
            request.answered("left", None)

    def over(self, request: Request) -> None:
        del self.open[request.id]
        outcome = request.outcome or ""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self._world.trace(f"{request.id} {request.service} {outcome}")
