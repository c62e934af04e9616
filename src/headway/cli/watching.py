"""The same look again and again: `headway top`, and `-w` of what shows something."""

from __future__ import annotations

import functools
import io
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TypeVar

import click

from headway.cli.tables import line
from headway.errors import DaemonAway

OTHER_SCREEN, BACK = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # without a cursor, and back
HOME, TO_END_OF_LINE, TO_END = "\x1b[H", "\x1b[K", "\x1b[J"
EVERY_S = 1.0
LEAVE = b"qQ"
F = TypeVar("F", bound=Callable[..., Any])


def watch_flag(function: F) -> F:
    """`-w`. With --json each look is one line. Stands right above the function."""

    @functools.wraps(function)
    def run(*args: Any, watch: bool, **given: Any) -> Any:
        if not watch:
            return function(*args, **given)
        return again(lambda: function(*args, **given), plain=bool(given.get("as_json")))

    option = click.option(
        "-w",
        "--watch",
        is_flag=True,
        help="Show it again every second, until Ctrl-C or q. With --json: one per line.",
    )
    return option(run)  # type: ignore[return-value]


def again(
    look: Callable[[], object], every_s: float = EVERY_S, rounds: int | None = None, plain: bool = False
) -> None:
    """Look every `every_s` seconds, `rounds` times (None: until Ctrl-C or q), on a terminal on a screen of its own.

    A daemon that is being started again comes back: on a terminal it is waited for.

    Args:
        plain: for programs: nothing but what `look` prints.
    """
    live = sys.stdout.isatty() and not plain
    with _screen(live), _keys(live) as leaves:
        done = 0
        while True:
            if live:
                _drawn(look)
            else:
                look()
                if not plain:
                    line()
            done += 1
            if done == rounds or leaves(every_s):
                return


class _Sheet(io.StringIO):
    """What one look prints, for a terminal as wide as the real one."""

    def __init__(self, terminal: int) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._terminal


def _drawn(look: Callable[[], object]) -> None:
    """One look over the one before, without a blank screen in between, and no more rows than there are."""
    sheet = _Sheet(sys.stdout.fileno())
    with redirect_stdout(sheet):
        try:
            look()
        except DaemonAway as error:
            line(f"{error} Trying again.")
    columns, rows = os.get_terminal_size(sheet.fileno())
    lines = fitting(sheet.getvalue().splitlines(), columns or 80, rows or 24)
    click.echo(HOME + "\n".join(one + TO_END_OF_LINE for one in lines) + TO_END, nl=False, color=True)


def fitting(lines: list[str], columns: int, rows: int) -> list[str]:
    """As many lines as fit, and in the last row how many are left out. A line may be wider than the terminal."""
    heights = [max(1, -(-len(click.unstyle(one)) // columns)) for one in lines]
    if sum(heights) <= rows:
        return lines
    kept = 0
    while kept < len(lines) and sum(heights[: kept + 1]) < rows:
        kept += 1
    return [*lines[:kept], f"... and {len(lines) - kept} more lines: the terminal is too low"]


@contextmanager
def _screen(live: bool) -> Iterator[None]:
    """A screen of its own on a terminal; Ctrl-C is how one leaves."""
    if live:
        click.echo(OTHER_SCREEN, nl=False)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        if live:
            click.echo(BACK, nl=False)


@contextmanager
def _keys(live: bool) -> Iterator[Callable[[float], bool]]:
    """What waits so many seconds, and says whether somebody typed q. Keys are not shown meanwhile."""
    try:
        keyboard = sys.stdin.fileno()
        heard = live and os.isatty(keyboard) and os.tcgetpgrp(keyboard) == os.getpgrp()
    except (OSError, ValueError, AttributeError):  # there is no standard input
        heard = False
    if not heard:
        yield _wait
        return
    import termios  # not on every system, and only one that has it comes here
    import tty

    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard, termios.TCSANOW)
    try:
        yield lambda seconds: _typed(keyboard, seconds)
    finally:
        termios.tcsetattr(keyboard, termios.TCSANOW, before)


def _wait(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _typed(keyboard: int, seconds: float) -> bool:
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
        if not select.select([keyboard], [], [], left_s)[0]:
            return False
        keys = os.read(keyboard, 64)
        if not keys or any(key in keys for key in LEAVE):  # nothing: the terminal is gone
            return True
    return False
