"""The gate's side of the link, without sockets: what it answers, when, and what it never answers."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core import wire
from headway.gate.holding import Holding
from headway.gate.lines import Forward, Held
from headway.gate.link import Identity, Link
from headway.gate.waiting import Ticket

pytestmark = pytest.mark.contract


def row(name: str = "a", rev: int = 1, gate: Any = "closed", state: Any = "aside") -> wire.Service:
    return wire.Service(name, rev, gate, state, upstream="http://u")


def table(*rows: wire.Service, whole: bool = True, mode: Any = "live") -> wire.Table:
    return wire.Table(wire.PROTO, "d", {r.name: r for r in rows}, whole=whole, mode=mode)


class Ends:
    """A link with its holding, and what it said."""

    def __init__(self) -> None:
        self.holding = Holding()
        self.link = Link(self.holding, Identity("g1", 42, "1.0", 10.0, "/log"), lambda: 1.5)

    def said(self) -> list[wire.Message]:
        return [wire.decode(line) for line in self.link.take_out().splitlines()]

    def tell(self, *messages: wire.Message, now_s: float = 20.0) -> list[wire.Message]:
        for message in messages:
            self.link.feed(wire.encode(message), now_s)
        return self.said()

    def connected(self, *rows: wire.Service) -> "Ends":
        self.link.connect(20.0)
        self.tell(table(*rows))
        self.holding.changed.clear()
        self.holding.urgent.clear()
        return self


def test_hello_is_the_first_line() -> None:
    ends = Ends()
    ends.link.connect(12.5)
    assert ends.said() == [wire.Hello(wire.PROTO, "g1", 42, "1.0", 2.5, "/log")]


def test_a_whole_table_is_answered_with_closed_and_demand() -> None:
    ends = Ends()
    ends.link.connect(20.0)
    ends.said()
    said = ends.tell(table(row("a", 3), row("b", 4, "open", "awake")))
    assert said[0] == wire.Closed("a", 3, 0, 0)
    assert [type(m).__name__ + getattr(m, "service", "") for m in said] == ["Closeda", "Demanda", "Demandb"]


def test_nothing_is_said_before_the_table_of_this_connection() -> None:
    ends = Ends().connected(row("a", 3))
    ends.link.disconnect()
    ends.link.connect(21.0)
    ends.said()
    ends.holding.arrive(Ticket("a"), 22.0)
    assert ends.link.next_flush_s() is None
    ends.link.flush(23.0)
    assert ends.said() == []
    for early in (wire.Close("a", 9), wire.Open("a", 9), table(row("a"), whole=False)):
        with pytest.raises(wire.WireError):
            ends.link.feed(wire.encode(early), 23.0)
    assert not ends.holding.lines["a"].open


def test_close_is_answered_at_once_and_again_when_pinning_reaches_zero() -> None:
    ends = Ends().connected(row("a", 1, "open", "awake"))
    first, second = Ticket("a"), Ticket("a")
    assert isinstance(ends.holding.arrive(first, 20.0), Forward)
    ends.holding.arrive(second, 20.0)
    assert ends.tell(wire.Close("a", 2)) == [wire.Closed("a", 2, 2, 0)]
    ends.holding.ended(first, 21.0)
    ends.link.flush(21.0)
    assert not [m for m in ends.said() if isinstance(m, wire.Closed)]
    ends.holding.ended(second, 21.0)
    assert ends.link.next_flush_s() == float("-inf")
    ends.link.flush(21.0)
    assert [m for m in ends.said() if isinstance(m, wire.Closed)] == [wire.Closed("a", 2, 0, 0)]


def test_closed_after_an_open_is_not_said() -> None:
    ends = Ends().connected(row("a", 1, "open", "awake"))
    sent = Ticket("a")
    ends.holding.arrive(sent, 20.0)
    ends.tell(wire.Close("a", 2), wire.Open("a", 3))
    ends.holding.ended(sent, 21.0)
    ends.link.flush(21.0)
    assert not [m for m in ends.said() if isinstance(m, wire.Closed)]


def test_demand_is_throttled_but_not_for_the_first_or_last_waiter_of_a_closed_service() -> None:
    ends = Ends().connected(row("a", 1), row("b", 1, "open", "awake"))
    ends.link.flush(30.0)
    ends.said()
    waiter = Ticket("a")
    ends.holding.arrive(waiter, 30.01)
    assert ends.link.next_flush_s() == float("-inf")
    ends.link.flush(30.01)
    (said,) = ends.said()
    assert isinstance(said, wire.Demand)
    assert said.waiting["attended"].n == 1
    for number in range(10):
        ends.holding.arrive(Ticket("a"), 30.02)
        ends.holding.arrive(Ticket("b"), 30.02)
        ends.link.flush(30.02 + number / 1000)
    assert ends.said() == []
    due = ends.link.next_flush_s()
    assert due == pytest.approx(30.05)
    ends.link.flush(30.051)
    both = ends.said()
    assert [(m.service, m.active) for m in both if isinstance(m, wire.Demand)] == [("a", 0), ("b", 10)]
    assert ends.link.next_flush_s() is None


@given(
    st.floats(0.0, 1e9),
    st.lists(st.tuples(st.sampled_from("ab"), st.floats(0.0, 0.2)), min_size=1, max_size=8),
)
def test_what_is_due_is_said_at_the_very_instant_that_was_named_and_not_asked_for_again(
    start_s: float, arrivals: list[tuple[str, float]]
) -> None:
    """Else who sleeps until then wakes up, says nothing, and is told to wake up at once, for ever."""
    ends, now_s = Ends().connected(row("a", 1), row("b", 1, "open", "awake")), start_s
    for service, later_s in arrivals:
        now_s += later_s
        ends.holding.arrive(Ticket(service), now_s)
        for _ in range(3):  # the first waiter of a closed service, then all that changed
            due_s = ends.link.next_flush_s()
            if due_s is None:
                break
            now_s = max(now_s, due_s)
            ends.link.flush(now_s)
            assert [type(message) for message in ends.said()], "something was due"
        assert ends.link.next_flush_s() is None


def test_a_partial_table_changes_only_what_it_names() -> None:
    ends = Ends().connected(row("a", 1), row("b", 1, "open", "awake"))
    said = ends.tell(table(row("a", 1, "closed", "waking"), whole=False))
    assert {getattr(m, "service", None) for m in said} == {"a"}
    assert ends.holding.lines["b"].open
    assert ends.link.table is not None
    assert set(ends.link.table.services) == {"a", "b"}


def test_the_table_opens_closes_and_forgets() -> None:
    ends = Ends().connected(row("a", 1), row("b", 1, "open", "awake"))
    waiter = Ticket("a")
    ends.holding.arrive(waiter, 20.0)
    effects = ends.link.feed(wire.encode(table(row("a", 2, "open", "awake"))), 21.0)
    assert effects.moves.forward == [waiter]
    assert effects.closed == ["b"]
    assert set(ends.holding.lines) == {"a"}


def test_close_with_a_limit_asks_for_the_cut() -> None:
    ends = Ends().connected(row("a", 1, "open", "awake"))
    effects = ends.link.feed(wire.encode(wire.Close("a", 2, 1.5)), 21.0)
    assert (effects.closed, effects.aborts) == (["a"], [("a", 1.5)])


def test_ping_list_drain_and_unknown_words() -> None:
    ends = Ends().connected(row("a"))
    ends.holding.arrive(Ticket("a", client="me", id="r1"), 19.0)
    assert ends.tell(wire.Ping(3)) == [wire.Pong(3, 1.5)]
    entry = wire.HeldEntry("r1", "attended", "me", 1.0, 1, None, 89.0 + 600.0)
    assert ends.tell(wire.List("a")) == [wire.Held("a", (entry,))]
    assert ends.tell(wire.List("none")) == [wire.Held("none", ())]
    assert ends.link.feed(wire.encode(wire.Drain()), 20.0).drain
    ends.link.feed(b'{"type":"zebra"}\n', 20.0)
    assert ends.said() == [wire.Unsupported("zebra")]
    assert ends.tell(wire.Unsupported("trouble")) == [], "an answer isn't answered"
    assert ends.tell(wire.Bye()) == [wire.Unsupported("bye")]


def test_trouble_is_said_ten_times_a_second_at_most_and_never_unconnected() -> None:
    ends = Ends().connected(row("a"))
    for now_s in (20.0, 20.05, 20.11):
        ends.link.trouble("a", "refused", now_s)
    assert ends.said() == [wire.Trouble("a", "refused")] * 2
    ends.link.disconnect()
    ends.link.trouble("a", "refused", 30.0)
    assert ends.said() == []


def test_bytes_may_be_cut_anywhere() -> None:
    data = b"".join(wire.encode(m) for m in (table(row("a", 1)), wire.Open("a", 2), wire.Close("a", 3)))
    for cut in range(len(data)):
        ends = Ends()
        ends.link.connect(20.0)
        ends.link.feed(data[:cut], 20.0)
        ends.link.feed(data[cut:], 20.0)
        assert ends.said()[-1] == wire.Closed("a", 3, 0, 0)


def test_a_lost_connection_changes_no_permission() -> None:
    ends = Ends().connected(row("a", 1, "open", "awake"), row("b", 1))
    ends.link.disconnect()
    assert isinstance(ends.holding.arrive(Ticket("a"), 30.0), Forward)
    assert isinstance(ends.holding.arrive(Ticket("b"), 30.0), Held)


def test_routes_json_is_taken_before_any_connection() -> None:
    ends = Ends()
    effects = ends.link.preload(table(row("a", 7, "open", "awake"), whole=False, mode="shadow"), 11.0)
    assert effects.table is not None
    assert ends.holding.shadow
    assert isinstance(ends.holding.arrive(Ticket("a"), 12.0), Forward)
    assert ends.said() == []


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(("open", "close", "drop", "arrive", "end", "flush")), max_size=60), st.integers()
)
def test_closed_with_pinning_zero_is_always_true_when_said(verbs: list[str], seed: int) -> None:
    rng = random.Random(seed)
    ends = Ends().connected(row("a", 0))
    rev, now_s = 0, 20.0
    sent: list[Ticket] = []

    def check() -> None:
        for message in ends.said():
            if isinstance(message, wire.Closed) and message.pinning == 0 and message.rev == rev:
                assert not sent
                assert not ends.holding.lines["a"].open

    for verb in verbs:
        now_s += rng.random() / 10
        if verb in ("open", "close"):
            rev += 1
            effects = ends.link.feed(
                wire.encode((wire.Open if verb == "open" else wire.Close)("a", rev)), now_s
            )
            sent += effects.moves.forward
        elif verb == "drop":
            ends.link.disconnect()
            ends.link.connect(now_s)
            gate: wire.GateWish = "open" if ends.holding.lines["a"].open else "closed"
            sent += ends.link.feed(wire.encode(table(row("a", rev, gate))), now_s).moves.forward
        elif verb == "arrive":
            who = Ticket("a")
            if isinstance(ends.holding.arrive(who, now_s), Forward):
                sent.append(who)
        elif verb == "end" and sent:
            ends.holding.ended(sent.pop(rng.randrange(len(sent))), now_s)
        elif verb == "flush":
            ends.link.flush(now_s)
        check()
