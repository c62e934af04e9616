"""How often somebody may ask, and how often be wrong."""

from __future__ import annotations

from headway.errors import HeadwayError

FREE_TRIES = 5
WAIT_MIN_S, WAIT_MAX_S = 60.0, 3600.0


RATE_PER_S, RATE_BURST = 200.0, 2000.0
CALLERS_MAX = 4096
UNDER_WAY_MAX = 1000
VIEWERS_MAX = 100


class TooFast(HeadwayError):
    code = "too_fast"
    http_status = 429

    def __init__(self, who: str, retry_after_s: float) -> None:
        super().__init__(
            f"{who} asks more than {RATE_PER_S:.0f} times a second. Wait a moment; `/api/v1/events` says what changes "
            "without being asked, and one POST to /api/v1/select means many jobs.",
            retry_after_s=round(retry_after_s, 3),
        )


class Busy(HeadwayError):
    """More at the same time than there is room for."""

    code = "busy"
    http_status = 503


class Rates:
    """So many requests of each caller a second, and some more at once."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}  # caller -> what it may ask at once, at that time

    def take(self, who: str, now_s: float) -> None:
        """Raises: TooFast."""
        left, at_s = self._left.get(who, (RATE_BURST, now_s))
        left = min(RATE_BURST, left + (now_s - at_s) * RATE_PER_S)
        if left < 1.0:
            raise TooFast(who, (1.0 - left) / RATE_PER_S)
        if len(self._left) >= CALLERS_MAX:  # tokens come and go: whoever is left out begins anew
            self._left.clear()
        self._left[who] = (left - 1.0, now_s)

    def forget(self) -> None:
        self._left.clear()


class TooMany(HeadwayError):
    code = "too_many_tries"
    http_status = 429

    def __init__(self, what: str, retry_after_s: float) -> None:
        super().__init__(
            f"{what} was wrong too often; the next try is looked at in {retry_after_s:.0f} s.",
            retry_after_s=round(retry_after_s, 1),
        )


class Tries:
    """Five wrong ones are free; then one a minute, and each further wrong one doubles that, up to an hour.

    A try is counted when it begins, so that many at once are no way around the limit.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._wrong = 0
        self._until_s = float("-inf")

    def begin(self, now_s: float) -> None:
        """Raises: TooMany."""
        if now_s < self._until_s:
            raise TooMany(self._what, self._until_s - now_s)
        self._wrong += 1
        if self._wrong >= FREE_TRIES:
            self._until_s = now_s + min(WAIT_MAX_S, WAIT_MIN_S * 2.0 ** min(10, self._wrong - FREE_TRIES))

    def right(self) -> None:
        self._wrong, self._until_s = 0, float("-inf")
