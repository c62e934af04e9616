"""How long conversations pause: one histogram per kind of last answer, learned on top of a shipped table.

A kind is three characters, as in the shipped table: how the answer ended (0 unknown, 1 tool call, 2 end of turn), its
size (0 below 150 output tokens, 1 below 500, 2 more) and the pace of the conversation (0 unknown, 1 fastest to 5), or
"u0" to "u3" where nothing is known of the answer: then it is how many requests came in the last ten minutes.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import itemgetter, sub
from typing import Any, Final

BINS: Final = 96
FIRST_S: Final = 0.5
LAST_S: Final = 4 * 86400.0
GONE_S: Final = 4 * 3600.0  # silent for so long: it never comes back
EDGES: Final[tuple[float, ...]] = (
    0.0,
    *(FIRST_S * (LAST_S / FIRST_S) ** (i / (BINS - 1)) for i in range(BINS)),
)
HALF_LIFE: Final = 3000.0  # pauses of one kind until an old one counts half
SHIPPED_WEIGHT: Final = 30.0  # pauses that the shipped table counts for
PARENT_WEIGHT: Final = 30.0  # and, in it, all paces together for one pace
PLAIN_WEIGHT: Final = 4.0  # what a guess without any table counts for
SMALL_TOKENS, LARGE_TOKENS = 150, 500
PACES: Final = (1.5, 2.0, 2.5, 3.0)  # of the mean of log(pause + 0.5)
ACTIVITY: Final = (3, 15, 60)  # requests in the last ten minutes
STALE_SHARE: Final = 0.01  # of what a histogram knows may be new before its curve is made again
_LEAST = 1e-9
_GROWN = 1e12


def kind_of(finish: int, tokens: int, pace: float | None, recent: int) -> str:
    """The kind of an answer.

    Args:
        finish: 0 unknown, 1 tool call, 2 end of turn.
        tokens: output tokens; 0 is unknown.
        pace: mean of log(pause_s + 0.5) of its conversation, None before the first pause.
        recent: requests of the last ten minutes.
    """
    if finish == 0 and tokens == 0:
        return f"u{bisect_right(ACTIVITY, recent - 1)}"
    size = (tokens >= SMALL_TOKENS) + (tokens >= LARGE_TOKENS)
    return f"{finish}{size}{0 if pace is None else 1 + bisect_right(PACES, pace)}"


def bin_of(pause_s: float) -> int:
    """The bin of a pause; the last one holds those that never ended."""
    if pause_s >= GONE_S:
        return BINS - 1
    return min(BINS - 2, bisect_right(EDGES, pause_s) - 1)


class Places:
    """Where each edge lands when all are moved on by some seconds."""

    def __init__(self, shift_s: float) -> None:
        bins: list[int] = []
        shares: list[float] = []
        into: list[float] = []
        for edge_s in EDGES:
            at_s = edge_s + shift_s
            i = min(BINS, bisect_right(EDGES, at_s) - 1)
            into_s = at_s - EDGES[i] if i < BINS else 0.0
            bins.append(i)
            shares.append(into_s / (EDGES[i + 1] - EDGES[i]) if i < BINS else 0.0)
            into.append(into_s)
        self.of: Callable[[Sequence[float]], tuple[float, ...]] = itemgetter(
            *bins
        )  # what a list has in those bins
        self.shares = tuple(shares)  # of each bin that are passed
        self.into_s = tuple(into)  # passed in it
        self.bends_s = tuple(seconds * share / 2 for seconds, share in zip(into, shares, strict=True))


@lru_cache(maxsize=512)
def places(shift_s: float) -> Places:
    """Those of a shift, made once."""
    return Places(shift_s)


def _plain() -> list[float]:
    """A log-logistic guess: median 12 s, shape 0.9, one in ten never comes back."""
    below = [0.0] + [1 / (1 + (edge_s / 12.0) ** -0.9) for edge_s in EDGES[1:]]
    shares = [0.9 * (high - low) for low, high in pairwise(below)]
    return [*shares[:-1], shares[-1] + 0.1]


def _scaled(counts: Sequence[float], weight: float) -> list[float]:
    total = sum(counts)
    return [weight * count / total for count in counts]


class Table:
    """What was measured elsewhere: counts of pauses per kind, made into priors."""

    def __init__(self, counts: Mapping[str, Sequence[float]]) -> None:
        """`counts`: 96 per kind. Empty: no table, only a guess.

        Raises:
            ValueError: a kind has another number of bins.
        """
        plain = _plain()
        self._plain = _scaled(plain, PLAIN_WEIGHT)
        parents: dict[str, list[float]] = {}
        for kind, row in counts.items():
            if len(row) != BINS:
                raise ValueError(f"kind {kind!r} has {len(row)} bins, not {BINS}")
            parent = parents.setdefault(kind[:2], _scaled(plain, PLAIN_WEIGHT))
            parents[kind[:2]] = [a + b for a, b in zip(parent, row, strict=True)]
        self._priors: dict[str, list[float]] = {}
        for kind, row in counts.items():
            parent = _scaled(parents[kind[:2]], PARENT_WEIGHT)
            self._priors[kind] = _scaled([a + b for a, b in zip(parent, row, strict=True)], SHIPPED_WEIGHT)

    def prior(self, kind: str) -> list[float]:
        """Pauses per bin that a kind begins with."""
        return self._priors.get(kind, self._plain)


class Pauses:
    """The histograms. Learns one pause at a time; what it hands out is made again once enough is new."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._counts: dict[str, list[float]] = {}
        self._one: dict[
            str, float
        ] = {}  # what the newest pause counts: growing it is cheaper than decaying the rest
        self._new: dict[str, int] = {}
        self._stale_at: dict[str, float] = {}
        self._curves: dict[str, list[float]] = {}
        self._slopes: dict[str, list[float]] = {}
        self._rows: dict[str, dict[int, list[float]]] = {}

    def add(self, kind: str, pause_s: float) -> None:
        """A conversation paused for that long after an answer of that kind."""
        counts = self._counts.get(kind)
        if counts is None:
            counts = self._counts[kind] = [0.0] * BINS
        one = self._one.get(kind, 1.0) * 2 ** (1 / HALF_LIFE)
        if one > _GROWN:
            counts = self._counts[kind] = [count / one for count in counts]
            one = 1.0
        self._one[kind] = one
        counts[bin_of(pause_s)] += one
        self._new[kind] = self._new.get(kind, 0) + 1
        if self._new[kind] >= self._stale_at.get(kind, 0.0):
            self._curves.pop(kind, None)

    def log_shares(self, kind: str) -> list[float]:
        """Per edge the logarithm of the share of pauses that last longer; falls from 0."""
        found = self._curves.get(kind)
        return found if found is not None else self._curve(kind)

    def row(self, kind: str, quiet_bin: int) -> list[float]:
        """The same for a conversation that has been quiet up to that edge already; one value per edge beyond it."""
        curve = self.log_shares(kind)
        rows = self._rows[kind]
        found = rows.get(quiet_bin)
        if found is None:
            begin = curve[quiet_bin]
            at = places(EDGES[quiet_bin])
            parts = zip(at.of(curve), at.shares, at.of(self._slopes[kind]), strict=True)
            found = [low + share * slope - begin for low, share, slope in parts]
            rows[quiet_bin] = found
        return found

    def _curve(self, kind: str) -> list[float]:
        counts = self._table.prior(kind)
        if kind in self._counts:
            one = self._one[kind]
            counts = [a + b / one for a, b in zip(counts, self._counts[kind], strict=True)]
        longer = list(accumulate(reversed(counts)))
        total = longer[-1]
        shares = [share if (share := count / total) > _LEAST else _LEAST for count in reversed(longer)]
        curve = list(map(math.log, shares))
        curve[0] = 0.0
        last = math.log(max(_LEAST, 0.98 * counts[-1] / total))
        curve += [last, last]  # the second is read by nobody who looks inside the bins
        self._slopes[kind] = list(map(sub, curve[1:], curve))
        self._rows[kind] = {}
        self._new[kind] = 0
        self._stale_at[kind] = max(1.0, STALE_SHARE * total)
        self._curves[kind] = curve
        return curve

    def to_doc(self) -> dict[str, Any]:
        """What it learned: per kind the bins that hold something."""
        return {
            kind: {str(i): round(count / self._one[kind], 4) for i, count in enumerate(counts) if count}
            for kind, counts in sorted(self._counts.items())
        }

    def restore(self, doc: Mapping[str, Any]) -> None:
        """Take back what `to_doc` said."""
        for kind, found in doc.items():
            counts = [0.0] * BINS
            for at, count in found.items():
                counts[int(at)] = float(count)
            self._counts[kind], self._one[kind] = counts, 1.0
            self._curves.pop(kind, None)
