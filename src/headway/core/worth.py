"""Is a gap worth a swap: what it would win, what it would make people wait, and the best moment to begin.

Pure. Seconds everywhere. A swap puts a service to sleep, brings a job to the device, and undoes both when a request
comes; the price says how many seconds of job time one second of waiting must earn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, repeat
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

    def shares_on(self, shift_s: float, count: int) -> list[float]:
        """Share at the first `count` edges, each moved on by `shift_s`."""
        at = places(shift_s)
        places_ = zip(at.of(self.shares), at.shares[:count], at.of(self._slopes), strict=False)
        return [low + share * slope for low, share, slope in places_]

    def beyond_on(self, shift_s: float, count: int) -> list[float]:
        """Area beyond the first `count` edges, each moved on by `shift_s`."""
        at = places(shift_s)
        places_ = zip(
            at.of(self.beyond),
            at.into_s[:count],
            at.of(self.shares),
            at.bends_s,
            at.of(self._slopes),
            strict=False,
        )
        return [area - into_s * low - bend_s * slope for area, into_s, low, bend_s, slope in places_]


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
    begun = area.beyond_on(costs.swap_s(), count)
    gains = _gains(area, costs, begun)
    waits = _waits(area, costs, begun, follower_s)
    values = list(map(sub, gains, map(mul, waits, repeat(price))))
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


def _gains(area: Area, costs: Costs, begun: Sequence[float]) -> Sequence[float]:
    """Job time expected, per edge at which sleep begins. It never grows with the edge.

    Args:
        begun: the area beyond the edges, each moved on by a whole swap.
    """
    begun_s, every_s, count = costs.swap_s(), costs.saved_every_s, len(begun)
    if not every_s:
        return begun
    total = [0.0] * count
    for saves in range(1, EXACT_SAVES + 1):
        there = area.shares_on(begun_s + saves * every_s, count)
        total = [one + every_s * share for one, share in zip(total, there, strict=True)]
    # further saves: the sum of a slowly falling curve is its area less half a step
    left = area.beyond_on(begun_s + EXACT_SAVES * every_s, count)
    total = [
        one + max(0.0, rest - every_s / 2 * share)
        for one, rest, share in zip(total, left, there, strict=True)
    ]
    return list(accumulate(total, min))


def _waits(area: Area, costs: Costs, begun: Sequence[float], follower_s: float) -> list[float]:
    """Seconds that the request which ends the quiet waits, and those behind it; per edge at which sleep begins."""
    sleep_s, count = costs.sleep_s, len(begun)
    # who comes so far into sleep waits first_s + slope * so far
    if costs.abandons_sleep:
        first_s, slope = 0.0, costs.wake_s / sleep_s if sleep_s else 0.0
    else:
        first_s, slope = sleep_s + costs.wake_s, -1.0
    each_s = first_s + follower_s
    later_s = costs.resume_s + costs.back_s() - first_s - slope * sleep_s
    waits = [
        here * each_s + slept * later_s + slope * area_s + begun_s
        for here, slept, area_s, begun_s in zip(
            area.shares, area.shares_on(sleep_s, count), area.beyond, begun, strict=False
        )
    ]
    if slope == -1.0:
        return waits
    asleep = map(mul, area.beyond_on(sleep_s, count), repeat(1 + slope))
    return list(map(sub, waits, asleep))
