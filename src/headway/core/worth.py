"""Is a gap worth a swap: what it would win, what it would make people wait, and the best moment to begin.

Pure. Seconds everywhere. A swap puts a service to sleep, brings a job to the device, and undoes both when a request
comes; the price says how many seconds of job time one second of waiting must earn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import mul, neg, sub
from typing import Any, Final

from headway.core.forecast import Quiet
from headway.core.pauses import BINS, EDGES, places

LEAST_SHARE: Final = 1e-4  # quiet less likely than this is not looked at
EXACT_SAVES: Final = 4  # saved intervals that are counted one by one; the rest as if spread evenly


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What one swap takes, in seconds, as measured or else as declared."""

    sleep_s: float = 11.0
    wake_s: float = 2.5
    resume_s: float = 1.75
    park_s: float = 2.0
    saved_every_s: float = 0.0  # a job that keeps only whole intervals of this; 0: it keeps all
    hides_park: bool = False  # the wake begins beside the park
    abandons_sleep: bool = False  # a sleep can be called off half-way, and only what slept is woken

    def swap_s(self) -> float:
        """From the first second of sleep to the job's first second of work."""
        return self.sleep_s + self.resume_s

    def back_s(self) -> float:
        """From a request to an awake model while a job works."""
        return max(self.park_s, self.wake_s) if self.hides_park else self.park_s + self.wake_s

    def wait_s(self, into_s: float) -> float:
        """How long a request waits that comes `into_s` after sleep began."""
        if into_s < self.sleep_s:
            if self.abandons_sleep:
                return self.wake_s * into_s / self.sleep_s
            return self.sleep_s - into_s + self.wake_s
        return max(0.0, self.swap_s() - into_s) + self.back_s()

    def won_s(self, asleep_s: float) -> tuple[float, float]:
        """Job time kept and lost of a gap whose sleep began `asleep_s` before its end."""
        ran_s = max(0.0, asleep_s - self.swap_s())
        if not self.saved_every_s:
            return ran_s, 0.0
        kept_s = ran_s // self.saved_every_s * self.saved_every_s
        return kept_s, ran_s - kept_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The best moment to begin to sleep, from now. `after_s` None: not in this quiet."""

    after_s: float | None
    gain_s: float = 0.0  # job time expected
    wait_s: float = 0.0  # waiting expected
    price: float = 0.0
    talks: int = 0
    quiet_s: float = 0.0  # that much more with a chance of 80 %

    @property
    def now(self) -> bool:
        return self.after_s == 0.0

    def facts(self) -> dict[str, Any]:
        """For the sentence."""
        return {
            "talks": self.talks,
            "likely_s": self.quiet_s,
            "gain_s": self.gain_s,
            "wait_s": self.wait_s,
            "price": self.price,
        }


class Area:
    """A curve with the area below it beyond each edge."""

    def __init__(self, shares: Sequence[float]) -> None:
        self.shares = shares
        padded = [*shares, shares[-1]]
        self._slopes = list(map(sub, padded[1:], padded))
        steps = [
            (a + b) * half for a, b, half in zip(shares, shares[1:], _HALVES, strict=False)
        ]  # trapezoids
        self.beyond = [*reversed(list(accumulate(reversed(steps)))), 0.0]

    def moved(self, shift_s: float, count: int) -> tuple[list[float], list[float]]:
        """Share and area beyond at the first `count` edges, each moved on by `shift_s`."""
        at = places(shift_s)
        low, halves = at.of(self.shares), at.halves[:count]
        there = [
            a + share * slope
            for a, share, slope in zip(low, at.shares[:count], at.of(self._slopes), strict=False)
        ]
        left = [
            area - half * (a + b)
            for area, half, a, b in zip(at.of(self.beyond), halves, low, there, strict=False)
        ]
        return there, left


_HALVES: Final = tuple((high - low) / 2 for low, high in pairwise(EDGES))


def best_moment(quiet: Quiet, costs: Costs, price: float, follower_s: float = 0.0) -> Moment:
    """When to begin to sleep, if the quiet lasts until then.

    Args:
        quiet: the chance that it lasts.
        costs: of this service and this job.
        price: seconds of job time that one second of waiting must earn, >= 0.
        follower_s: what those behind the first request wait together, per wake.
    """
    area = Area(quiet.shares)
    count = min(BINS, bisect_right(quiet.shares, -LEAST_SHARE, key=neg))  # they fall from 1
    gains = _gains(area, costs, count)
    waits = _waits(area, costs, count, follower_s)
    values = list(map(sub, gains, map(mul, waits, [price] * count)))
    best = max(values)
    i = values.index(best)
    worth = best > 0
    return Moment(
        after_s=EDGES[i] if worth else None,
        gain_s=gains[i] if worth else 0.0,
        wait_s=waits[i] if worth else 0.0,
        price=price,
        talks=quiet.talks,
        quiet_s=quiet.lasting_s(0.8),
    )


def _gains(area: Area, costs: Costs, count: int) -> list[float]:
    """Job time expected, per edge at which sleep begins. It never grows with the edge."""
    begun_s, every_s = costs.swap_s(), costs.saved_every_s
    if not every_s:
        return area.moved(begun_s, count)[1]
    total = [0.0] * count
    for saves in range(1, EXACT_SAVES + 1):
        there, left = area.moved(begun_s + saves * every_s, count)
        total = [one + every_s * share for one, share in zip(total, there, strict=True)]
    # further saves: the sum of a slowly falling curve is its area less half a step
    total = [
        one + max(0.0, rest - every_s / 2 * share)
        for one, rest, share in zip(total, left, there, strict=True)
    ]
    return list(accumulate(total, min))


def _waits(area: Area, costs: Costs, count: int, follower_s: float) -> list[float]:
    """Seconds that the request which ends the quiet waits, and those behind it; per edge at which sleep begins."""
    sleep_s, back_s, resume_s = costs.sleep_s, costs.back_s(), costs.resume_s
    if costs.abandons_sleep:
        first_s, slope = 0.0, costs.wake_s / sleep_s if sleep_s else 0.0
    else:
        first_s, slope = sleep_s + costs.wake_s, -1.0
    s0, a0 = area.shares[:count], area.beyond[:count]
    s1, a1 = area.moved(sleep_s, count)
    _, a2 = area.moved(costs.swap_s(), count)
    return [
        first_s * (here - slept)
        + slope * (a - b - sleep_s * slept)
        + resume_s * slept
        - (b - c)
        + slept * back_s
        + here * follower_s
        for here, slept, a, b, c in zip(s0, s1, a0, a1, a2, strict=True)
    ]
