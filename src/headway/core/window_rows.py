"""What people see of windows. Made for view.py; pure."""

from __future__ import annotations

from dataclasses import replace

from headway.core.model import Snapshot
from headway.core.rows import WindowRow
from headway.core.windows import is_open


def window_rows(s: Snapshot) -> tuple[WindowRow, ...]:
    """Windows that are open, then those that come, each by its time."""
    shown = (w for w in s.windows if w.stopped_by is None or is_open(replace(w, stopped_by=None), s.now_s))
    return tuple(
        WindowRow(
            id=w.id,
            kind=w.kind,
            services=w.services,
            state="stopped" if w.stopped_by else "open" if is_open(w, s.now_s) else "next",
            begins_in_s=max(0.0, w.begin_s - s.now_s),
            ends_in_s=w.end_s - s.now_s,
            ends_wall_s=w.end_wall_s,
            by=w.by,
            stopped_by=w.stopped_by,
        )
        for w in sorted(shown, key=lambda w: (w.begin_s, w.id))
    )
