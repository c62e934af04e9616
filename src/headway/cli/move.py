"""`headway move`: the order of the line by hand."""

from __future__ import annotations

import click

from headway.cli.ask import Session, json_flag, pass_session, show_json
from headway.cli.tables import line
from headway.client import segment


@click.command()
@click.argument("target", metavar="ID")
@click.option("--top", is_flag=True, help="To the front of the line.")
@click.option("--bottom", is_flag=True, help="To its end.")
@click.option("--before", metavar="ID", help="Right before that job.")
@click.option("--after", metavar="ID", help="Right after that job.")
@json_flag
@pass_session
def move(
    session: Session,
    target: str,
    top: bool,
    bottom: bool,
    before: str | None,
    after: str | None,
    as_json: bool,
) -> None:
    """Move a queued job in the line."""
    if sum((top, bottom, before is not None, after is not None)) != 1:
        raise click.UsageError("give one of --top, --bottom, --before ID, --after ID.")
    where = "top" if top else "bottom" if bottom else "before" if before else "after"
    body = {"target": target, "where": where}
    if other := before or after:
        body["other"] = other
    client = session.client()
    reply = client.post("/api/v1/queue/move", body)
    if as_json:
        show_json(reply)
        return
    row = client.get(f"/api/v1/jobs/{segment(reply['id'])}")
    number = row["position"]
    place = f"number {number} in line" if number else f"{row['state']}; it has that place once it is released"
    line(f"{row['id']} {row['name']}: {place}")
