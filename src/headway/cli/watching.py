"""The same look again and again: `headway top`, and `-w` of what shows something."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import click

from headway.cli.tables import line
from headway.errors import DaemonAway

OTHER_SCREEN, BACK = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # without a cursor, and back
CLEAR = "\x1b[2J\x1b[H"
EVERY_S = 1.0
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
        help="Show it again every second, until Ctrl-C. With --json: one per line.",
    )
    return option(run)  # type: ignore[return-value]


def again(
    look: Callable[[], object], every_s: float = EVERY_S, rounds: int | None = None, plain: bool = False
) -> None:
    """Look every `every_s` seconds, `rounds` times (None: until Ctrl-C), on a terminal on a screen of its own.

    A daemon that is being started again comes back: on a terminal it is waited for.

    Args:
        plain: for programs: nothing but what `look` prints.
    """
    live = sys.stdout.isatty() and not plain
    with _screen(live):
        done = 0
        while True:
            if live:
                click.echo(CLEAR, nl=False)
            try:
                look()
            except DaemonAway as error:
                if not live:
                    raise
                line(f"{error} Trying again.")
            if not live and not plain:
                line()
            done += 1
            if done == rounds:
                return
            time.sleep(every_s)


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
