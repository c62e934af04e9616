"""`headway show`: everything known about one job or service."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.ask import Session, json_flag, pass_session, show_json
from headway.cli.tables import age, line, paint, sized, state
from headway.client import segment

LABELS = {
    "in_state_s": "in that state for",
    "bytes": "memory",
    "need_bytes": "memory it needs",
    "wish": "asked to",
    "wish_by": "asked by",
    "failures": "failed starts in a row",
    "lane": "queue",
    "position": "number in line",
    "age_s": "added before",
    "ran_s": "ran for",
    "attempts_left": "retries left",
    "active": "in flight",
    "waiting": "requests waiting",
    "waiting_s": "oldest waits for",
    "quiet_s": "quiet for",
    "saved_age_s": "last saved before",
    "ended_s": "ended before",
}


@click.command()
@click.argument("target", metavar="ID")
@json_flag
@pass_session
def show(session: Session, target: str, as_json: bool) -> None:
    """Show one job, service or lease, by its id or name."""
    found = session.client().get(f"/api/v1/holders/{segment(target)}")
    if as_json:
        show_json(found)
    else:
        describe(found)


def describe(row: dict[str, Any]) -> None:
    """One `key  value` line per thing that is known and says something."""
    known = {key: value for key, value in row.items() if value not in (None, "", [], {}) and tells(key, row)}
    wide = max(len(called(key)) for key in known)
    for key, value in known.items():
        line(f"{called(key):<{wide}}  {said(key, value)}")


def tells(key: str, row: dict[str, Any]) -> bool:
    """Does it say anything that is not said already, or true of everybody?"""
    if key in ("code", "started"):  # for programs
        return False
    if key == "note":
        return row["note"] not in row["why"]
    if key in ("wish", "wish_by"):
        return bool(row["wish"] != "run")
    if key == "ran_s":
        return bool(row["started"])
    return bool(row[key]) or key not in ("failures", "attempts_left")


def called(key: str) -> str:
    return LABELS.get(key) or key.removesuffix("_s").removesuffix("_bytes").replace("_", " ")


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
