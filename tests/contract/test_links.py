"""The daemon's side of the link, message by message."""

from dataclasses import replace
from typing import Any

import pytest

from headway.core import wire
from headway.core.facts import GateState
from headway.core.model import Waiting
from headway.daemon.links import FENCE_AFTER_S, Links, Peer, Troubled

pytestmark = pytest.mark.contract


def row(name: str = "chat", rev: int = 1, gate: wire.GateWish = "closed", **more: Any) -> wire.Service:
    return wire.Service(name, rev, gate, **more)


class Desk:
    """A Links with one or more gates that say what the test says."""

    def __init__(self, *rows: wire.Service) -> None:
        self.gates: set[str] = set()
        self.told: list[GateState | Troubled] = []
        self.files: list[wire.Table] = []
        self.disk_full = False
        self.log: list[str] = []  # the order of file, roster and messages
        self.links = Links("d", self._roster, self._write, self.told.append)
        self.sent: dict[int, list[wire.Message]] = {}
        self.publish(*rows)

    def _roster(self) -> frozenset[str]:
        self.log.append("roster")
        return frozenset(self.gates)

    def _write(self, document: bytes) -> None:
        if self.disk_full:
            raise OSError("no space")
        self.log.append("file")
        self.files.append(wire.read_table(document))

    def publish(self, *rows: wire.Service, now_s: float = 0.0, mode: wire.Mode = "live") -> None:
        self.links.publish({one.name: one for one in rows}, mode, "salt", now_s)

    def connection(self) -> Peer:
        sent: list[wire.Message] = []

        def send(line: bytes) -> None:
            self.log.append("sent")
            sent.append(wire.decode(line))

        peer = Peer(send=send)
        self.sent[id(peer)] = sent
        return peer

    def gate(self, name: str = "g1", now_s: float = 0.0) -> Peer:
        self.gates.add(name)
        peer = self.connection()
        self.say(peer, wire.Hello(wire.PROTO, name, 4711, "0", 0.0, "log"), now_s=now_s)
        return peer

    def say(self, peer: Peer, *messages: wire.Message, now_s: float = 0.0) -> None:
        self.links.feed(peer, b"".join(map(wire.encode, messages)), now_s)

    def state(self, service: str = "chat") -> GateState:
        return next(t for t in reversed(self.told) if isinstance(t, GateState) and t.service == service)

    def heard(self, peer: Peer, kind: type[Any]) -> list[Any]:
        return [message for message in self.sent[id(peer)] if isinstance(message, kind)]


def demand(
    service: str = "chat", active: int = 0, end_age_s: float | None = None, **waiting: wire.Waiting
) -> wire.Demand:
    return wire.Demand(service, active, waiting, end_age_s, 1)


def test_a_connection_begins_with_hello_and_gets_the_whole_table() -> None:
    desk = Desk(row())
    peer = desk.connection()
    with pytest.raises(wire.WireError):
        desk.say(peer, wire.Closed("chat", 1, 0, 0))
    assert desk.heard(desk.gate(), wire.Table)[0] == desk.links.table
    assert desk.links.table.whole


@pytest.mark.parametrize("data", [b"nonsense\n", b"[]\n", b'{"type":"hello"}\n', b"\xff\xfe\n"])
def test_bad_bytes_cut_the_connection(data: bytes) -> None:
    desk = Desk(row())
    with pytest.raises(wire.WireError):
        desk.links.feed(desk.gate(), data, 0.0)


def test_a_line_without_an_end_cuts_the_connection() -> None:
    desk = Desk(row())
    with pytest.raises(wire.WireError):
        desk.links.feed(desk.gate(), b"x" * (wire.MAX_LINE_BYTES + 1), 0.0)


def test_a_message_may_come_byte_by_byte() -> None:
    desk = Desk(row())
    peer = desk.gate()
    for byte in wire.encode(wire.Closed("chat", 1, 0, 0)):
        desk.links.feed(peer, bytes([byte]), 0.0)
    assert desk.state().closed


def test_unknown_messages_are_answered_and_those_of_the_wrong_side_too() -> None:
    desk = Desk(row())
    peer = desk.gate()
    desk.links.feed(peer, b'{"type":"news","x":1}\n', 0.0)
    desk.say(peer, wire.Open("chat", 7))
    assert desk.heard(peer, wire.Unsupported) == [wire.Unsupported("open")]


CLOSED = {
    # name: (closed messages by gate, gates on the roster, (closed, pinning))
    "no gate at all": ({}, (), (True, 0)),
    "one gate, nothing said": ({"g1": []}, ("g1",), (False, 0)),
    "closed and empty": ({"g1": [(1, 0)]}, ("g1",), (True, 0)),
    "closed with requests": ({"g1": [(1, 2)]}, ("g1",), (True, 2)),
    "its requests ended": ({"g1": [(1, 2), (1, 0)]}, ("g1",), (True, 0)),
    "an older revision": ({"g1": [(0, 0)]}, ("g1",), (False, 0)),
    "a revision that was never sent": ({"g1": [(2, 0)]}, ("g1",), (False, 0)),
    "two gates, one said so": ({"g1": [(1, 0)], "g2": []}, ("g1", "g2"), (False, 0)),
    "two gates, both said so": ({"g1": [(1, 1)], "g2": [(1, 2)]}, ("g1", "g2"), (True, 3)),
    "one is on the roster but not here": ({"g1": [(1, 0)]}, ("g1", "g2"), (False, 0)),
    "one is here but not on the roster": ({"g1": [(1, 0)], "g2": []}, ("g1",), (False, 0)),
}


@pytest.mark.parametrize(("said", "roster", "wanted"), CLOSED.values(), ids=CLOSED.keys())
def test_closed(
    said: dict[str, list[tuple[int, int]]], roster: tuple[str, ...], wanted: tuple[bool, int]
) -> None:
    desk = Desk(row())
    peers = {name: desk.gate(name) for name in said}
    desk.gates = set(roster)
    for name, answers in said.items():
        desk.say(peers[name], *(wire.Closed("chat", rev, pinning, 0) for rev, pinning in answers))
    desk.links.merge_all(0.0)
    assert (desk.state().closed, desk.state().pinning) == wanted


def test_an_open_service_is_never_closed() -> None:
    desk = Desk(row(gate="open"))
    desk.say(desk.gate(), wire.Closed("chat", 1, 0, 0))
    assert not desk.state().closed


def test_a_new_connection_starts_blank() -> None:
    desk = Desk(row())
    first = desk.gate()
    desk.say(first, wire.Closed("chat", 1, 0, 0), demand())
    assert desk.state().closed and desk.state().active == 0
    second = desk.gate()
    assert not desk.state().closed and desk.state().active is None
    desk.links.lost(first, 0.0)  # the end of the older one is no news
    assert desk.links.peers["g1"] is second
    desk.say(first, wire.Closed("chat", 1, 0, 0))  # and what it still says counts for nothing
    assert not desk.state().closed
    desk.say(second, wire.Closed("chat", 1, 0, 0))
    assert desk.state().closed


def test_a_lost_gate_is_unknown_until_its_lock_is_free() -> None:
    desk = Desk(row())
    peer = desk.gate()
    desk.say(peer, wire.Closed("chat", 1, 0, 0), demand(active=3))
    desk.links.lost(peer, 0.0)
    assert not desk.state().closed and desk.state().active is None
    desk.gates.clear()
    desk.links.tick(1.0, False, ())
    assert desk.state().closed


def test_demand_is_added_over_gates_and_ages_become_instants() -> None:
    desk = Desk(row())
    one, two = desk.gate("g1"), desk.gate("g2")
    desk.say(one, demand(active=1, end_age_s=3.0, attended=wire.Waiting(2, 5.0, 40)), now_s=100.0)
    assert desk.state().active is None  # the other has not spoken
    desk.say(two, demand(active=2, end_age_s=9.0, attended=wire.Waiting(1, 30.0, 70)), now_s=110.0)
    state = desk.state()
    assert state.active == 3 and state.last_end_s == 101.0
    assert state.demand == {"attended": Waiting(n=3, since_s=80.0, priority_max=70)}
    desk.say(two, demand(background=wire.Waiting(1, 1.0, 10)), now_s=120.0)
    assert desk.state().demand == {
        "attended": Waiting(n=2, since_s=95.0, priority_max=40),
        "background": Waiting(n=1, since_s=119.0, priority_max=10),
    }


def test_what_did_not_change_is_not_told_again() -> None:
    desk = Desk(row())
    peer = desk.gate()
    desk.say(peer, demand())
    before = len(desk.told)
    desk.say(peer, demand(), now_s=50.0)
    desk.links.tick(51.0, True, ())
    assert len(desk.told) == before


def test_trouble_is_passed_on() -> None:
    desk = Desk(row())
    desk.say(desk.gate(), wire.Trouble("chat", "refused"))
    assert desk.told[-1] == Troubled("chat")


def test_the_file_is_written_before_the_roster_is_read_and_before_anybody_is_told() -> None:
    desk = Desk(row(gate="open"))
    peer = desk.gate()
    desk.log.clear()
    desk.publish(row(rev=2))
    assert desk.log[:2] == ["file", "sent"] and desk.log.index("file") < desk.log.index("roster")
    assert desk.heard(peer, wire.Close) == [wire.Close("chat", 2)]


def test_only_what_changed_is_sent_and_an_order_only_with_a_revision() -> None:
    desk = Desk(row(), row("other", 3, "open"))
    peer = desk.gate()
    desk.publish(row(), row("other", 3, "open"))
    assert len(desk.files) == 1 and len(desk.heard(peer, wire.Table)) == 1
    desk.publish(row(state="waking"), row("other", 3, "open"))
    table = desk.heard(peer, wire.Table)[-1]
    assert not table.whole and set(table.services) == {"chat"}
    assert not desk.heard(peer, wire.Close) and not desk.heard(peer, wire.Open)
    desk.publish(row(rev=2, gate="open"), row("other", 3, "open"))
    assert desk.heard(peer, wire.Open) == [wire.Open("chat", 2)]
    assert desk.files[-1].whole and set(desk.files[-1].services) == {"chat", "other"}


def test_a_service_more_or_less_or_another_mode_is_a_whole_table() -> None:
    desk = Desk(row())
    peer = desk.gate()
    desk.publish(row(), row("other"))
    desk.publish(row("other"))
    desk.publish(row("other"), mode="shadow")
    assert [table.whole for table in desk.heard(peer, wire.Table)] == [True] * 4


def test_a_service_that_comes_back_under_its_name_is_another_one() -> None:
    desk = Desk(row(rev=2))
    peer = desk.gate()
    desk.say(peer, wire.Closed("chat", 2, 0, 0))
    desk.publish()
    desk.publish(row(rev=2))
    assert not desk.state().closed


def test_while_the_file_cannot_be_written_no_close_is_complete() -> None:
    desk = Desk(row(gate="open"))
    peer = desk.gate()
    desk.disk_full = True
    desk.publish(row(rev=2))
    desk.say(peer, wire.Closed("chat", 2, 0, 0))
    assert not desk.state().closed  # a gate that starts now would read "open"
    desk.disk_full = False
    desk.links.tick(1.0, False, ())
    assert desk.files[-1].services["chat"].gate == "closed" and desk.state().closed


# -------------------------------------------------------------------- silence and the fence


def fenced(desk: Desk, until_s: float, awaited: tuple[str, ...] = ("chat",)) -> list[tuple[float, str]]:
    """Tick once a second as the daemon does; when each gate is to be fenced for the first time."""
    found: dict[str, float] = {}
    for second in range(int(until_s) + 1):
        for gate in desk.links.tick(float(second), second % 2 == 0, awaited):
            found.setdefault(gate, float(second))
    return sorted((at_s, gate) for gate, at_s in found.items())


def test_pings_are_answered_by_pongs() -> None:
    desk = Desk(row())
    peer = desk.gate()
    for _ in range(3):
        desk.links.tick(0.0, True, ())
    assert [ping.n for ping in desk.heard(peer, wire.Ping)] == [1, 2, 3] and peer.silent
    desk.say(peer, wire.Pong(2, 0.0))
    assert not peer.silent


def test_a_silent_gate_is_fenced_ten_seconds_after_it_is_missed() -> None:
    desk = Desk(row())
    desk.gate()
    assert fenced(desk, 30) == [(4.0 + FENCE_AFTER_S, "g1")]


def test_an_unconnected_gate_is_fenced_after_ten_seconds() -> None:
    desk = Desk(row())
    desk.gates.add("g1")
    assert fenced(desk, 30) == [(FENCE_AFTER_S, "g1")]


def test_a_gate_that_stopped_with_requests_is_fenced_too() -> None:
    desk = Desk(row())
    desk.say(desk.gate(), wire.Closed("chat", 1, 2, 0))
    assert fenced(desk, 30) == [(4.0 + FENCE_AFTER_S, "g1")]


def test_a_gate_that_answers_is_never_fenced_however_long_its_requests_take() -> None:
    desk = Desk(row())
    peer = desk.gate()
    desk.say(peer, wire.Closed("chat", 1, 2, 0))
    for second in range(60):
        assert desk.links.tick(float(second), True, ("chat",)) == []
        desk.say(peer, wire.Pong(peer.pinged, 0.0), now_s=float(second))


NOT_FENCED = {
    # name: (row, awaited)
    "the service is open": (row(gate="open"), ("chat",)),
    "the service is not awake": (row(), ()),
    "another service waits": (row(), ("other",)),
}


@pytest.mark.parametrize(("service", "awaited"), NOT_FENCED.values(), ids=NOT_FENCED.keys())
def test_never_fenced_otherwise(service: wire.Service, awaited: tuple[str, ...]) -> None:
    desk = Desk(service)
    desk.gate()
    desk.gates.add("g2")
    assert fenced(desk, 60, awaited) == []


def test_a_silent_gate_whose_word_is_complete_is_left_alone() -> None:
    desk = Desk(row())
    desk.say(desk.gate(), wire.Closed("chat", 1, 0, 0))
    assert fenced(desk, 60) == []
    assert desk.state().closed  # its permission ended by its own word


def test_the_ten_seconds_begin_anew_when_it_answered_in_between() -> None:
    desk = Desk(row(), row("other", gate="open"))
    desk.gates.add("g1")
    for second in range(9):
        assert desk.links.tick(float(second), False, ("chat",)) == []
    desk.links.lost(desk.gate(now_s=9.0), 9.0)
    desk.gates.add("g1")
    peer = desk.gate(now_s=9.0)
    assert desk.links.tick(9.5, False, ("chat",)) == []
    desk.links.lost(peer, 10.0)
    assert desk.links.tick(10.0, False, ("chat",)) == []
    assert desk.links.tick(19.0, False, ("chat",)) == []
    assert desk.links.tick(20.0, False, ("chat",)) == ["g1"]


def test_bye_ends_a_connection_in_peace() -> None:
    desk = Desk(row())
    peer = desk.gate()
    desk.gates.clear()
    desk.say(peer, wire.Bye())
    assert desk.links.peers == {}
    assert desk.state().closed


def test_a_table_row_is_never_shared_with_the_caller() -> None:
    desk = Desk(row())
    rows = {"chat": row(rev=2, gate="open")}
    desk.links.publish(rows, "live", "salt", 0.0)
    rows["chat"] = replace(rows["chat"], gate="closed")
    assert desk.links.table.services["chat"].gate == "open"
