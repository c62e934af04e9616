"""The commands about windows: begin one by hand, and end one before its time."""

from __future__ import annotations

from dataclasses import replace

from headway.core.commands import Reply, StartWindow, StopWindow
from headway.core.draft import Draft
from headway.core.facts import WindowsDue
from headway.core.model import Window
from headway.core.replies import accepted, refused
from headway.core.windows import is_open

WINDOWS_MAX = 100


def start(d: Draft, command: StartWindow) -> Reply:
    """Open from now on. Its services must be known: a window over nobody would do nothing, and say nothing."""
    present = _windows(d)
    if missing := sorted(set(command.services) - d.services):
        return refused(d, "not_a_service", target=missing[0])
    if len(present) >= WINDOWS_MAX:
        return refused(d, "too_many_windows", limit=WINDOWS_MAX)
    number = int(d.other.get("next_window", d.base.next_window))
    window = Window(
        id=f"w{number}",
        kind=command.kind,
        services=tuple(sorted(set(command.services))),
        begin_s=d.now_s,
        end_s=d.now_s + command.for_s,
        end_wall_s=None if command.wall_s is None else command.wall_s + command.for_s,
        by=command.by,
    )
    d.set(next_window=number + 1, windows=(*present, window))
    d.event(
        "window.added",
        None,
        window=window.id,
        kind=window.kind,
        services=list(window.services),
        for_s=command.for_s,
        by=command.by,
    )
    return accepted(d, None, window=window.id, ends_in_s=command.for_s)


def stop(d: Draft, command: StopWindow) -> Reply:
    """Over now. One of the config comes again at its next time."""
    present = _windows(d)
    window = next((w for w in present if w.id == command.target), None)
    if window is None:
        return refused(d, "unknown_window", target=command.target)
    if not is_open(window, d.now_s):
        return refused(d, "window_not_open", target=command.target)
    over = replace(window, stopped_by=command.by)
    d.set(windows=tuple(over if w is window else w for w in present))
    d.event("window.stopped", None, window=window.id, kind=window.kind, by=command.by)
    return accepted(d, None, window=window.id, done=True)


def due(d: Draft, fact: WindowsDue) -> None:
    """The calendar as it is read now: what was said of one of its turns by hand stays said."""
    present = _windows(d)
    before: dict[tuple[str, str | None], Window] = {
        (w.id, w.occurs): w for w in present if w.occurs is not None
    }
    told = (
        replace(w, stopped_by=old.stopped_by) if (old := before.get((w.id, w.occurs))) is not None else w
        for w in fact.windows
    )
    by_hand = (
        replace(w, end_wall_s=fact.wall_s + w.end_s - d.now_s) if w.end_wall_s is not None else w
        for w in present
        if w.occurs is None
    )
    d.set(windows=(*by_hand, *sorted(told, key=lambda w: w.id)))


def _windows(d: Draft) -> tuple[Window, ...]:
    found: tuple[Window, ...] = d.other.get("windows", d.base.windows)
    return found
