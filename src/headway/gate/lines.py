"""One service at the gate: its row, its permission, who was sent, who waits, and for how long they may.

A class's wait counts only while others hold the memory: not while the service's own wake is under way (that is
bounded by `wake_limit_s`), and not for a place on an open service. A caller's own bound counts always.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from headway.core import wire
from headway.gate.waiting import Order, Phase, Ticket

RETRY_AFTER_MAX_S = 900.0  # clients of the OpenAI library do not retry after longer ones
RETRY_AFTER_S = 15.0
NAME_MAX = 200  # letters of a model's name that are told: a caller may send any
STALL_FIRST_S, STALL_MAX_S = 0.1, 2.0
ROUNDING_S = (
    1e-6  # a bound is over at the very instant that `deadlines` named, whatever the sums were rounded to
)
STATUS: Final[Mapping[str, int]] = {
    "queue_full": 429,
    "wait_over": 429,
    "wake_over": 503,
    "service_failed": 503,
    "service_held": 503,
    "service_aside": 503,
    "no_model": 503,
    "service_gone": 503,
    "daemon_away": 503,
    "upstream_unreachable": 503,
}


@dataclass(frozen=True, slots=True)
class Forward:
    """Send it now: it is counted."""


@dataclass(frozen=True, slots=True)
class Held:
    """It waits. The holding returns it in `Moves` later, unless its owner says `left` first."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Not now. `facts` are those of the service's `why`, plus position and bounds."""

    code: str
    status: int
    retry_after_s: float
    facts: Mapping[str, Any]


@dataclass(slots=True)
class Moves:
    """What a change caused: tickets forwarded from now on (and counted), and tickets refused."""

    forward: list[Ticket] = field(default_factory=list)
    refuse: list[tuple[Ticket, Refused]] = field(default_factory=list)


FORWARD: Final = Forward()
HELD: Final = Held()
NO_MOVES: Final = Moves()  # compared by identity; nobody adds to it


class Line:
    """One service. Holding changes it; nobody else does."""

    def __init__(self, row: wire.Service, now_s: float) -> None:
        self.row = row
        self.order = Order(wire.CLASSES)
        self.open = False
        self.forwarded: set[Ticket] = set()  # pinning: sent and not over, probes included
        self.probing: set[Ticket] = set()  # sent to a server that sleeps: not pinning
        self.active = 0  # of these, those that are use of the service
        self.tunnels = 0
        self.last_end_s: float | None = None  # of an attended request
        self.waking_since_s: float | None = None
        self.stall_s = 0.0  # > 0: connections are refused; one is tried at `retry_at_s`
        self.retry_at_s = 0.0
        self._counted_s = 0.0  # how long others held the memory, up to `_settled_s`
        self._settled_s = now_s

    def counting(self) -> bool:
        """Whether waits count now."""
        return self.row.state != "waking" and (not self.open or self.stall_s > 0)

    def counted(self, now_s: float) -> float:
        """Seconds counted so far."""
        return self._counted_s + (now_s - self._settled_s if self.counting() else 0.0)

    def settle(self, now_s: float) -> None:
        """Book the counted time; call before anything that `counting` looks at changes."""
        self._counted_s, self._settled_s = self.counted(now_s), now_s

    def take(self, row: wire.Service, now_s: float) -> None:
        """A new row; a wake that goes on keeps its start."""
        self.row = row
        if row.state != "waking":
            self.waking_since_s = None
        elif self.waking_since_s is None:
            self.waking_since_s = now_s

    def turn(self, gate: wire.GateWish, rev: int) -> None:
        """The row after an `open` or `close`."""
        self.row = replace(self.row, gate=gate, rev=rev)

    @property
    def state(self) -> str:
        """The row's state for callers. One that a person or a window put aside says so: nothing is wrong with it."""
        put_aside = self.row.state == "failed" and self.row.why.get("code") in ("held", "no_model")
        return str(self.row.why["code"]) if put_aside else self.row.state

    def no(self) -> str:
        """The code of its refusals while waiting would not help."""
        return {"held": "service_held", "no_model": "no_model"}.get(self.state, "service_failed")

    def has_place(self) -> bool:
        """Whether one more may be active."""
        return self.row.max_active is None or self.active < self.row.max_active

    def admitted(self) -> bool:
        """Whether it's being woken for those who wait, or is awake and only a place is missing."""
        return self.row.state == "waking" or (self.open and not self.stall_s)

    def deadlines(self, now_s: float) -> Iterator[float]:
        """When each bound that applies now ends. Nothing while nobody waits."""
        if not len(self.order):
            return
        bounded = self.order.next_bounded()
        if bounded is not None and bounded.wait_s is not None:
            yield bounded.arrived_s + bounded.wait_s
        if self.stall_s and self.open and self.has_place():
            yield self.retry_at_s
        if self.waking_since_s is not None and not self.open:
            yield self.waking_since_s + self.row.wake_limit_s
        if self.counting():
            for class_ in wire.CLASSES:
                oldest, limit_s = self.order.oldest(class_), self.row.max_wait_s.get(class_)
                if oldest is not None and limit_s is not None:
                    yield now_s + limit_s - (self.counted(now_s) - oldest.counted_s)

    def overdue(self, now_s: float) -> bool:
        """Whether a bound ended."""
        return any(at_s <= now_s for at_s in self.deadlines(now_s))

    def places(self) -> dict[Ticket, int]:
        """Who stands where, from 1."""
        return {ticket: place for place, ticket in enumerate(self.order.in_order(), 1)}

    def expire(self, now_s: float, connected: bool) -> Iterator[tuple[Ticket, str]]:
        """Take out everyone whose bound ended, each with the code of the refusal."""
        code = "wait_over" if connected else "daemon_away"
        while (ticket := self.order.next_bounded()) is not None and ticket.wait_s is not None:
            if ticket.arrived_s + ticket.wait_s > now_s:
                break
            yield self._out(ticket), code
        if self.waking_since_s is not None and not self.open:
            while len(self.order) and now_s >= self.waking_since_s + self.row.wake_limit_s:
                yield self.order.pop(), "wake_over" if connected else "daemon_away"
        for class_ in wire.CLASSES if self.counting() else ():
            limit_s = self.row.max_wait_s.get(class_)
            while limit_s is not None and (ticket := self.order.oldest(class_)) is not None:
                if self.counted(now_s) - ticket.counted_s < limit_s - ROUNDING_S:
                    break
                yield self._out(ticket), "upstream_unreachable" if self.open else code

    def probe(self, ticket: Ticket) -> None:
        """Send it to a server that sleeps and is known to answer that. It's counted nowhere, so it pins nothing."""
        ticket.phase = Phase.PROBING
        self.probing.add(ticket)

    def probed(self, ticket: Ticket) -> bool:
        """Whether it was one of these; it's over then."""
        if ticket not in self.probing:
            return False
        self.probing.remove(ticket)
        ticket.phase = Phase.OVER
        return True

    def demand(self, now_s: float, seq: int) -> wire.Demand:
        """Whole values for the daemon."""
        waiting = {}
        for class_ in wire.CLASSES:
            oldest = self.order.oldest(class_)
            if oldest is not None:
                age_s = max(0.0, now_s - oldest.arrived_s)
                n, top = self.order.count(class_), self.order.priority_max(class_)
                waiting[class_] = wire.Waiting(n, age_s, top)
        end_age_s = None if self.last_end_s is None else max(0.0, now_s - self.last_end_s)
        return wire.Demand(self.row.name, self.active, waiting, end_age_s, seq)

    def held(self, now_s: float, limit: int = 200) -> wire.Held:
        """The first `limit` who wait, in order."""
        entries: list[wire.HeldEntry] = []
        for ticket in self.order.in_order():
            if len(entries) == limit:
                break
            waited_s, model = max(0.0, now_s - ticket.arrived_s), ticket.model
            entries.append(
                wire.HeldEntry(
                    ticket.id, ticket.class_, ticket.client, waited_s, len(entries) + 1,
                    model[:NAME_MAX] if model is not None else None, self.left_s(ticket, now_s),
                )
            )  # fmt: skip
        return wire.Held(self.row.name, tuple(entries))

    def left_s(self, ticket: Ticket, now_s: float) -> float | None:
        """Until it is sent or refused at the latest, the way back of its server included; None: nothing bounds that."""
        bounds = [] if ticket.wait_s is None else [ticket.arrived_s + ticket.wait_s - now_s]
        limit_s = self.row.max_wait_s.get(ticket.class_)
        if self.waking_since_s is not None and not self.open:
            bounds.append(self.waking_since_s + self.row.wake_limit_s - now_s)
        elif self.counting() and limit_s is not None:
            counted_s = self.counted(now_s) - ticket.counted_s
            bounds.append(limit_s - counted_s + (0.0 if self.open else self.row.wake_limit_s))
        return max(0.0, min(bounds)) if bounds else None

    def _out(self, ticket: Ticket) -> Ticket:
        self.order.remove(ticket)
        return ticket


def aged(refused: Refused, boottime_s: float, boot: str) -> Refused:
    """The same with ages in place of the row's instants. Those of another boot say nothing: they are left out."""
    facts = dict(refused.facts)
    since_s, until_s = facts.pop("since_s", None), facts.pop("until_s", None)
    if facts.pop("boot", None) != boot or not isinstance(since_s, (int, float)):
        return replace(refused, facts=facts)
    facts["held_s"] = max(0.0, round(boottime_s - since_s, 1))
    if isinstance(until_s, (int, float)):
        facts["expires_in_s"] = max(0.0, round(until_s - boottime_s, 1))
    retry_after_s = refused.retry_after_s
    if "retry_after_s" not in facts and "expires_in_s" in facts:
        retry_after_s = min(RETRY_AFTER_MAX_S, facts["expires_in_s"])
    return replace(refused, facts=facts, retry_after_s=retry_after_s)


def refusal(code: str, line: Line | None, **facts: Any) -> Refused:
    """A refusal with the facts of the service, and when to try again (never above 900 s)."""
    why = dict(line.row.why) if line is not None else {}
    if line is not None:
        why.update(service=line.row.name, state=line.state)
    wanted = why.get("retry_after_s", why.get("expires_in_s"))
    retry_after_s = RETRY_AFTER_S
    if isinstance(wanted, (int, float)) and not isinstance(wanted, bool) and wanted >= 0:
        retry_after_s = min(RETRY_AFTER_MAX_S, float(wanted))
    return Refused(code, STATUS[code], retry_after_s, {**why, **facts})
