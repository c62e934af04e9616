"""How much people waited, by the hour, and what a second of waiting costs because of it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from operator import sub
from typing import Any, Final

HOUR_S: Final = 3600.0
HOURS: Final = 24
DAY_S: Final = HOURS * HOUR_S
PART_S: Final = 600.0  # wakes that began so close together are told apart by nobody
PARTS: Final = int(DAY_S // PART_S)
KNOWN_HOURS: Final = 2 * HOURS  # one day does not tell how unlike days are
DAYS_KEPT: Final = 28  # of requests by the hour
LEAST_REQUESTS: Final = 100.0  # fewer in a day say little: a share is taken of so many
FIRST_REQUESTS: Final = (
    1000.0  # of the first ones a share is taken of so many: what is promised comes after them
)
SPREAD: Final = (
    0.5  # the least number of requests to come lies so far below the least seen, of its way to the mean
)
EASE: Final = 0.6  # of a cap; from there on the price rises
STEEPNESS: Final = 5.0  # at the cap it is e to this as high
FULL: Final = 1 + 1e-9  # all of a cap, and what rounding adds
CLOSED: Final = 1e6  # a price that no gap earns
FOLLOWERS_HALF_LIFE: Final = 50.0  # wakes
FOLLOWERS_SHARE: Final = 1 - 2 ** (-1 / FOLLOWERS_HALF_LIFE)  # of the newest


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """What people set."""

    wait_price: float = 4.0  # seconds of job time that one second of waiting must earn
    max_mean_wait_s: float = 1.0  # over all requests
    max_waiting_share: float = 0.15  # of the requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Requests of some time, and what they waited."""

    requests: float = 0.0
    waited: float = 0.0  # of them
    waited_s: float = 0.0  # together

    @property
    def share(self) -> float:
        return self.waited / self.requests if self.requests else 0.0

    @property
    def mean_s(self) -> float:
        return self.waited_s / self.requests if self.requests else 0.0


Part = tuple[float, float, float, float]  # an instant; requests, waited, waited_s since ever
# what came before it: requests, less those sure to come in it, waited, waited_s; the least requests it counts as
Stretch = tuple[float, float, float, float]


class Ledger:
    """Counts requests and their waits. Instants are of one clock; one that comes late counts as one of the newest."""

    def __init__(self) -> None:
        self._hours: deque[list[float]] = deque()  # number of the hour, requests, waited, waited_s
        self._all = (0, 0, 0.0)
        self._parts: deque[Part] = (
            deque()
        )  # in which requests waited: when each began, and what had come before
        self._counts: deque[int] = deque(
            maxlen=DAYS_KEPT * HOURS
        )  # requests of each whole hour before the newest
        self._least: list[float] | None = None
        self._asked: tuple[int, list[Stretch]] | None = None  # stretches, and as of when
        self._now_s = -math.inf
        self._wake = [0, 0.0]  # requests that waited one after the other, and how long together
        self.followers = 0.0  # those behind the first one, per wake
        self.follower_s = 0.0  # what they wait together

    def count(self, at_s: float, waited_s: float) -> None:
        """One more request."""
        self._now_s = at_s = max(at_s, self._now_s)
        self._turn(math.floor(at_s / HOUR_S))
        if waited_s > 0:
            began_s, before = self._parts[-1][:2] if self._parts else (-math.inf, 0)
            if at_s >= began_s + PART_S or before < FIRST_REQUESTS <= self._all[0]:
                self._parts.append((at_s, *self._all))
                self._asked = None
            self._wake = [self._wake[0] + 1, self._wake[1] + waited_s]
        elif self._wake[0]:
            self.followers += FOLLOWERS_SHARE * (self._wake[0] - 1 - self.followers)
            self._wake = [0, 0.0]
        while self._parts and self._parts[0][0] <= at_s - DAY_S:
            self._parts.popleft()
        n, m, seconds = self._all
        self._all = (n + 1, m + (waited_s > 0), seconds + waited_s)
        row = self._hours[-1]
        row[1] += 1
        row[2] += waited_s > 0
        row[3] += waited_s

    def _turn(self, hour: int) -> None:
        """The newest hour is this one."""
        if self._hours:
            newest, requests = self._hours[-1][:2]
            if hour <= newest:
                return
            self._counts.append(int(requests))
            self._counts.extend([0] * min(int(hour - newest) - 1, DAYS_KEPT * HOURS))
            self._least = None
        self._hours.append([hour, 0.0, 0.0, 0.0])
        while self._hours[0][0] <= hour - HOURS - 1:
            self._hours.popleft()

    def woken(self, follower_s: float) -> None:
        """A wake is over, at which those behind the first request waited so long together."""
        self.follower_s += FOLLOWERS_SHARE * (follower_s - self.follower_s)

    def least(self) -> list[float]:
        """Per whole number of hours up to 24: as many requests will come in them, by what the last weeks were like.

        Fewer than ever came: the further the least lies below the mean, the further below it the next may lie. None,
        before two days are known.
        """
        if self._least is None:
            sums = [0, *accumulate(self._counts)]
            known = len(sums) - 1
            if known < KNOWN_HOURS:
                self._least = [0.0] * (HOURS + 1)
            else:
                mean = sums[-1] / known
                seen = [min(map(sub, sums[hours:], sums)) for hours in range(HOURS + 1)]
                self._least = [max(0.0, n - SPREAD * (mean * hours - n)) for hours, n in enumerate(seen)]
        return self._least

    def used(self, knobs: Knobs, now_s: float, *, alone: bool = False) -> float:
        """How much of the nearer cap is used, were the model to sleep and to wake with followers, or `alone`.

        Any 24 hours whose last waiting request is the one that ends this sleep began within the last 24 hours, with a
        request that waited. Of each of those the requests until now are known, and the least that will come.
        """
        behind, behind_s = (0.0, 0.0) if alone else (self.followers, self.follower_s)
        requests, waited, waited_s = self._all[0] + 1, self._all[1] + 1 + behind, self._all[2] + behind_s
        waited_s += self._lone_s()
        by_share, by_mean = 1 / knobs.max_waiting_share, 1 / knobs.max_mean_wait_s
        waited, waited_s, most = waited * by_share, waited_s * by_mean, 0.0
        for n_before, before, before_s, at_least in self._stretches(max(now_s, self._now_s)):
            n = requests - n_before
            m, seconds = waited - before * by_share, waited_s - before_s * by_mean
            of_cap = (m if m > seconds else seconds) / (n if n > at_least else at_least)
            if of_cap > most:
                most = of_cap
        return most

    def _stretches(self, now_s: float) -> list[Stretch]:
        """Those of less than 24 hours; made once for every `PART_S` of a clock, what is left of one rounded down."""
        newest = int(now_s // PART_S)
        if self._asked is None or self._asked[0] != newest:
            found: list[Stretch] = []
            least = self.least()
            for began_s, n, waited, waited_s in self._parts:
                left = int(began_s // PART_S) + PARTS - newest
                if left >= 0:
                    to_come = least[(left - 1) * HOURS // PARTS] if left else 0.0
                    at_least = FIRST_REQUESTS if n < FIRST_REQUESTS else LEAST_REQUESTS
                    found.append((n - to_come, waited, waited_s, at_least))
            self._asked = newest, found
        return self._asked[1]

    def _lone_s(self) -> float:
        """What the first request of a wake waits: as those of the last 24 hours did."""
        if not self._parts:
            return 0.0
        _, waited, waited_s = self._all
        _, _, before, before_s = self._parts[0]
        return (waited_s - before_s) / (waited - before)

    def over(self, now_s: float, hours: int) -> Waits:
        """The last hours, whole ones and the one that runs."""
        since = math.floor(now_s / HOUR_S) - hours
        requests = waited = waited_s = 0.0
        for hour, n, m, seconds in reversed(self._hours):
            if hour < since:
                break
            requests, waited, waited_s = requests + n, waited + m, waited_s + seconds
        return Waits(requests=requests, waited=waited, waited_s=waited_s)

    def waits(self, now_s: float) -> tuple[Waits, Waits, Waits]:
        """Of the last hour, of 24, and of all time."""
        return self.over(now_s, 1), self.over(now_s, HOURS), self.total()

    @property
    def newest_s(self) -> float:
        """When the newest request came; -inf: there was none."""
        return self._now_s

    def total(self) -> Waits:
        requests, waited, waited_s = self._all
        return Waits(requests=requests, waited=waited, waited_s=waited_s)

    def to_doc(self) -> dict[str, Any]:
        return {
            "hours": [list(one) for one in self._hours],
            "all": list(self._all),
            "newest_s": round(self._now_s, 3) if self._hours else None,
            "parts": [[round(at_s, 3), *before] for at_s, *before in self._parts],
            "counts": list(self._counts),
            "wake": list(self._wake),
            "followers": self.followers,
            "follower_s": self.follower_s,
        }

    @classmethod
    def from_doc(cls, doc: Mapping[str, Any]) -> Ledger:
        """What `to_doc` was made of."""
        made = cls()
        made._hours.extend(list(one) for one in doc["hours"])
        made._parts.extend((at_s, n, m, seconds) for at_s, n, m, seconds in doc["parts"])
        made._counts.extend(doc["counts"])
        made._all, made._wake = tuple(doc["all"]), list(doc["wake"])
        made.followers, made.follower_s = doc["followers"], doc["follower_s"]
        if doc["newest_s"] is not None:
            made._now_s = doc["newest_s"]
        return made


def price(knobs: Knobs, ledger: Ledger, now_s: float) -> float:
    """What a second of waiting costs now. The caps only ever raise it: smoothly, and beyond them no gap earns it."""
    most = ledger.used(knobs, now_s)
    if most > FULL and ledger.used(knobs, now_s, alone=True) > FULL:
        return max(CLOSED, knobs.wait_price)
    near = min(1.0, max(0.0, (most - EASE) / (1 - EASE)))
    return knobs.wait_price * math.exp(STEEPNESS * near)
