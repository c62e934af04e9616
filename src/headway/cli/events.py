"""`headway events`: the audit, and what is added to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click

from headway.cli.ask import AWAY_LIMIT_S, LOOK_S, Session, json_flag, pass_session, show_json
from headway.cli.tables import line
from headway.client import Client
from headway.errors import DaemonAway

PAGE = 1000


@click.command()
@click.argument("target", metavar="[ID]", required=False)
@click.option(
    "-n",
    "last",
    default=50,
    show_default=True,
    type=click.IntRange(0, PAGE),
    help="How many of the last ones.",
)
@click.option(
    "-f", "--follow", is_flag=True, help="Go on with new ones until Ctrl-C. With --json: one per line."
)
@json_flag
@pass_session
def events(session: Session, target: str | None, last: int, follow: bool, as_json: bool) -> None:
    """Print what happened, oldest first, with the measured times."""
    client = session.client()
    rows = client.get("/api/v1/history", target=target, last=max(1, last))
    seen = rows[-1]["id"] if rows else 0
    rows = rows[-last:] if last else []
    if as_json and not follow:
        show_json(rows)
        return
    for row in rows:
        _print(row, as_json)
    if follow:
        for row in _new(client, target, seen):
            _print(row, as_json)


def _new(client: Client, target: str | None, seen: int) -> Iterator[dict[str, Any]]:
    """Lines of the audit as they come: the event stream says when to look. A restarted daemon is found again.

    Raises:
        DaemonAway: it did not come back.
    """
    away_since_s = None
    while True:
        try:
            for _ in client.events():
                away_since_s = None
                while rows := client.get("/api/v1/history", target=target, after=seen, limit=PAGE):
                    yield from rows
                    seen = rows[-1]["id"]
        except DaemonAway:
            if away_since_s is not None and time.monotonic() - away_since_s > AWAY_LIMIT_S:
                raise
        away_since_s = time.monotonic() if away_since_s is None else away_since_s
        time.sleep(LOOK_S)


def _print(row: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(row)
        return
    wall_s = row.get("wall_s")
    clock = time.strftime("%m-%d %H:%M:%S", time.localtime(wall_s)) if wall_s is not None else "-" * 14
    line(f"{clock}  {row['code']:<20} {row['sentence']}")
