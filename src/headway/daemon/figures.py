"""What only goes up since this daemon began."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from headway.ports import Pulse

BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)


class Figures:
    """Counting costs a few steps a turn."""

    def __init__(self) -> None:
        self._turns = [0] * (len(BOUNDS_S) + 1)
        self._turned_s = 0.0
        self._events: Counter[str] = Counter()

    def turned(self, took_s: float) -> None:
        """One more turn looked at everything and decided, in so many seconds."""
        self._turns[bisect_left(BOUNDS_S, took_s)] += 1
        self._turned_s += took_s

    def event(self, code: str) -> None:
        self._events[code] += 1

    def pulse(self, living: frozenset[str], connected: frozenset[str]) -> Pulse:
        """As of now."""
        return Pulse(
            turns=tuple(zip((*BOUNDS_S, float("inf")), self._turns, strict=True)),
            turned_s=self._turned_s,
            events=dict(self._events),
            gates_living=living,
            gates_connected=connected,
        )
