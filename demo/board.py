"""The board: who holds the device and why. On a terminal it is drawn anew in place, else each change is a line.

The letter in front of a holder is its letter in the bar.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.core.units import duration, size

Row = Mapping[str, Any]

BAR = 48
NAME, STATE, BYTES = 7, 12, 8
WIDTH_S = 80
NEWEST = 6  # lines of the past that a terminal shows


@dataclass(frozen=True, slots=True)
class Counts:
    """What the headline says. `left_s` is None when the demo runs until Ctrl-C."""

    at_s: float
    left_s: float | None
    answered: int
    waiting: int
    swaps: int


def holders(status: Row) -> list[Row]:
    """Services first, then every job that is not over."""
    return [*status["services"], *status["running"], *status["queued"]]


def bar(device: Row) -> str:
    """The device's memory as a bar: each holder's share in the first letter of its name, `?` for others, `.` free.

    >>> share = {"name": "chat", "bytes": 12}
    >>> bar({"total_bytes": 24, "foreign_bytes": 6, "holders": [share]}).count("c")
    24
    """
    total = device["total_bytes"] or 1
    drawn = "".join(
        share["name"][0] * round(BAR * (share["bytes"] or 0) / total) for share in device["holders"]
    )
    drawn += "?" * round(BAR * device["foreign_bytes"] / total)
    return f"[{drawn[:BAR]:.<{BAR}}]"


def headline(counts: Counts) -> str:
    """Time, requests and swaps in one line."""
    left = "Ctrl-C ends it" if counts.left_s is None else f"{max(0.0, counts.left_s):.0f} s left"
    return (
        f"headway demo  {counts.at_s:.0f} s, {left}   "
        f"{counts.answered} requests answered, {counts.waiting} waiting   {counts.swaps} swaps"
    )


def holder_line(row: Row) -> str:
    """One holder: what it is doing, what it holds, and why."""
    held = "-" if row["bytes"] is None else size(row["bytes"])
    state = row["state"].replace("_", " ")
    return f"{row['name']:<{NAME}} {state:<{STATE}} {held:>{BYTES}}  {row['why']}"


def happened(event: Row, names: Mapping[str, str]) -> str:
    """One line of the past: the holder's name, once, and what happened to it. `names` is by id."""
    code, facts, name = event["code"], event["facts"], names.get(event["holder"], event["holder"])
    if code == "release.verified":
        return f"{name}: {facts['form']}, memory measured free after {duration(facts['took_s'])}"
    words = str(event["sentence"])
    for label in (f"{name} ({event['holder']}): ", f"{event['holder']}: "):
        words = words.removeprefix(label)
    return f"{name}: {words}"


def cut(line: str, width: int) -> str:
    """The line within `width` columns: shortened between two words, with a mark that it was.

    >>> cut("train: stopped, memory measured free", 24), cut("short", 24)
    ('train: stopped, memory …', 'short')
    """
    if len(line) <= width:
        return line
    head = line[: width - 1]
    kept = head.rpartition(" ")[0].rstrip()
    return f"{kept} …" if len(kept) > width // 2 else f"{head}…"


def board(status: Row, counts: Counts, newest: Sequence[str]) -> list[str]:
    """The whole picture, line by line."""
    shown = [headline(counts), ""]
    for device in status["devices"]:
        used = "unknown" if device["used_bytes"] is None else size(device["used_bytes"])
        shown += [f"{device['name']}  {bar(device)}  {used} of {size(device['total_bytes'] or 0)}", ""]
    shown += [f"{row['name'][0]} {holder_line(row)}" for row in holders(status)]
    shown += ["", *newest[-NEWEST:]]
    return [*shown, *[""] * (NEWEST - len(newest))]


class Screen:
    """Where the board is shown. `told` takes sentences of the past, such as `train: its memory is free`."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._drawn = 0
        self._past: list[str] = []
        self._states: dict[str, tuple[str, str]] = {}

    def told(self, at_s: float, sentence: str) -> None:
        """One line of the past."""
        line = f"{at_s:6.1f} s  {sentence}"
        self._past.append(line)
        if not self._live:
            print(line, flush=True)

    def show(self, status: Row, counts: Counts) -> None:
        """The state of now."""
        if self._live:
            self._draw(board(status, counts, self._past))
            return
        for row in holders(status):
            state = (row["state"], row["code"])
            if self._states.get(row["id"]) != state:
                self._states[row["id"]] = state
                print(f"{counts.at_s:6.1f} s  {holder_line(row)}", flush=True)

    def _draw(self, lines: list[str]) -> None:
        try:
            width = os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH_S
        except OSError:
            width = WIDTH_S
        up = f"\x1b[{self._drawn}A\r" if self._drawn else ""
        # cut to the width, so that no line wraps and the count of lines to go up stays true
        body = "".join(f"{cut(line, width - 1)}\x1b[K\n" for line in lines)
        sys.stdout.write(f"{up}{body}\x1b[J")
        sys.stdout.flush()
        self._drawn = len(lines)
