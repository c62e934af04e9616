"""How often somebody may be wrong."""

from __future__ import annotations

from headway.errors import HeadwayError

FREE_TRIES = 5
WAIT_MIN_S, WAIT_MAX_S = 60.0, 3600.0


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
