"""`headway window`: periods with other rules, opened by hand or by the config."""

from __future__ import annotations

import time
from typing import Any

import click

from headway.cli.ask import Group, Session, json_flag, pass_session, show_json
from headway.cli.duration import Duration
from headway.cli.tables import age, line, none, table
from headway.client import segment


@click.group(cls=Group)
def window() -> None:
    """Periods with other rules for some services.

    \b
    slow_wake  jobs may take a minute to step aside, and a model is put aside for them sooner
    no_model   the services are put aside, and requests for them are refused until its end
    """


@window.command("ls")
@json_flag
@pass_session
def ls(session: Session, as_json: bool) -> None:
    """List those that are open and those that come."""
    rows = session.client().get("/api/v1/windows")
    if as_json:
        show_json(rows)
    elif not rows:
        none("no windows: `headway window start` opens one")
    else:
        show(rows)


def show(rows: list[dict[str, Any]]) -> None:
    table(
        ("WINDOW", "KIND", "STATE", "BEGINS IN", "ENDS IN", "ENDS AT", "BY", "SERVICES"),
        [
            (
                row["id"],
                row["kind"],
                row["state"],
                age(row["begins_in_s"]) if row["state"] == "next" else "-",
                age(row["ends_in_s"]),
                clock(row["ends_wall_s"]),
                row["stopped_by"] or row["by"],
                ", ".join(row["services"]) or "all",
            )
            for row in rows
        ],
    )


def clock(wall_s: float | None) -> str:
    return "-" if wall_s is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(wall_s))


@window.command("start")
@click.argument("kind", type=click.Choice(["slow_wake", "no_model"]))
@click.argument("services", metavar="[SERVICE]...", nargs=-1)
@click.option("--for", "for_s", type=Duration(), required=True, help="How long, such as 2h or 90min.")
@json_flag
@pass_session
def start(session: Session, kind: str, services: tuple[str, ...], for_s: float, as_json: bool) -> None:
    """Open a window now, for the services named, or for all.

    \b
    headway window start no_model --for 2h chat
    """
    client = session.client()
    reply = client.post("/api/v1/windows", {"kind": kind, "for_s": for_s, "services": list(services)})
    if as_json:
        show_json(reply)
        return
    row = next((row for row in client.get("/api/v1/windows") if row["id"] == reply["id"]), None)
    until = f" until {clock(row['ends_wall_s'])}" if row else ""
    line(f"window {reply['id']} ({kind}) is open{until}; `headway window stop {reply['id']}` ends it")


@window.command("stop")
@click.argument("name", metavar="[WINDOW]", required=False)
@json_flag
@pass_session
def stop(session: Session, name: str | None, as_json: bool) -> None:
    """End an open window now; the one that is open if only one is."""
    client = session.client()
    if name is None:
        found = [row["id"] for row in client.get("/api/v1/windows") if row["state"] == "open"]
        if len(found) != 1:
            which = f"{', '.join(found)} are open: say which" if found else "no window is open"
            raise click.UsageError(f"{which}. `headway window ls` lists them.")
        name = found[0]
    reply = client.post(f"/api/v1/windows/{segment(name)}/stop")
    if as_json:
        show_json(reply)
    else:
        line(f"window {name} is over")
