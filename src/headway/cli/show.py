"""`headway show`: everything known about one job or service."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.ask import Session, json_flag, pass_session, show_json
from headway.cli.tables import age, line, paint, sized, state
from headway.client import segment


@click.command()
@click.argument("target", metavar="ID")
@json_flag
@pass_session
def show(session: Session, target: str, as_json: bool) -> None:
    """Show one job or service, by its id or name."""
    found = session.client().get(f"/api/v1/holders/{segment(target)}")
    if as_json:
        show_json(found)
    else:
        describe(found)


def describe(row: dict[str, Any]) -> None:
    """One `key  value` line per thing that is known."""
    wide = max(len(key) for key in row)
    for key, value in row.items():
        if value not in (None, "", [], {}):
            text = said(key, value)
            line(f"{key.removesuffix('_s').removesuffix('_bytes'):<{wide}}  {text}")


def said(key: str, value: Any) -> str:
    if key == "state":
        return paint(state(value), value)
    if key.endswith("_s"):
        return age(value)
    if key == "bytes" or key.endswith("_bytes"):
        return sized(value)
    if key == "argv":
        return " ".join(value)
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.0%}" if key == "progress" else str(value)
