"""What is compared: Headway's own policy, a fixed timeout, never, and one that knows the future."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from headway.core.forecast import Answer, Forecast
from headway.core.ledger import Knobs, Ledger, price
from headway.core.pauses import Table
from headway.core.worth import Costs, best_moment

DECISIONS_MAX = 50  # of one gap; the last one stands


class Policy(Protocol):
    """Says when a service goes to sleep; hears of each request and each wake."""

    name: str
    knobs: Mapping[str, float]

    def sleeps_after_s(self, quiet_from_s: float, gap_s: float) -> float | None:
        """Seconds of quiet after which it sleeps; None: not in this gap. `gap_s` is for one that knows the future."""

    def answered(self, answer: Answer, waited_s: float) -> None:
        """A request was answered, and had waited so long."""

    def woken(self, follower_s: float) -> None:
        """A wake is over; those behind the first request waited so long together."""


class Fixed:
    """Sleeps after a fixed quiet time; None: never."""

    def __init__(self, after_s: float | None) -> None:
        self.name = "never" if after_s is None else f"fixed:{after_s:g}"
        self.knobs: Mapping[str, float] = {} if after_s is None else {"after_s": after_s}
        self._after_s = after_s

    def sleeps_after_s(self, quiet_from_s: float, gap_s: float) -> float | None:
        return self._after_s

    def answered(self, answer: Answer, waited_s: float) -> None:
        pass

    def woken(self, follower_s: float) -> None:
        pass


class Clairvoyant(Fixed):
    """Sleeps at once in every gap that will be longer than a threshold: what no policy can reach."""

    def __init__(self, longer_s: float) -> None:
        super().__init__(0.0)
        self.name = f"clairvoyant:{longer_s:g}"
        self.knobs = {"longer_s": longer_s}
        self._longer_s = longer_s

    def sleeps_after_s(self, quiet_from_s: float, gap_s: float) -> float | None:
        return 0.0 if gap_s > self._longer_s else None


class WhoComesBack:
    """The daemon's own: `core.forecast` and `core.worth`."""

    def __init__(
        self,
        table: Table,
        costs: Costs,
        knobs: Knobs,
        *,
        name: str = "headway",
        capped: bool = True,
        gap_min_s: float = 0.0,
    ) -> None:
        """`capped` False: the price stands, whatever people waited. That is how a frontier is drawn.

        Args:
            gap_min_s: it never sleeps before so much quiet.
        """
        self.name = name
        self.knobs: Mapping[str, float] = {
            "wait_price": knobs.wait_price,
            "max_mean_wait": knobs.max_mean_wait_s,
            "max_waiting_share": knobs.max_waiting_share,
            "gap_min": gap_min_s,
        }
        self._costs, self._knobs, self._capped = costs, knobs, capped
        self._gap_min_s = gap_min_s
        self._forecast, self._ledger = Forecast(table), Ledger()
        self.decisions = 0
        self.decided_s = 0.0

    def knowing(self, other: WhoComesBack) -> WhoComesBack:
        """This one, beginning with what `other` learned of pauses."""
        self._forecast.pauses.restore(other._forecast.pauses.to_doc())
        return self

    def sleeps_after_s(self, quiet_from_s: float, gap_s: float) -> float | None:
        after_s = 0.0
        for _ in range(DECISIONS_MAX):
            began_s = time.thread_time()
            now_s = quiet_from_s + after_s
            moment = best_moment(
                self._forecast.quiet(now_s),
                self._costs,
                price(self._knobs, self._ledger, now_s) if self._capped else self._knobs.wait_price,
                self._ledger.follower_s,
            )
            self.decided_s += time.thread_time() - began_s
            self.decisions += 1
            if moment.after_s is None:
                return None
            if moment.now and after_s >= self._gap_min_s:
                return after_s
            # a moment that comes too soon is weighed again once the least quiet is over, as the daemon does it
            after_s = max(after_s + moment.after_s, self._gap_min_s)
            if after_s >= gap_s:
                return after_s
        return after_s

    def answered(self, answer: Answer, waited_s: float) -> None:
        self._ledger.count(answer.arrived_s, waited_s)
        self._forecast.learn(answer)

    def woken(self, follower_s: float) -> None:
        self._ledger.woken(follower_s)
