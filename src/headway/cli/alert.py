"""`headway alert`: does anybody hear it?"""

from __future__ import annotations

import click

from headway.cli.ask import FAILED, Group, Session, json_flag, pass_session, show_json
from headway.cli.tables import line
from headway.errors import Refused


@click.group(cls=Group)
def alert() -> None:
    """Alerts by a command or a webhook, see [alerts] in the config."""


@alert.command("test")
@json_flag
@pass_session
@click.pass_context
def test(ctx: click.Context, session: Session, as_json: bool) -> None:
    """Send a test alert by every way, and say what became of it. Exit 1 when one failed or there is none."""
    sent = session.client().post("/api/v1/alerts/test")
    if not sent:
        raise Refused(
            "no_way",
            "no way is configured: set `command` or `webhook` in [alerts], then `headway config apply`.",
        )
    if as_json:
        show_json(sent)
    for one in sent if not as_json else ():
        line(f"{one['way']}: {'sent' if one['sent'] else one['error']}")
    ctx.exit(0 if all(one["sent"] for one in sent) else FAILED)
