"""Every bound of the API, for people: what, how much, and what is answered beyond it."""

from __future__ import annotations

from headway.api import limits, once, sessions, tokens
from headway.api.door import BODY_MAX_BYTES, OPEN_BODY_MAX_BYTES
from headway.core import lease_wishes, window_wishes, wishes
from headway.core.samples import BUCKETS_MAX


def bounds() -> tuple[tuple[str, str, str], ...]:
    """(what, limit, what happens beyond it) of each."""
    rate = f"{limits.RATE_PER_S:.0f} a second, {limits.RATE_BURST:.0f} at once"
    tries = f"{limits.FREE_TRIES}, then one in {limits.WAIT_MIN_S:.0f} s, doubling up to {limits.WAIT_MAX_S:.0f} s"
    day = f"{once.KEPT_MAX}, for {once.KEPT_S / 3600:.0f} h"
    return (
        ("a body", f"{BODY_MAX_BYTES >> 20} MiB", "413 `too_large`"),
        ("a body where nobody is asked who it is", f"{OPEN_BODY_MAX_BYTES >> 10} KiB", "413 `too_large`"),
        ("requests of one caller over TCP", rate, "429 `too_fast`"),
        ("requests under way over TCP", str(limits.UNDER_WAY_MAX), "503 `busy`"),
        ("viewers of `/api/v1/events`", str(limits.VIEWERS_MAX), "503 `busy`"),
        ("wrong tokens, and wrong PINs", tries, "429 `too_many_tries`"),
        ("jobs that wait, held ones too", str(wishes.QUEUE_MAX), "429 `queue_full`"),
        ("leases that wait", str(lease_wishes.LINE_MAX), "429 `line_full`"),
        ("windows", str(window_wishes.WINDOWS_MAX), "409 `too_many_windows`"),
        ("tokens", str(tokens.TOKENS_MAX), "409 `too_many`"),
        ("sessions of pages", str(sessions.SESSIONS_MAX), "the oldest ends"),
        ("tickets of `headway open`", str(sessions.TICKETS_MAX), "the oldest ends"),
        ("parts of memory over time", str(BUCKETS_MAX), "they are wider"),
        ("answers to an `Idempotency-Key`", day, "the oldest is forgotten"),
    )
