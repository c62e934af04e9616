"""`headway move`: the order of the line by hand."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.ask import Session, json_flag, pass_session, show_json
from headway.cli.tables import line
from headway.client import segment


@click.command()
@click.argument("targets", metavar="ID...", nargs=-1, required=True)
@click.option("--top", is_flag=True, help="To the front of the line.")
@click.option("--bottom", is_flag=True, help="To its end.")
@click.option("--before", metavar="ID", help="Right before that job.")
@click.option("--after", metavar="ID", help="Right after that job.")
@json_flag
@pass_session
def move(
    session: Session,
    targets: tuple[str, ...],
    top: bool,
    bottom: bool,
    before: str | None,
    after: str | None,
    as_json: bool,
) -> None:
    """Move queued jobs in the line. Several keep the order in which you name them."""
    if sum((top, bottom, before is not None, after is not None)) != 1:
        raise click.UsageError("give one of --top, --bottom, --before ID, --after ID.")
    where = "top" if top else "bottom" if bottom else "before" if before else "after"
    body: dict[str, Any] = {"target": list(targets), "where": where}
    if other := before or after:
        body["other"] = other
    client = session.client()
    reply = client.post("/api/v1/queue/move", body)
    if as_json:
        show_json(reply)
        return
    for target in targets:
        row = client.get(f"/api/v1/jobs/{segment(target)}")
        number = row["position"]
        place = (
            f"number {number} in line" if number else f"{row['state']}; it has that place once it is released"
        )
        line(f"{row['id']} {row['name']}: {place}")
