"""Text for terminals: columns that fit, colours where they are wanted, ages and sizes in words."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import click

from headway.core.units import duration, size

COLOURS = {
    "running": "green", "awake": "green", "done": "green", "live": "green",
    "starting": "cyan", "waking": "cyan", "resuming": "cyan", "parking": "cyan", "stopping": "cyan",
    "sleeping": "cyan", "draining": "cyan", "winding_down": "cyan",
    "granting": "cyan", "granted": "green", "counted": "green", "leaving": "cyan", "returning": "cyan",
    "waiting": "yellow", "overdue": "red",
    "queued": "yellow", "held": "yellow", "parked": "yellow", "frozen": "yellow", "shadow": "yellow",
    "failed": "red", "lost": "red", "cancelled": "red",
}  # fmt: skip
WIDTH = 80
LAST_MIN, NAME_MIN = (
    20,
    12,
)  # columns of a table that are left to its last column, and to a long one before it
STEERING = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")  # \n, \t and colours stay


def colours_wanted() -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def paint(text: str, word: str) -> str:
    """`text` in the colour of a state."""
    colour = COLOURS.get(word)
    return click.style(text, fg=colour) if colour and colours_wanted() else text


def line(text: str = "") -> None:
    """One line of data, colours kept: whether there are any was decided before."""
    click.echo(harmless(text), color=colours_wanted())


def harmless(text: str) -> str:
    """Texts come from programs too: what steers a terminal, beside colours, becomes a sign of its own."""
    return STEERING.sub("\ufffd", text)


def width() -> int | None:
    """Columns of the terminal; None when stdout is none, where nothing is cut."""
    if not sys.stdout.isatty():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH
    except OSError:
        return WIDTH


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], state_at: int | None = None) -> None:
    """Columns as wide as needed; the last one takes what is left of the terminal and is cut there.

    Where that would be too little, the widest of the others is cut too.

    Args:
        state_at: the column that holds a state word, for its colour.
    """
    cells = [[str(cell).replace("\n", " ") if cell is not None else "-" for cell in row] for row in rows]
    widths = [max(len(row[n]) for row in [list(head), *cells]) for n in range(len(head))]
    limit = width()
    room = None
    if limit is not None:
        left = limit - sum(widths[:-1]) - 2 * (len(head) - 1)
        if left < LAST_MIN and len(widths) > 1:
            widest = max(range(len(widths) - 1), key=lambda n: (n != state_at, widths[n]))
            widths[widest] = max(NAME_MIN, widths[widest] + left - LAST_MIN)
        room = max(LAST_MIN, limit - sum(widths[:-1]) - 2 * (len(head) - 1))
    for number, row in enumerate([list(head), *cells]):
        parts = [cut(cell, widths[n]).ljust(widths[n]) for n, cell in enumerate(row[:-1])]
        last = row[-1] if room is None else cut(row[-1], room)
        if number and state_at is not None:
            parts[state_at] = paint(parts[state_at], row[state_at])
        line("  ".join((*parts, last)).rstrip())


def whole_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The same for figures of what only its name tells apart: nothing is cut.

    Where the terminal is too narrow for that, each name stands in a line of its own, above its figures.
    """
    widths = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]
    limit = width()
    beside = limit is None or sum(widths) + 2 * (len(head) - 1) <= limit
    for name, *figures in (head, *rows):
        text = "  ".join(
            cell.ljust(columns) for cell, columns in zip(figures, widths[1:], strict=True)
        ).rstrip()
        if beside:
            line(f"{name:<{widths[0]}}  {text}")
        else:
            line(name)
            line(f"  {text}")


def none(words: str) -> None:
    """Says on a terminal that there is nothing to list; programs get nothing."""
    if sys.stdout.isatty():
        line(words)


def cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: columns - 1] + "…"


def age(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)


def sized(bytes_: int | None) -> str:
    return "unknown" if bytes_ is None else size(bytes_)


def state(word: str) -> str:
    return word.replace("_", " ")


def said(row: dict[str, Any]) -> str:
    """State and reason of a job or a service, the state once."""
    word = state(row["state"])
    if row["why"].startswith(word):
        return paint(word, row["state"]) + str(row["why"])[len(word) :]
    return f"{paint(word, row['state'])}: {row['why']}"


def prod_only_said(board: dict[str, Any]) -> str | None:
    """That only models run, and who said so; None while it is not so."""
    by = board.get("prod_only_by")
    return paint("prod only", "held") + f" is on, set by {by}: no job and no lease starts" if by else None


def queue_held_said(board: dict[str, Any]) -> str | None:
    """That no job starts, and who said so; None while the queue is not held."""
    by = board.get("queue_held_by")
    if not by:
        return None
    return f"the whole queue is {paint('held', 'held')} by {by}: no job starts until `headway queue release`"


def mode_said(board: dict[str, Any]) -> str:
    """The mode, and who set it where the config says the other one."""
    mode, by = board["mode"], board.get("mode_by")
    other = "live" if mode == "shadow" else "shadow"
    return paint(mode, mode) + (f" (set by {by}; the config says {other})" if by else "")
