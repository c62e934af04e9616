"""What can be expected of a service's requests, as the rules see it: made anew when something is learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.core.forecast import Quiet
from headway.core.ledger import Knobs, Waits

NONE = Waits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Of one service. Instants are of the daemon's clock.

    Attributes:
        at_s: when it was made.
        quiet: the chance that nobody asks from then on; None: somebody was being answered.
        price: seconds of job time that one second of waiting must earn.
        follower_s: what those behind the first request of a wake wait together.
        heard_s: end of the last attended request that the log told; None: it told none.
        lines: of the log, that this is made of.
        waits: of the last hour (whole hours and the one that runs), of 24, and of all time.
        hour: as of which they are, on the clock of the history.
        apart: all waits in slow_wake windows: they are charged to nobody.
        taken: of a model that is aside for a job: what was expected of that when it was put aside.
    """

    at_s: float
    quiet: Quiet | None
    price: float
    knobs: Knobs
    follower_s: float = 0.0
    heard_s: float | None = None
    lines: int = 0
    waits: tuple[Waits, Waits, Waits] = (NONE, NONE, NONE)
    hour: int = 0
    apart: Waits = NONE
    taken: Mapping[str, Any] = field(default_factory=dict)
