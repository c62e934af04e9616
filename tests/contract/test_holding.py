"""Forward, hold or refuse: by table, by random walks against a plain model, and by a million arrivals."""

import ast
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.wire import Service
from headway.gate.holding import Holding
from headway.gate.lines import Forward, Held, Moves, Refused
from headway.gate.waiting import Phase, Ticket

pytestmark = pytest.mark.contract

MILLION = 1_000_000  # takes 4 s


def row(gate: Any = "closed", state: Any = "aside", **more: Any) -> Service:
    return Service("s", 1, gate, state, upstream="http://u", **more)


def holding_of(*rows: Service, connected: bool = True) -> Holding:
    made = Holding()
    made.connected = connected
    made.apply(rows, 0.0, whole=True)
    return made


def ids(moves: Moves) -> list[str]:
    return [ticket.id for ticket in moves.forward]


def codes(moves: Moves) -> list[tuple[str, str]]:
    return [(ticket.id, refused.code) for ticket, refused in moves.refuse]


def ticket(id: str = "a", **more: object) -> Ticket:
    return Ticket("s", id=id, **more)  # type: ignore[arg-type]


ARRIVALS = {
    # name: (row, ticket, answer)
    "open": (row("open", "awake"), ticket(), Forward()),
    "closed": (row(), ticket(), Held()),
    "waking": (row(state="waking"), ticket(), Held()),
    "failed": (row(state="failed"), ticket(), "service_failed"),
    "a probe while open": (row("open", "awake"), ticket(demand=False), Forward()),
    "in a no_model window": (row(state="failed", why={"code": "no_model"}), ticket(), "no_model"),
    "a probe over max_active": (
        row("open", "awake", max_active=0),
        ticket(demand=False),
        Forward(),
    ),
    "a probe while closed": (row(), ticket(demand=False), "service_aside"),
    "a probe while failed": (row(state="failed"), ticket(demand=False), "service_failed"),
    "over max_active": (row("open", "awake", max_active=0), ticket(), Held()),
    "no place in the queue": (row(queue_max=0), ticket(), "queue_full"),
    "answer now": (row(), ticket(wait_s=0.0), "wait_over"),
    "answer now, while open": (row("open", "awake"), ticket(wait_s=0.0), Forward()),
    "another service": (row("open", "awake"), Ticket("other"), "service_gone"),
}


@pytest.mark.parametrize(("service", "who", "answer"), ARRIVALS.values(), ids=ARRIVALS.keys())
def test_arrive(service: Service, who: Ticket, answer: object) -> None:
    got = holding_of(service).arrive(who, 1.0)
    assert (got.code if isinstance(got, Refused) else got) == answer


def test_order_is_class_then_client_round_robin_then_arrival() -> None:
    made = holding_of(row())
    for id, class_, client in (
        ("b1", "background", "x"), ("x1", "attended", "x"), ("x2", "attended", "x"), ("x3", "attended", "x"),
        ("y1", "attended", "y"), ("z1", "attended", "z"), ("y2", "attended", "y"),
    ):  # fmt: skip
        made.arrive(ticket(id, class_=class_, client=client), 1.0)
    shown = [entry.id for entry in made.lines["s"].held(2.0).entries]
    assert shown == ["x1", "y1", "z1", "x2", "y2", "x3", "b1"]
    assert ids(made.open("s", 2, 3.0)) == shown
    assert made.lines["s"].held(4.0).entries == ()


def test_max_active_hands_places_on() -> None:
    made = holding_of(row("open", "awake", max_active=1))
    first, second, third = ticket("1"), ticket("2"), ticket("3")
    assert isinstance(made.arrive(first, 1.0), Forward)
    made.arrive(second, 1.0)
    made.arrive(third, 1.0)
    assert ids(made.ended(first, 2.0)) == ["2"]
    made.close("s", 2, 2.5)
    assert ids(made.ended(second, 3.0)) == []
    assert ids(made.open("s", 3, 4.0)) == ["3"]


def test_a_wait_counts_only_while_others_hold_the_memory() -> None:
    made = holding_of(row(max_wait_s={"attended": 10.0}, wake_limit_s=100.0))
    made.arrive(ticket("early"), 0.0)
    assert made.next_deadline_s(0.0) == 10.0
    made.apply([row(state="waking", max_wait_s={"attended": 10.0}, wake_limit_s=100.0)], 8.0, whole=False)
    assert made.next_deadline_s(8.0) == 108.0
    assert codes(made.tick(90.0)) == []
    made.apply([row(max_wait_s={"attended": 10.0}, wake_limit_s=100.0)], 90.0, whole=False)
    assert made.next_deadline_s(90.0) == pytest.approx(92.0)
    assert codes(made.tick(91.9)) == []
    assert codes(made.tick(92.1)) == [("early", "wait_over")]


def test_the_own_wake_is_bounded_by_its_own_limit() -> None:
    made = holding_of(row(state="waking", wake_limit_s=5.0, max_wait_s={"attended": 1.0}))
    made.arrive(ticket("a"), 4.0)
    assert codes(made.tick(4.9)) == []
    assert codes(made.tick(5.0)) == [("a", "wake_over")]


def test_the_callers_own_bound_counts_always() -> None:
    made = holding_of(row(state="waking"))
    made.arrive(ticket("a", wait_s=3.0), 1.0)
    made.arrive(ticket("b"), 1.0)
    assert made.next_deadline_s(1.0) == 4.0
    assert codes(made.tick(4.0)) == [("a", "wait_over")]


def test_without_a_daemon_the_refusal_names_it() -> None:
    made = holding_of(row(max_wait_s={"attended": 2.0}), connected=False)
    made.arrive(ticket("a"), 0.0)
    assert codes(made.tick(2.0)) == [("a", "daemon_away")]


def test_facts_and_retry_after() -> None:
    why = {"activity": "train", "held_s": 12.0, "expires_in_s": 5000.0, "preemptible": False}
    made = holding_of(row(queue_max=1, why=why))
    made.arrive(ticket("a"), 0.0)
    got = made.arrive(ticket("b"), 0.0)
    assert isinstance(got, Refused)
    assert (got.status, got.retry_after_s) == (429, 900.0)
    assert got.facts["activity"] == "train"
    assert got.facts["position"] == 2


def test_failed_answers_everyone_who_waits() -> None:
    made = holding_of(row(state="waking"))
    made.arrive(ticket("a"), 0.0)
    assert codes(made.apply([row(state="failed")], 1.0, whole=False)) == [("a", "service_failed")]


def test_a_refused_connection_goes_back_to_the_head_and_does_not_pin() -> None:
    made = holding_of(row("open", "awake", max_active=2))
    first, second, third = ticket("1"), ticket("2"), ticket("3")
    for who in (first, second, third):
        made.arrive(who, 1.0)
    assert made.came_back(second, 1.0) == Held()
    assert made.came_back(first, 1.0) == Held()
    assert len(made.lines["s"].forwarded) == 0
    assert [entry.id for entry in made.lines["s"].held(1.0).entries] == ["1", "2", "3"]
    assert isinstance(made.arrive(ticket("4"), 1.0), Held)  # nobody is sent to a dead server in between
    due = made.next_deadline_s(1.0)
    assert due is not None
    assert ids(made.tick(due)) == ["1"]  # one tries
    assert ids(made.reached(first, due)) == ["2"]  # it's back: the rest follows, up to max_active


def test_a_dead_server_fails_its_waiters_in_time() -> None:
    made = holding_of(row("open", "awake", max_wait_s={"attended": 5.0}))
    who = ticket("a")
    made.arrive(who, 0.0)
    now_s = 0.0
    for _ in range(100):
        made.came_back(who, now_s)
        due = made.next_deadline_s(now_s)
        assert due is not None
        now_s = due + 1e-6
        moves = made.tick(now_s)
        if moves.refuse:
            assert codes(moves) == [("a", "upstream_unreachable")]
            assert 5.0 <= now_s < 7.1
            return
    pytest.fail("it was never answered")


def test_shadow_forwards_at_once_and_never_holds() -> None:
    made = holding_of(row())
    waiter = ticket("a")
    made.arrive(waiter, 0.0)
    made.shadow = True
    assert ids(made.apply([row()], 1.0, whole=True)) == ["a"]
    assert isinstance(made.arrive(ticket("b"), 1.0), Forward)
    got = made.came_back(waiter, 1.0)
    assert isinstance(got, Refused)
    assert got.code == "upstream_unreachable"


def test_a_service_that_left_the_table_refuses_its_waiters_and_keeps_its_pins() -> None:
    made = holding_of(row("open", "awake", max_active=1))
    sent, waits = ticket("a"), ticket("b")
    made.arrive(sent, 0.0)
    made.arrive(waits, 0.0)
    assert codes(made.apply([], 1.0, whole=True)) == [("b", "service_gone")]
    made.ended(sent, 2.0)
    made.apply([], 3.0, whole=True)
    assert made.lines == {}


def test_demand_is_urgent_for_the_first_and_last_waiter_of_a_closed_service() -> None:
    made = holding_of(row())
    made.urgent.clear()
    first, second = ticket("a", priority=10), ticket("b", priority=70)
    made.arrive(first, 1.0)
    assert made.urgent == {"s"}
    made.urgent.clear()
    made.arrive(second, 2.0)
    assert made.urgent == set()
    demand = made.lines["s"].demand(4.0, 7)
    waiting = demand.waiting["attended"]
    assert (demand.seq, waiting.n, waiting.oldest_s, waiting.priority_max) == (7, 2, 3.0, 70)
    made.left(second)
    assert made.urgent == set()
    made.left(first)
    assert made.urgent == {"s"}
    assert made.lines["s"].demand(5.0, 8).waiting == {}


def test_only_attended_requests_move_the_last_end() -> None:
    made = holding_of(row("open", "awake"))
    for class_, demand, age in (
        ("background", True, None),
        ("attended", False, None),
        ("attended", True, 1.0),
    ):
        who = ticket("a", class_=class_, demand=demand)
        made.arrive(who, 1.0)
        made.ended(who, 2.0)
        assert made.lines["s"].demand(3.0, 1).last_end_age_s == age


WAITS = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Yield, ast.YieldFrom)
GATE = Path(__file__).parents[2] / "src" / "headway" / "gate"  # compiled, functions don't know their source
CLOCKS = ("asyncio", "time", "threading", "socket")
RUNS = {
    "Holding.arrive", "Holding._grant", "Holding._wait", "Line.has_place", "Order.add", "Exchange._arrive"
}  # fmt: skip


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for one in tree.body:
        if isinstance(one, ast.ClassDef):
            yield from ((f"{one.name}.{f.name}", f) for f in one.body if isinstance(f, ast.FunctionDef))


def test_there_is_no_await_between_check_and_count() -> None:
    """`arrive` and whatever it runs; and, around it, what turns its answer into bytes for the server."""
    seen = set()
    for name in ("holding", "lines", "waiting", "exchange", "call", "request"):
        tree = ast.parse((GATE / f"{name}.py").read_text("utf-8"))
        assert not [node for node in ast.walk(tree) if isinstance(node, WAITS[:4])], name
        for called, function in functions(tree):
            if called in RUNS:
                seen.add(called)
                assert not [node for node in ast.walk(function) if isinstance(node, WAITS)], called
        for node in ast.walk(tree) if name in ("holding", "lines", "waiting") else ():
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                assert not any(one.split(".")[0] in CLOCKS for one in names), name
    assert seen == RUNS


def test_a_million_arrivals_and_no_forward_while_closed() -> None:
    rng = random.Random(7)
    made = holding_of(row(max_active=50, queue_max=200))
    made.shadow = False
    live: list[Ticket] = []
    held: dict[Ticket, None] = {}
    is_open, rev, sent, waited, now_s = False, 1, 0, 0, 0.0

    def take(moves: Moves) -> None:
        nonlocal sent
        if moves.forward and not is_open:
            pytest.fail("forwarded while closed")
        for who in moves.forward:
            del held[who]
        live.extend(moves.forward)
        sent += len(moves.forward)

    for number in range(MILLION):
        now_s += 1e-4
        who = Ticket("s", "background" if number & 1 else "attended", str(number & 7))
        match made.arrive(who, now_s):
            case Forward():
                assert is_open
                live.append(who)
                sent += 1
            case Held():
                held[who] = None
                waited += 1
        if number % 5 == 0 and live:
            index = rng.randrange(len(live))
            live[index], live[-1] = live[-1], live[index]
            take(made.ended(live.pop(), now_s))
        if number % 997 == 0:
            rev += 1
            is_open = not is_open
            if is_open:
                take(made.open("s", rev, now_s))
            else:
                made.close("s", rev, now_s)
        if number % 101 == 0 and held:
            gone = next(iter(held))
            del held[gone]
            made.left(gone)
        if number % 5000 == 0:
            assert len(made.lines["s"].forwarded) == made.lines["s"].active == len(live)
            assert made.lines["s"].demand(now_s, 0).active == len(live) <= 50
    assert sent > MILLION / 10
    assert waited > MILLION / 10


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("arrive", "probe", "end", "leave", "back", "open", "close", "waking", "failed", "tick")
        ),
        st.integers(0, 5),
    ),
    max_size=80,
)


@settings(max_examples=300, deadline=None)
@given(STEPS, st.sampled_from((None, 0, 1, 3)), st.integers(0, 4))
def test_random_walks_keep_the_books(
    steps: list[tuple[str, int]], max_active: int | None, queue_max: int
) -> None:
    limits = {
        "max_active": max_active,
        "queue_max": queue_max,
        "max_wait_s": {"attended": 6.0, "background": 60.0},
    }
    made = holding_of(row(**limits))
    sent: list[Ticket] = []
    held: list[Ticket] = []
    answered: dict[Ticket, str] = {}
    is_open, now_s, count = False, 0.0, 0

    def take(moves: Moves) -> None:
        assert is_open or not moves.forward
        for who in moves.forward:
            held.remove(who)
            sent.append(who)
        for who, refused in moves.refuse:
            held.remove(who)
            assert who not in answered
            answered[who] = refused.code

    for verb, pick in steps:
        now_s += pick
        if verb in ("arrive", "probe"):
            count += 1
            who = ticket(str(count), client=str(pick), class_="background" if pick == 5 else "attended",
                         demand=verb == "arrive", wait_s=2.5 if pick == 4 else None)  # fmt: skip
            got = made.arrive(who, now_s)
            assert is_open or not isinstance(got, Forward)
            assert who.demand or not isinstance(got, Held)
            (sent if isinstance(got, Forward) else held if isinstance(got, Held) else []).append(who)
        elif verb == "end" and sent:
            take(made.ended(sent.pop(pick % len(sent)), now_s))
        elif verb == "leave" and held:
            made.left(held.pop(pick % len(held)))
        elif verb == "back" and sent:
            who = sent.pop(pick % len(sent))
            if isinstance(made.came_back(who, now_s), Held):
                held.append(who)
        elif verb == "open":
            is_open = True
            take(made.open("s", count, now_s))
        elif verb == "close":
            is_open = False
            made.close("s", count, now_s)
        elif verb in ("waking", "failed") and not is_open:
            take(made.apply([row(state=verb, **limits)], now_s, whole=False))
        elif verb == "tick":
            take(made.tick(now_s))
        line = made.lines["s"]
        assert line.forwarded == set(sent)
        assert {who.phase for who in sent} <= {Phase.FORWARDED}
        assert sorted(e.id for e in made.lines["s"].held(now_s).entries) == sorted(who.id for who in held)
        assert made.lines["s"].demand(now_s, 0).active == sum(who.demand for who in sent)
        assert sum(w.n for w in made.lines["s"].demand(now_s, 0).waiting.values()) == len(held)
        assert max_active is None or line.active <= max_active
