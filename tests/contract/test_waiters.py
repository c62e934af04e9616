"""Asking the gates who waits: one question for all who look, and nobody waits for a gate that is stuck."""

import asyncio

import pytest

from headway.core import wire
from headway.daemon import waiters
from headway.daemon.links import Links, Peer
from headway.daemon.waiters import Waiters

pytestmark = pytest.mark.contract


class Gates:
    """Links with the two gates of an upgrade, as lines on wires."""

    def __init__(self, *names: str) -> None:
        self.links = Links("d", lambda: frozenset(names), lambda document: None, lambda told: None)
        self.lines: dict[str, list[bytes]] = {name: [] for name in names}
        self.peers = {name: Peer(send=self.lines[name].append) for name in names}
        for name in names:
            self.say(name, wire.Hello(wire.PROTO, name, 1, "0", 0.0, "log"))
        self.waiters = Waiters(self.links)

    def say(self, name: str, message: wire.Message) -> None:
        self.links.feed(self.peers[name], wire.encode(message), 1.0)

    def asked(self, name: str) -> int:
        return sum(isinstance(wire.decode(line.strip()), wire.List) for line in self.lines[name])

    def hold(self, name: str, *waited_s: float) -> None:
        entries = tuple(
            wire.HeldEntry(f"{name}{n}", "attended", "me", s, n) for n, s in enumerate(waited_s, 1)
        )
        self.say(name, wire.Held("chat", entries))


async def test_everybody_who_looks_at_once_gets_one_answer_of_all_gates() -> None:
    gates = Gates("a", "b")
    looks = [asyncio.create_task(gates.waiters.of("chat")) for _ in range(3)]
    await asyncio.sleep(0)
    gates.hold("a", 3.0, 1.0)
    assert not any(look.done() for look in looks)
    gates.hold("b", 5.0)
    for look in looks:
        assert [one.id for one in await look] == ["b1", "a1", "a2"]
    assert (gates.asked("a"), gates.asked("b")) == (1, 1)


async def test_a_gate_that_does_not_answer_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiters, "ANSWER_S", 0.05)
    gates = Gates("a", "b")
    look = asyncio.create_task(gates.waiters.of("chat"))
    await asyncio.sleep(0)
    gates.hold("a", 3.0)
    assert [one.id for one in await look] == ["a1"]
    gates.hold("b", 5.0)  # late: nobody asks any more
    look = asyncio.create_task(gates.waiters.of("chat"))
    await asyncio.sleep(0)
    assert gates.asked("b") == 2, "the next one who looks asks anew"
    gates.hold("a", 4.0)
    gates.hold("b", 6.0)
    assert [one.id for one in await look] == ["b1", "a1"]


async def test_without_a_gate_there_is_nobody() -> None:
    assert await Gates().waiters.of("chat") == ()
