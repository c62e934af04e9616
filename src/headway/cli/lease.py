"""`headway lease`: leases and claims, those that hold devices and those that wait."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.ask import Group, Session, json_flag, pass_session, show_json
from headway.cli.duration import Duration
from headway.cli.tables import age, line, none, said, sized, state, table
from headway.cli.watching import watch_flag
from headway.client import Client, segment


@click.group(cls=Group)
def lease() -> None:
    """Leases of `headway run`, and claims: list them, give one back."""


@lease.command("ls")
@click.option("-a", "--all", "all_", is_flag=True, help="Also those that ended a moment ago.")
@click.option("-q", "--quiet", is_flag=True, help="Only ids.")
@json_flag
@pass_session
@watch_flag
def ls(session: Session, all_: bool, quiet: bool, as_json: bool) -> None:
    """List them: those that hold devices, then the line in its order."""
    rows = listed(session.client(), all_)
    if as_json:
        show_json(rows)
    elif quiet:
        for row in rows:
            click.echo(row["id"])
    elif not rows:
        none("no leases and no claims: `headway run` and `headway claim` make them")
    else:
        show_leases(rows)


@lease.command("release")
@click.argument("target", metavar="ID")
@json_flag
@pass_session
def release(session: Session, target: str, as_json: bool) -> None:
    """Give a lease back, or its place in line up, or count a claim no longer. Its program is not touched."""
    client = session.client()
    found = client.get(f"/api/v1/holders/{segment(target)}")
    kind = "claims" if found["kind"] == "claim" else "leases"
    path = f"/api/v1/{kind}/{segment(found['id'])}"
    reply = client.delete(path)
    if as_json:
        show_json(reply)
        return
    row = client.get(path)
    line(f"{row['id']} {row['name']}: {said(row)}")


@lease.command("renew")
@click.argument("target", metavar="ID")
@click.option("--ttl", "ttl_s", type=Duration(), help="From now.  [default: as it was asked for]")
@json_flag
@pass_session
def renew(session: Session, target: str, ttl_s: float | None, as_json: bool) -> None:
    """Give a lease its whole time once more, from now on."""
    client = session.client()
    path = f"/api/v1/leases/{segment(target)}"
    body = {"ttl_s": ttl_s} if ttl_s is not None else {}
    reply = client.post(f"{path}/renew", body)
    if as_json:
        show_json(reply)
        return
    row = client.get(path)
    line(f"{row['id']} {row['name']}: {said(row)}")


def listed(client: Client, ended: bool) -> list[dict[str, Any]]:
    """Both kinds."""
    wanted = str(ended).lower()
    return [row for kind in ("leases", "claims") for row in client.get(f"/api/v1/{kind}", ended=wanted)]


def show_leases(rows: list[dict[str, Any]]) -> None:
    """As a table."""
    table(
        ("LEASE", "NAME", "STATE", "LINE", "FOR", "NEEDS", "WHY"),
        [
            (
                row["id"],
                row["name"],
                state(row["state"]),
                row["position"],
                age(row["in_state_s"]),
                "alone"
                if row["need_bytes"] is None
                else sized(row["need_bytes"])
                if row["need_bytes"]
                else None,
                row["why"],
            )
            for row in rows
        ],
        state_at=2,
    )
