"""`headway service`: the model servers."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.ask import Group, Session, json_flag, pass_session, quiet_flag, show_json, tell
from headway.cli.service_verbs import VERBS
from headway.cli.show import described
from headway.cli.tables import age, none, sized, state, table
from headway.cli.watching import watch_flag
from headway.client import segment


@click.group(cls=Group)
def service() -> None:
    """Model servers behind the gate: what they do, and bringing them or putting them aside."""


for verb in VERBS:
    service.add_command(verb)


@service.command("ls")
@click.option("--others", is_flag=True, help="Model servers on this machine that Headway does not manage.")
@quiet_flag
@json_flag
@pass_session
@watch_flag
def ls(session: Session, others: bool, quiet: bool, as_json: bool) -> None:
    """List them."""
    if others:
        _others(session.client().get("/api/v1/servers"), as_json)
        return
    rows = session.client().get("/api/v1/services")
    if as_json:
        show_json(rows)
        return
    if quiet:
        for row in rows:
            click.echo(row["id"])
        return
    if not rows:
        none("no services: [service.NAME] in the config, or `headway init`, makes them")
        return
    table(
        ("NAME", "STATE", "FOR", "MEMORY", "IN FLIGHT", "WAITING", "WHY"),
        [
            (
                row["name"],
                state(row["state"]),
                age(row["in_state_s"]),
                sized(row["counted_bytes"]),
                row["active"],
                row["waiting"],
                row["why"],
            )
            for row in rows
        ],
        state_at=1,
    )


def _others(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        show_json(rows)
    elif rows:
        table(
            ("KIND", "URL", "MODELS"), [(row["kind"], row["url"], ", ".join(row["models"])) for row in rows]
        )
    else:
        tell("No model server was found that Headway does not manage.")


@service.command("show")
@click.argument("name")
@json_flag
@pass_session
def show(session: Session, name: str, as_json: bool) -> None:
    """Show one."""
    row = session.client().get(f"/api/v1/services/{segment(name)}")
    if as_json:
        show_json(row)
    else:
        described(row)
