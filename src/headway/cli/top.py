"""`headway top`: the board of `headway status`, again and again until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from headway.cli.ask import Session, pass_session
from headway.cli.status import show
from headway.cli.tables import line
from headway.errors import HeadwayError

OTHER_SCREEN, BACK = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # without a cursor, and back
CLEAR = "\x1b[2J\x1b[H"
QUEUED = 30


@click.command()
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.1, max=3600.0),
    default=1.0,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option(
    "-n", "rounds", type=click.IntRange(min=1), help="Look so often, then leave. Left out: until Ctrl-C."
)
@pass_session
def top(session: Session, every_s: float, rounds: int | None) -> None:
    """Show the board of `headway status` and keep it fresh. Ctrl-C leaves it."""
    live = sys.stdout.isatty()
    with _screen(live):
        done = 0
        while True:
            _draw(session, live)
            done += 1
            if done == rounds:
                return
            time.sleep(every_s)


def _draw(session: Session, live: bool) -> None:
    try:
        found = session.client().get("/api/v1/status", queued=QUEUED)
    except HeadwayError as error:  # a daemon that is being started again comes back
        if not live:
            raise
        click.echo(CLEAR, nl=False)
        line(f"{error} Trying again.")
        return
    if live:
        click.echo(CLEAR, nl=False)
    show(found)
    if not live:
        line()


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
