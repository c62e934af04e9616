"""What a batch adds to its days, and the days themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from headway.core.answers import logged, read_line
from headway.core.model import Event
from headway.core.past import DayRow, is_swap
from headway.ports import Batch, RequestLine
from headway.store import tables
from headway.store.sound import is_day, is_number

Sums = Counter[tuple[str, str]]  # (day, name) -> how much
A_DAY = "[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9]"
NAMES = frozenset(field.name for field in fields(DayRow)) - {"day"}
MOVED: Mapping[str, str] = {
    "release.verified": "put_aside",
    "move.done": "brought_back",
    "move.failed": "failed_moves",
}


def added(batch: Batch, lines: Iterable[RequestLine]) -> list[dict[str, Any]]:
    """Rows for ADD_DAY, in the transaction that saves the batch. `lines` are those of it that were not there yet."""
    sums: Sums = Counter()
    for event, wall_s in batch.events:
        _event(sums, event, wall_s)
    _requests(sums, lines)
    for wall_s, name, gpu_s in batch.given:
        _add(sums, wall_s, name, gpu_s)
    return [{"day": day, "name": name, "n": n} for (day, name), n in sums.items()]


def read(db: Connection, days: int) -> list[DayRow]:
    """The last so many of which anything is known, oldest first. What is damaged is left out."""
    day = tables.day.c.day
    newest = select(day).where(day.op("GLOB")(A_DAY)).distinct().order_by(day.desc()).limit(days)
    found: dict[str, dict[str, float]] = {}
    for row in db.execute(select(tables.day).where(day.in_(newest)).order_by(day)):
        if is_day(row.day) and row.name in NAMES and is_number(row.n):
            found.setdefault(row.day, {})[row.name] = row.n
    return [DayRow(day=name, **sums) for name, sums in found.items()]


def _event(sums: Sums, event: Event, wall_s: float) -> None:
    if is_swap(event.code, event.facts):
        _add(sums, wall_s, MOVED[event.code], 1.0)


def _requests(sums: Sums, lines: Iterable[RequestLine]) -> None:
    """As the ledger of the gap policy counts them: see core/history.py."""
    for line in lines:
        row = read_line(line.doc)
        one = logged(row) if row is not None else None
        if one is None or one.sent_after_s is None or (one.window == "slow_wake" and one.waited_s):
            continue
        _add(sums, one.wall_s, "requests", 1.0)
        if one.waited_s:
            _add(sums, one.wall_s, "waited", 1.0)
            _add(sums, one.wall_s, "waited_s", one.waited_s)


def _add(sums: Sums, wall_s: float, name: str, n: float) -> None:
    try:
        day = datetime.fromtimestamp(wall_s).date().isoformat()
    except (OverflowError, ValueError, OSError):  # no time that a calendar has: a line may say anything
        return
    sums[day, name] += n  # type: ignore[assignment]
