"""Memory over time in SQL: rows are added to those that are there, and old ones go a few at a time."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Cursor

from sqlalchemy import Connection

from headway.core.model import DeviceId
from headway.core.samples import DEVICE, STEPS, Rollup, Series, Span

STEPS_AT_ONCE = (
    60  # an hour at most of what is old by a clock that is wrong for a moment, and some milliseconds
)

_PUT_SERIES = """
INSERT INTO series (device, kind, holder, name) VALUES (?, ?, ?, ?)
ON CONFLICT (device, kind, holder) DO UPDATE SET name = excluded.name WHERE name != excluded.name
"""
_ADD = f"""
INSERT INTO sample (step_s, device, at_s, series, looks, bytes, peak_bytes, busy)
SELECT ?, itself.id, ?, series.id, ?, ?, ?, ? FROM series itself, series
WHERE itself.device = ? AND itself.kind = '{DEVICE}' AND itself.holder = ''
AND series.device = itself.device AND series.kind = ? AND series.holder = ?
ON CONFLICT (step_s, device, at_s, series) DO UPDATE SET
looks = looks + excluded.looks, bytes = bytes + excluded.bytes,
peak_bytes = max(peak_bytes, excluded.peak_bytes), busy = busy + excluded.busy
"""
_PRUNE = """
DELETE FROM sample WHERE step_s = :step_s AND device = :device AND at_s < min(:before, :few +
(SELECT min(at_s) FROM sample WHERE step_s = :step_s AND device = :device))
"""
_READ = f"""
SELECT at_s, kind, holder, name, looks, bytes, peak_bytes, busy FROM (
    SELECT at_s / :width_s * :width_s AS at_s, series, sum(looks) AS looks, sum(bytes) AS bytes,
        max(peak_bytes) AS peak_bytes, sum(busy) AS busy
    FROM sample
    WHERE step_s = :step_s AND at_s >= :from_s AND at_s < :to_s
    AND device = (SELECT id FROM series WHERE device = :device AND kind = '{DEVICE}' AND holder = '')
    GROUP BY 1, 2
) JOIN series ON series.id = series
"""


def add(cursor: Cursor, rows: Sequence[Rollup]) -> None:
    """Put rows to those of the same series and moment, and drop some of those that are old by the newest of them.

    A row is added only where its device has one too.
    """
    named = {row.series: row.name for row in rows}
    cursor.executemany(_PUT_SERIES, [(s.device, s.kind, s.holder, name) for s, name in named.items()])
    cursor.executemany(
        _ADD,
        [
            (r.step_s, r.at_s, r.looks, r.bytes, r.peak_bytes, r.busy, s.device, s.kind, s.holder)
            for r in rows
            for s in (r.series,)
        ],
    )
    newest_s = max(row.at_s for row in rows)
    devices = cursor.execute(f"SELECT id FROM series WHERE kind = '{DEVICE}'").fetchall()
    old = [
        {"step_s": step_s, "device": device, "before": newest_s - kept_s, "few": STEPS_AT_ONCE * step_s}
        for step_s, kept_s in STEPS.items()
        if kept_s is not None
        for (device,) in devices
    ]
    cursor.executemany(_PRUNE, old)


def read(db: Connection, device: DeviceId, asked: Span) -> list[Rollup]:
    """One row for each series and bucket that has any."""
    words = {
        "device": device,
        "step_s": asked.step_s,
        "width_s": asked.width_s,
        "from_s": asked.from_s,
        "to_s": asked.to_s,
    }
    return [
        Rollup(
            series=Series(device, kind, holder),
            name=name,
            step_s=asked.width_s,
            at_s=at_s,
            looks=looks,
            bytes=bytes_,
            peak_bytes=peak_bytes,
            busy=busy,
        )
        for at_s, kind, holder, name, looks, bytes_, peak_bytes, busy in db.exec_driver_sql(_READ, words)
    ]
