"""`headway token`: who may ask over TCP and at the gate, and for what."""

from __future__ import annotations

import time

import click

from headway.cli.ask import Group, Session, json_flag, pass_session, show_json, tell
from headway.cli.tables import age, line, none, table
from headway.client import segment
from headway.core.units import parse_duration

SCOPES = ("read", "submit", "lease", "control", "exec", "admin")


@click.group(cls=Group)
def token() -> None:
    """Tokens for programs: what each may do, here and at the gate.

    Scopes: read (logs and results too), submit (recipes), lease, control (every other change), exec (commands of the
    caller's own), admin (all of it, and tokens).
    """


def _seconds(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    try:
        return None if value is None else parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@token.command("create")
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), default=("read",), show_default=True,
              help="What it may do; give it several times.")  # fmt: skip
@click.option(
    "--expires", metavar="TIME", callback=_seconds, help='Such as "30d". Left out: until it is revoked.'
)
@click.option(
    "--class", "class_", type=click.Choice(["attended", "background"]), default="attended",
    help="The strongest class its requests to models may have.",
)  # fmt: skip
@click.option(
    "--priority-max", type=click.IntRange(0, 100), default=100, help="The highest priority of those requests."
)
@json_flag
@pass_session
def create(
    session: Session,
    name: str,
    scopes: tuple[str, ...],
    expires: float | None,
    class_: str,
    priority_max: int,
    as_json: bool,
) -> None:
    """Make one and print its secret, this once."""
    body = {
        "name": name,
        "scopes": list(scopes),
        "class": class_,
        "priority_max": priority_max,
        "expires_in_s": expires,
    }
    made = session.client().post("/api/v1/tokens", body)
    if as_json:
        show_json(made)
        return
    line(made["token"])
    tell(
        f"It may: {', '.join(scopes)}. Keep it now, it is not shown again. Send `Authorization: Bearer hw_...`."
    )


@token.command("list")
@json_flag
@pass_session
def list_(session: Session, as_json: bool) -> None:
    """List them, without their secrets."""
    rows = session.client().get("/api/v1/tokens")
    if as_json:
        show_json(rows)
        return
    if not rows:
        none("no tokens: `headway token create` makes one")
        return
    now_s = time.time()
    table(
        ("ID", "NAME", "AGE", "EXPIRES IN", "CLASS", "SCOPES"),
        [
            (
                row["id"],
                row["name"],
                age(max(0.0, now_s - row["created_s"])),
                "never" if row["expires_s"] is None else _left(row["expires_s"] - now_s),
                row["class_"],
                " ".join(row["scopes"]),
            )
            for row in rows
        ],
    )


def _left(seconds: float) -> str:
    return age(seconds) if seconds > 0 else "over"


@token.command("revoke")
@click.argument("target", metavar="ID|NAME")
@json_flag
@pass_session
def revoke(session: Session, target: str, as_json: bool) -> None:
    """End one: it is refused from now on."""
    row = session.client().delete(f"/api/v1/tokens/{segment(target)}")
    if as_json:
        show_json(row)
    else:
        line(f"{row['name']} ({row['id']}) is revoked")
