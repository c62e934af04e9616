"""`headway mode`: watch only, or act."""

from __future__ import annotations

import click

from headway.cli.ask import Session, json_flag, pass_session, show_json
from headway.cli.tables import line, mode_said


@click.command()
@click.argument("mode", required=False, type=click.Choice(["shadow", "live"]))
@json_flag
@pass_session
def mode(session: Session, mode: str | None, as_json: bool) -> None:
    """Show the mode, or change it: `shadow` says what it would do, `live` does it."""
    client = session.client()
    reply = client.post("/api/v1/mode", {"mode": mode}) if mode else None
    found = client.get("/api/v1/status", queued=0)
    if as_json:
        show_json(reply or {"mode": found["mode"], "mode_by": found["mode_by"]})
    else:
        line(f"mode is {mode_said(found)}")
