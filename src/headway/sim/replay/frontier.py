"""What waiting buys: job time over mean wait as a knob is swept, and comparing two such lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

Point = tuple[float, float]  # mean wait in seconds, share of job time


def geometric(low: float, high: float, factor: float) -> list[float]:
    """From `low` to `high`, both included, each about `factor` times the one before.

    >>> geometric(1, 8, 2)
    [1.0, 2.0, 4.0, 8.0]
    >>> geometric(1e-9, 2e-9, 2)
    [1e-09, 2e-09]
    """
    digits = max(6, 3 - math.floor(math.log10(low)))  # enough to tell small ones apart
    steps = max(1, math.ceil(math.log(high / low) / math.log(factor) - 1e-9))
    return [round(low * (high / low) ** (i / steps), digits) for i in range(steps + 1)]


def hull(points: Iterable[Point]) -> list[Point]:
    """The upper concave hull, from never sleeping on: what mixing two settings could reach."""
    found: list[Point] = []
    for wait, share in sorted([(0.0, 0.0), *points]):
        while len(found) >= 2 and _below(found[-2], found[-1], (wait, share)):
            found.pop()
        found.append((wait, share))
    return found


def _below(a: Point, b: Point, c: Point) -> bool:
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])


def at_wait(line: Sequence[Point], wait_s: float) -> float | None:
    """Job time at a mean wait, between the points of a line that is sorted; None outside of it."""
    for (w0, s0), (w1, s1) in pairwise(line):
        if w0 <= wait_s <= w1:
            return s0 if w1 == w0 else s0 + (s1 - s0) * (wait_s - w0) / (w1 - w0)
    return None


def at_share(line: Sequence[Point], share: float) -> float | None:
    """The mean wait at which a line reaches so much job time; None when it never does."""
    for (w0, s0), (w1, s1) in pairwise(line):
        if s0 <= share <= s1:
            return w0 if s1 == s0 else w0 + (w1 - w0) * (share - s0) / (s1 - s0)
    return None
