"""`headway wait`: until jobs are over."""

from __future__ import annotations

import time
from typing import Any

import click

from headway.cli.ask import (
    AWAY_LIMIT_S,
    FAILED,
    LOOK_S,
    TIMED_OUT,
    Session,
    json_flag,
    pass_session,
    show_json,
    tell,
)
from headway.cli.groups import members
from headway.cli.tables import line, said
from headway.client import Client, segment
from headway.core.words import ENDED
from headway.errors import DaemonAway, Refused

WELL = ("done", "released", "gone")  # how jobs, leases and claims end as they should


@click.command()
@click.argument("targets", metavar="ID...", nargs=-1, required=True)
@click.option(
    "--timeout", "limit_s", type=click.FloatRange(min=0), metavar="SECONDS", help="Give up, with exit 124."
)
@json_flag
@pass_session
@click.pass_context
def wait(
    ctx: click.Context, session: Session, targets: tuple[str, ...], limit_s: float | None, as_json: bool
) -> None:
    """Wait until every ID, of jobs or leases, is over. Exit 0 if all ended well, else 1; 69 if no daemon answers.

    Each ID is an id, a name, or a group of jobs such as tag=eval: those that it has now.
    """
    client = session.client()
    deadline_s = None if limit_s is None else time.monotonic() + limit_s
    open_, rows = members(client, targets, ended=True), dict[str, dict[str, Any]]()
    away_since_s: float | None = None
    held: set[str] = set()  # told of already
    met = False  # one that is being restarted is waited for; where there never was one, that is the answer
    while open_:
        try:
            for target in list(open_):
                row = _look(client, target)
                if row["state"] == "held" and target not in held:
                    held.add(target)
                    tell(
                        f"{row['id']} {row['name']} is held: it starts only after `headway release {row['id']}`."
                    )
                if row["state"] in ENDED or row.get("ended"):
                    rows[target] = row
                    open_.remove(target)
                    if not as_json:
                        line(f"{row['id']} {row['name']}: {said(row)}")
            away_since_s, met = None, True
        except DaemonAway:
            if not met:
                raise
            if away_since_s is None:
                away_since_s = time.monotonic()
                tell("the daemon is away; waiting for the next one.")
            if time.monotonic() - away_since_s > AWAY_LIMIT_S:
                raise
        if open_ and deadline_s is not None and time.monotonic() >= deadline_s:
            tell(f"still not over: {', '.join(open_)}. `headway why {open_[0]}` says why.")
            ctx.exit(TIMED_OUT)
        if open_:
            time.sleep(LOOK_S)
    if as_json:
        show_json(list(rows.values()))
    if any((row.get("ended") or row["state"]) not in WELL for row in rows.values()):
        ctx.exit(FAILED)


def _look(client: Client, target: str) -> dict[str, Any]:
    row: dict[str, Any] = client.get(f"/api/v1/holders/{segment(target)}")
    if row["kind"] == "service":
        raise Refused("not_a_job", f"{target} is a service: it has no end to wait for.")
    return row
