"""`headway doctor`: what of the machine stands in the way."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.ask import FAILED, Session, json_flag, pass_session, show_json
from headway.cli.tables import line, paint

COLOURED = {"ok": "done", "warning": "held", "problem": "failed", "unknown": "held"}
CALLED = {"ok": "ok", "warning": "warning", "problem": "PROBLEM", "unknown": "not known"}


@click.command()
@click.option("-a", "--all", "all_", is_flag=True, help="Also what is well.")
@json_flag
@pass_session
@click.pass_context
def doctor(ctx: click.Context, session: Session, all_: bool, as_json: bool) -> None:
    """Look for what on this machine stands in Headway's way. Exit 1 if there is a problem; warnings are none.

    Works with and without a daemon, a config and a GPU. Each check only reads, and none may hang.
    """
    from headway import app

    found: dict[str, dict[str, Any]] = app.doctor(session.paths())
    bad = [name for name, one in found.items() if one["level"] == "problem"]
    if as_json:
        show_json({"ok": not bad, "checks": [{"check": name, **one} for name, one in found.items()]})
    else:
        _show(found, all_)
    if bad:
        ctx.exit(FAILED)


def _show(found: dict[str, dict[str, Any]], all_: bool) -> None:
    wide = max(map(len, found))
    for name, one in found.items():
        level = one["level"]
        if level == "ok" and not all_:
            continue
        line(f"{name:<{wide}}  {paint(CALLED[level], COLOURED[level])}: {one['measured']}")
        if one["blocks"]:
            line(f"{'':<{wide}}  {one['blocks']}")
        if one["next"]:
            line(f"{'':<{wide}}  next: {one['next']}")
    counts = {level: sum(one["level"] == level for one in found.values()) for level in CALLED}
    said = [
        f"{counts['problem']} problem{'' if counts['problem'] == 1 else 's'}",
        f"{counts['warning']} warning{'' if counts['warning'] == 1 else 's'}",
        f"{counts['unknown']} not known",
        f"{counts['ok']} ok" + ("" if all_ else " (-a shows them)"),
    ]
    line(", ".join(said))
