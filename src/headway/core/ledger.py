"""How much people waited, by the hour, and what a second of waiting costs because of it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

HOUR_S: Final = 3600.0
HOURS: Final = 24
HORIZONS: Final = (
    12,
    HOURS,
)  # a day's first half slides out of it: its second half alone is to keep the caps too
LEAST_REQUESTS: Final = 100.0  # fewer in a day say little: a share is taken of so many
EASE: Final = 0.9  # of a cap; from there on the price rises
STEEPNESS: Final = 6.0  # at the cap it is e to this as high
DEBT_MAX: Final = 1.5
FOLLOWERS_HALF_LIFE: Final = 50.0  # wakes


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


class Ledger:
    """Counts requests and their waits. Instants are of one clock; one that comes late counts for the newest hour."""

    def __init__(self) -> None:
        self._hours: deque[list[float]] = deque()  # number of the hour, requests, waited, waited_s
        self._all = [0.0, 0.0, 0.0]
        self.follower_s = 0.0  # what those behind the first one wait together, per wake

    def count(self, at_s: float, waited_s: float) -> None:
        """One more request."""
        hour = math.floor(at_s / HOUR_S)
        if not self._hours or hour > self._hours[-1][0]:
            self._hours.append([hour, 0.0, 0.0, 0.0])
            while self._hours[0][0] <= hour - HOURS - 1:
                self._hours.popleft()
        for row, at in ((self._hours[-1], 1), (self._all, 0)):
            row[at] += 1
            row[at + 1] += waited_s > 0
            row[at + 2] += waited_s

    def woken(self, follower_s: float) -> None:
        """A wake is over, at which those behind the first request waited so long together."""
        self.follower_s += (1 - 2 ** (-1 / FOLLOWERS_HALF_LIFE)) * (follower_s - self.follower_s)

    def over(self, now_s: float, hours: int) -> Waits:
        """The last hours, whole ones and the one that runs."""
        since = math.floor(now_s / HOUR_S) - hours
        requests = waited = waited_s = 0.0
        for hour, n, m, seconds in reversed(self._hours):
            if hour < since:
                break
            requests, waited, waited_s = requests + n, waited + m, waited_s + seconds
        return Waits(requests=requests, waited=waited, waited_s=waited_s)

    def total(self) -> Waits:
        requests, waited, waited_s = self._all
        return Waits(requests=requests, waited=waited, waited_s=waited_s)

    def to_doc(self) -> dict[str, Any]:
        return {"hours": [list(one) for one in self._hours], "all": self._all, "follower_s": self.follower_s}

    @classmethod
    def from_doc(cls, doc: Mapping[str, Any]) -> Ledger:
        """What `to_doc` was made of."""
        made = cls()
        made._hours.extend(list(one) for one in doc["hours"])
        made._all, made.follower_s = list(doc["all"]), doc["follower_s"]
        return made


def debt(knobs: Knobs, ledger: Ledger, now_s: float) -> float:
    """How far waiting is into what is left of the caps: 0 up to 90 % of them, 1 at the nearer one."""
    used = 0.0
    for hours in HORIZONS:
        waits = ledger.over(now_s, hours)
        requests = max(waits.requests, LEAST_REQUESTS)
        share, mean_s = waits.waited / requests, waits.waited_s / requests
        used = max(used, share / knobs.max_waiting_share, mean_s / knobs.max_mean_wait_s)
    return min(DEBT_MAX, max(0.0, (used - EASE) / (1 - EASE)))


def price(knobs: Knobs, ledger: Ledger, now_s: float) -> float:
    """What a second of waiting costs now. The caps only ever raise it."""
    return knobs.wait_price * math.exp(STEEPNESS * debt(knobs, ledger, now_s))
