"""Who waits at the gates: asked for when somebody looks, never part of the snapshot."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from headway.core import wire
from headway.core.model import HolderId
from headway.daemon.links import Links

ANSWER_S = 1.0  # a gate answers within milliseconds; who looks does not wait for one that is stuck


@dataclass(slots=True)
class _Ask:
    missing: set[str]  # gates that have not answered
    found: dict[str, wire.Held] = field(default_factory=dict)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Waiters:
    """One question per service is under way at a time: whoever looks meanwhile gets the same answer."""

    def __init__(self, links: Links) -> None:
        self._links, self._asks = links, dict[HolderId, _Ask]()
        links.on_held = self._heard

    async def of(self, service: HolderId) -> tuple[wire.HeldEntry, ...]:
        """Those that wait for it, in line; of gates that did not answer in time nothing."""
        ask = self._asks.get(service)
        if ask is None:
            ask = self._asks[service] = _Ask(set(self._links.peers))
            for peer in self._links.peers.values():
                peer.send(wire.encode(wire.List(service)))
        try:
            if ask.missing:
                async with asyncio.timeout(ANSWER_S):
                    await ask.over.wait()
        except TimeoutError:
            pass
        finally:
            if self._asks.get(service) is ask:
                del self._asks[service]
        entries = (one for held in ask.found.values() for one in held.entries)
        return tuple(sorted(entries, key=lambda one: (one.position, -one.waited_s)))

    def _heard(self, gate: str, held: wire.Held) -> None:
        ask = self._asks.get(held.service)
        if ask is None or gate not in ask.missing:
            return
        ask.missing.discard(gate)
        ask.found[gate] = held
        if not ask.missing:
            ask.over.set()
