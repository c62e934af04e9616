"""The waiting requests of one service, in the order they will be served. No clock, no I/O.

By class, then round robin over clients, then arrival. Every operation is O(log n) or better, so a full queue costs
no more per request than an empty one.
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any


class Phase(Enum):
    """Where a ticket is. FORWARDED is the only one that pins its service; PROBING is sent to one that sleeps."""

    NEW = "new"
    WAITING = "waiting"
    FORWARDED = "forwarded"
    PROBING = "probing"
    OVER = "over"


class Ticket:
    """One request at the gate. `owner` is whoever must be told; `wait_s` is the caller's own bound, if any."""

    __slots__ = (
        "arrived_s", "class_", "client", "counted_s", "demand", "entry", "id", "model", "owner", "phase", "priority",
        "service", "wait_s",
    )  # fmt: skip

    def __init__(
        self,
        service: str,
        class_: str = "attended",
        client: str = "",
        *,
        id: str = "",
        priority: int = 50,
        wait_s: float | None = None,
        demand: bool = True,
        model: str | None = None,
        owner: Any = None,
    ) -> None:
        self.service, self.class_, self.client, self.id = service, class_, client, id
        self.priority, self.wait_s, self.demand, self.owner = priority, wait_s, demand, owner
        self.model = model  # as its caller named it
        self.phase = Phase.NEW
        self.arrived_s = 0.0
        self.counted_s = 0.0  # the service's counted time at arrival
        self.entry = 0  # its valid entry in the heaps; older ones are stale


Clients = OrderedDict[str, OrderedDict[Ticket, None]]


class Order:
    """The line of one service. A ticket is in it once or not at all."""

    def __init__(self, classes: Sequence[str]) -> None:
        self.classes = tuple(classes)
        self._lanes: dict[str, Clients] = {name: OrderedDict() for name in self.classes}
        self._counts: dict[str, int] = dict.fromkeys(self.classes, 0)
        self._priorities: dict[str, dict[int, int]] = {name: {} for name in self.classes}
        self._oldest: dict[str, list[tuple[float, int, Ticket]]] = {name: [] for name in self.classes}
        self._bounded: list[tuple[float, int, Ticket]] = []
        self._entries = 0
        self._total = 0

    def __len__(self) -> int:
        return self._total

    def add(self, ticket: Ticket, *, first: bool = False) -> None:
        """Take a place at the end, or at the head for a request that was forwarded and came back."""
        lane = self._lanes[ticket.class_]
        places = lane.setdefault(ticket.client, OrderedDict())
        places[ticket] = None
        if first:
            places.move_to_end(ticket, last=False)
            lane.move_to_end(ticket.client, last=False)
        self._entries += 1
        ticket.entry, ticket.phase = self._entries, Phase.WAITING
        heapq.heappush(self._oldest[ticket.class_], (ticket.arrived_s, ticket.entry, ticket))
        if ticket.wait_s is not None:
            heapq.heappush(self._bounded, (ticket.arrived_s + ticket.wait_s, ticket.entry, ticket))
        self._count(ticket, +1)

    def remove(self, ticket: Ticket) -> None:
        """Give its place up. The caller sets the phase it goes to."""
        lane = self._lanes[ticket.class_]
        places = lane[ticket.client]
        del places[ticket]
        if not places:
            del lane[ticket.client]
        ticket.entry = 0
        self._count(ticket, -1)

    def first(self) -> Ticket | None:
        """Who is next."""
        for name in self.classes:
            for places in self._lanes[name].values():
                return next(iter(places))
        return None

    def pop(self) -> Ticket:
        """Take who is next out; its client goes to the end of the round. KeyError when nobody waits."""
        ticket = self.first()
        if ticket is None:
            raise KeyError("nobody waits")
        self.remove(ticket)
        lane = self._lanes[ticket.class_]
        if ticket.client in lane:
            lane.move_to_end(ticket.client)
        return ticket

    def in_order(self) -> Iterator[Ticket]:
        """Everyone, in the order they would be served if nothing changed."""
        for name in self.classes:
            rounds = [iter(places) for places in self._lanes[name].values()]
            while rounds:
                alive = []
                for places in rounds:
                    ticket = next(places, None)
                    if ticket is not None:
                        yield ticket
                        alive.append(places)
                rounds = alive

    def count(self, class_: str) -> int:
        """How many wait in a class."""
        return self._counts[class_]

    def priority_max(self, class_: str) -> int:
        """The highest priority in a class; 0 when nobody waits."""
        return max(self._priorities[class_], default=0)

    def oldest(self, class_: str) -> Ticket | None:
        """Who arrived first in a class."""
        return _top(self._oldest[class_])

    def next_bounded(self) -> Ticket | None:
        """Whose own bound ends first."""
        return _top(self._bounded)

    def _count(self, ticket: Ticket, by: int) -> None:
        self._total += by
        self._counts[ticket.class_] += by
        priorities = self._priorities[ticket.class_]
        left = priorities.get(ticket.priority, 0) + by
        if left:
            priorities[ticket.priority] = left
        else:
            del priorities[ticket.priority]


def _top(heap: list[tuple[float, int, Ticket]]) -> Ticket | None:
    while heap and heap[0][2].entry != heap[0][1]:
        heapq.heappop(heap)
    return heap[0][2] if heap else None
