"""`headway move`: the order of the line by hand."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.ask import Session, json_flag, pass_session, quiet_flag, show_json, tell
from headway.cli.groups import members
from headway.cli.tables import line
from headway.client import segment


@click.command()
@click.argument("targets", metavar="ID...", nargs=-1, required=True)
@click.option("--top", is_flag=True, help="To the front of the line.")
@click.option("--bottom", is_flag=True, help="To its end.")
@click.option("--before", metavar="ID", help="Right before that job.")
@click.option("--after", metavar="ID", help="Right after that job.")
@click.option("-n", "--dry-run", is_flag=True, help="Only say which jobs are meant; change nothing.")
@quiet_flag
@json_flag
@pass_session
def move(
    session: Session,
    targets: tuple[str, ...],
    top: bool,
    bottom: bool,
    before: str | None,
    after: str | None,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Move queued jobs in the line. Several keep the order in which you name them.

    Each ID is an id, a name, or a group such as tag=eval, which keeps its own order.
    """
    if sum((top, bottom, before is not None, after is not None)) != 1:
        raise click.UsageError("give one of --top, --bottom, --before ID, --after ID.")
    where = "top" if top else "bottom" if bottom else "before" if before else "after"
    client = session.client()
    ids = members(client, targets)
    body: dict[str, Any] = {"target": ids, "where": where}
    if other := before or after:
        body["other"] = other
    if dry_run:
        for hid in ids:
            row = client.get(f"/api/v1/jobs/{segment(hid)}")
            line(f"{row['id']} {row['name']}")
        tell(f"`move` would be done with {len(ids)} of them; nothing was changed.")
        return
    reply = client.post("/api/v1/queue/move", body)
    if as_json:
        show_json(reply)
        return
    for target in ids:
        if quiet:
            click.echo(target)
            continue
        row = client.get(f"/api/v1/jobs/{segment(target)}")
        number = row["position"]
        place = (
            f"number {number} in line" if number else f"{row['state']}; it has that place once it is released"
        )
        line(f"{row['id']} {row['name']}: {place}")
