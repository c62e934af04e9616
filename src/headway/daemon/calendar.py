"""Windows as people wrote them, by the wall clock, into instants of the daemon's clock, which never jumps."""

from __future__ import annotations

from collections.abc import Callable

from headway.core.facts import WindowsDue
from headway.core.model import Snapshot, Window
from headway.ports import Due

SLACK_S = 1.0  # clocks drift: a window is not told anew for less


def news(
    due: Callable[[float], tuple[Due, ...]], s: Snapshot, now_s: float, wall_s: float
) -> WindowsDue | None:
    """What changed of the calendar, or of the clock it is read by; None: nothing that matters."""
    found = tuple(_window(one, now_s, wall_s) for one in due(wall_s))
    known: dict[tuple[str, str | None], Window] = {
        (w.id, w.occurs): w for w in s.windows if w.occurs is not None
    }
    same = len(known) == len(found) and all(_same(known.get((w.id, w.occurs)), w) for w in found)
    told = all(
        w.end_wall_s is None or abs(w.end_wall_s - wall_s - (w.end_s - now_s)) < SLACK_S
        for w in s.windows
        if w.occurs is None
    )
    return None if same and told else WindowsDue(windows=found, wall_s=wall_s)


def _window(one: Due, now_s: float, wall_s: float) -> Window:
    return Window(
        id=one.id,
        kind=one.kind,
        services=one.services,
        begin_s=now_s + one.begin_wall_s - wall_s,
        end_s=now_s + one.end_wall_s - wall_s,
        end_wall_s=one.end_wall_s,
        occurs=f"{one.begin_wall_s:.0f}",
    )


def _same(known: Window | None, found: Window) -> bool:
    if known is None or (known.kind, known.services) != (found.kind, found.services):
        return False
    return abs(known.begin_s - found.begin_s) < SLACK_S and abs(known.end_s - found.end_s) < SLACK_S
