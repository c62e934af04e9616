"""History as people look through it: which rows they ask for, moves of model servers, and days. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headway.core.model import HolderId, Snapshot
from headway.core.phrases import fill, told
from headway.core.tellings import because
from headway.core.wording import Facts, count, phrase

NEWEST: Final = 2**63 - 1  # an id above all: what is before it are the last ones
MODEL_FORMS: Final = frozenset({"awake", "asleep"})  # only model servers have these
MOVES: Final = ("move.done", "release.verified", "move.failed")
FAILED: Final = "move.failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Rows of history that somebody asks for: the first `limit` above the id `after`; the last ones with `before`.

    Attributes:
        before: only those below this id.
        about: only rows of that holder; None: of all.
        codes: only these events; empty: all.
        failed: only what failed.
    """

    after: int = 0
    before: int | None = None
    limit: int = 200
    about: HolderId | None = None
    codes: tuple[str, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DayRow:
    """What came together in one day of the machine's own calendar."""

    day: str  # 2026-05-31
    job_gpu_s: float = 0.0  # seconds that jobs had devices, times how many
    lease_gpu_s: float = 0.0
    requests: float = (
        0.0  # attended ones that were sent to a model server, but for those that a slow_wake window held
    )
    waited: float = 0.0  # of these, for their model
    waited_s: float = 0.0  # together
    put_aside: float = 0.0  # moves of model servers: to sleep, or stopped
    brought_back: float = 0.0  # woken, or started
    failed_moves: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapRow:
    """One move of a model server that is over."""

    id: int
    wall_s: float  # when it was over; seconds since the epoch
    service: str | None
    source: str | None  # the form it came from
    to: str | None
    took_s: float | None
    failed: bool
    cause: str | None  # whom it was for, or the code of the reason; None: it was woken or started
    why: str


ASIDE: Final = phrase("{because}", "for {cause}", "why is not known", derive=because)


def _asked(facts: Facts) -> Facts:
    waiting = facts.get("waiting")
    idle = {"idle": "nobody else had a use for its memory"} if waiting == 0 else {}
    return {**count("waiting", "request waited", "requests waited")(facts), **idle}


BACK: Final = phrase(
    "{called_by} asked for it", "{waiting_words} for it", "{idle}", "why is not known", derive=_asked
)


def is_swap(code: str, facts: Mapping[str, Any]) -> bool:
    """Is that event the end of a move of a model server?"""
    return code in MOVES and "source" in facts and bool(MODEL_FORMS & {facts.get("form"), facts["source"]})


def swap_row(row: Mapping[str, Any], s: Snapshot) -> SwapRow:
    """Of a row of the audit. What of it is damaged is None."""
    facts: Mapping[str, Any] = row["facts"] or {}
    failed = row["code"] == FAILED
    if failed:
        why = told(FAILED, None, facts, s)
    else:
        why = fill(ASIDE if row["code"] == "release.verified" else BACK, facts, s)
    return SwapRow(
        id=row["id"],
        wall_s=row["wall_s"],
        service=row["holder"],
        source=_text(facts.get("source")),
        to=_text(facts.get("form")),
        took_s=took_s if isinstance(took_s := facts.get("took_s"), int | float) else None,
        failed=failed,
        cause=_text(facts.get("cause")),
        why=why,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
