"""When somebody's bound ends, the gate wakes up once, does something about it, and sleeps again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.wire import CLASSES, Service
from headway.gate.holding import Holding
from headway.gate.lines import Forward
from headway.gate.waiting import Ticket

pytestmark = pytest.mark.contract

STATES = (("closed", "aside"), ("closed", "waking"), ("open", "awake"), ("closed", "failed"))
lasting = st.floats(0.001, 100.0)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.sampled_from(CLASSES), st.none() | lasting),
        st.tuples(st.just("turn"), st.sampled_from(STATES), st.none()),
        st.tuples(st.sampled_from(["broken", "ended", "left"]), st.none(), st.none()),
        st.tuples(st.just("later"), lasting, st.none()),
    ),
    min_size=3,
    max_size=16,
)


class Played:
    """A service behind a gate, at whatever it came to."""

    def __init__(self, start_s: float, limits: dict[str, float], wake_limit_s: float, places: int | None):
        self.now_s, self.rev = start_s, 1
        self.more: dict[str, Any] = {"max_wait_s": limits, "wake_limit_s": wake_limit_s, "max_active": places}
        self.holding = Holding()
        self.sent: list[Ticket] = []
        self.held: list[Ticket] = []
        self.turn(*STATES[0])

    def turn(self, gate: Any, state: Any) -> None:
        self.rev += 1
        row = Service("s", self.rev, gate, state, upstream="http://u", **self.more)
        moves = self.holding.apply([row], self.now_s, whole=True)
        self.take(moves.forward, [ticket for ticket, _ in moves.refuse])

    def take(self, forward: list[Ticket], refuse: list[Ticket]) -> None:
        self.sent += forward
        self.held = [one for one in self.held if one not in forward and one not in refuse]

    def step(self, what: str, more: Any, wait_s: float | None) -> None:
        if what == "later":
            self.now_s += more
        elif what == "turn":
            self.turn(*more)
        elif what == "arrive":
            ticket = Ticket("s", more, wait_s=wait_s)
            got = self.holding.arrive(ticket, self.now_s)
            if isinstance(got, Forward):
                self.sent.append(ticket)
            elif self.holding.lines["s"].order.count(more) and ticket.entry:
                self.held.append(ticket)
        elif what == "broken" and self.sent:
            ticket = self.sent.pop()
            self.holding.came_back(ticket, self.now_s)
            if ticket.entry:
                self.held.append(ticket)
        elif what == "ended" and self.sent:
            self.take(self.holding.ended(self.sent.pop(), self.now_s).forward, [])
        elif what == "left" and self.held:
            self.holding.left(self.held.pop())

    def wakes_up(self) -> None:
        """At the instant that it named; then nothing more is due at that instant."""
        due_s = self.holding.next_deadline_s(self.now_s)
        if due_s is None:
            return
        self.now_s = max(self.now_s, due_s)
        waited, retried = len(self.held), len(self.sent)
        moves = self.holding.tick(self.now_s)
        self.take(moves.forward, [ticket for ticket, _ in moves.refuse])
        again_s = self.holding.next_deadline_s(self.now_s)
        assert again_s is None or again_s > self.now_s, "it would wake up at one instant, again and again"
        assert len(self.held) < waited or len(self.sent) > retried, "it woke up for nothing"


@given(
    st.floats(0.0, 1e9),
    st.fixed_dictionaries(dict.fromkeys(CLASSES, lasting)),
    lasting,
    st.none() | st.integers(0, 2),
    steps,
)
def test_it_wakes_up_once_for_each_bound_and_never_for_nothing(
    start_s: float,
    limits: dict[str, float],
    wake_limit_s: float,
    places: int | None,
    todo: list[tuple[str, Any, float | None]],
) -> None:
    played = Played(start_s, limits, wake_limit_s, places)
    for what, more, wait_s in todo:
        played.step(what, more, wait_s)
        if what == "later":
            for _ in range(4):
                played.wakes_up()


def test_a_stalled_server_without_a_free_place_names_no_retry() -> None:
    played = Played(10.0, dict.fromkeys(CLASSES, 90.0), 60.0, places=2)
    played.turn("open", "awake")
    for _ in range(3):
        played.step("arrive", "attended", None)
    played.step("broken", None, None)
    line = played.holding.lines["s"]
    assert played.holding.next_deadline_s(10.0) == line.retry_at_s, "its place is free"
    played.wakes_up()
    assert line.stall_s and not line.has_place() and len(line.order) == 1
    assert played.holding.next_deadline_s(played.now_s) == pytest.approx(100.0), "only its wait ends"
