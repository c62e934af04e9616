"""`headway top`: the board of `headway status`, again and again until Ctrl-C or q."""

from __future__ import annotations

import click

from headway.cli.ask import Session, pass_session
from headway.cli.status import show, waiting
from headway.cli.watching import again
from headway.client import Client

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
    "-n", "rounds", type=click.IntRange(min=1), help="Leave after so many looks. Left out: with Ctrl-C or q."
)
@pass_session
def top(session: Session, every_s: float, rounds: int | None) -> None:
    """Show the board of `headway status` and keep it fresh. Ctrl-C or q leaves it."""
    again(lambda: _look(session.client()), every_s, rounds)


def _look(client: Client) -> None:
    found = client.get("/api/v1/status", queued=QUEUED)
    show(found, waiting(client, found))
