"""`headway mode`: watch only, or act. `headway prod-only`: models only."""

from __future__ import annotations

import click

from headway.cli.ask import Session, json_flag, pass_session, show_json
from headway.cli.tables import line, mode_said, prod_only_said


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


@click.command("prod-only")
@click.argument("word", metavar="[on|off]", required=False, type=click.Choice(["on", "off"]))
@json_flag
@pass_session
def prod_only(session: Session, word: str | None, as_json: bool) -> None:
    """Show whether only models run, or change it.

    `on`: every job steps aside, sleeping services are woken, leases run to their end, and nothing else starts until
    `headway prod-only off`.
    """
    client = session.client()
    reply = client.post("/api/v1/prod-only", {"on": word == "on"}) if word else None
    found = client.get("/api/v1/status", queued=0)
    if as_json:
        show_json(reply or {"prod_only_by": found["prod_only_by"]})
    else:
        line(prod_only_said(found) or "prod only is off: jobs and leases may start")
