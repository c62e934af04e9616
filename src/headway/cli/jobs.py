"""`headway ps`: the jobs, in the order they are served."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.ask import Session, json_flag, pass_session, show_json
from headway.cli.tables import age, none, state, table
from headway.cli.watching import watch_flag
from headway.core.words import JOB_STATES


@click.command()
@click.option("-a", "--all", "all_", is_flag=True, help="Also those that are over.")
@click.option(
    "-s",
    "--state",
    "states",
    multiple=True,
    type=click.Choice(JOB_STATES),
    help="Only in this state. May be repeated.",
)
@click.option(
    "--select",
    "select",
    metavar="GROUP",
    help="Only jobs like these: tag=eval, name=train*, or several with commas.",
)
@click.option(
    "-n", "limit", default=200, show_default=True, type=click.IntRange(1), help="At most this many."
)
@click.option("-q", "--quiet", is_flag=True, help="Only ids.")
@json_flag
@pass_session
@watch_flag
def ps(
    session: Session,
    all_: bool,
    states: tuple[str, ...],
    select: str | None,
    limit: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """List jobs: those that run, then the line in its order, then the held ones."""
    rows = pages(session, all_, states, limit, select)
    if as_json:
        show_json(rows)
    elif quiet:
        for row in rows:
            click.echo(row["id"])
    elif not rows:
        none("no jobs" if all_ else "no jobs that are not over: `headway ps -a` lists those that are")
    else:
        table(
            ("ID", "NAME", "STATE", "LINE", "RAN", "LEFT", "AGE", "WHY"),
            [
                (
                    row["id"],
                    row["name"],
                    state(row["state"]),
                    row["position"],
                    age(row["ran_s"]) if row["started"] else "-",
                    age(row["left_s"]),
                    age(row["age_s"]),
                    row["why"],
                )
                for row in rows
            ],
            state_at=2,
        )


def pages(
    session: Session, ended: bool, states: tuple[str, ...], limit: int, select: str | None = None
) -> list[dict[str, Any]]:
    """Page after page, until `limit` jobs."""
    client, rows, cursor = session.client(), list[dict[str, Any]](), None
    while len(rows) < limit:
        page = client.get(
            "/api/v1/jobs",
            state=list(states),
            ended=str(ended).lower(),
            after=cursor,
            select=select,
            limit=min(1000, limit - len(rows)),
        )
        rows += page["jobs"]
        cursor = page["next"]
        if cursor is None:
            break
    return rows
