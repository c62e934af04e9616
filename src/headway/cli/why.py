"""`headway why`: one sentence with numbers."""

from __future__ import annotations

import click

from headway.cli.ask import Session, json_flag, pass_session, show_json
from headway.cli.tables import line
from headway.cli.watching import watch_flag
from headway.client import segment


@click.command()
@click.argument("target", metavar="ID")
@json_flag
@pass_session
@watch_flag
def why(session: Session, target: str, as_json: bool) -> None:
    """Say why a job, service or lease is, or is not, running, and what would help."""
    found = session.client().get(f"/api/v1/why/{segment(target)}")
    if as_json:
        show_json(found)
        return
    line(found["sentence"])
    if lines := found["facts"].get("lines"):
        line("the last lines of its log:")
        for one in lines:
            line(f"  {one}")
    if found["help"]:
        line(f"what helps: {found['help']}")
