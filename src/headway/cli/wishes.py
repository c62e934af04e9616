"""The verbs that say what is wished for a job or a service. One table; each is a command of its own."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.ask import Session, json_flag, pass_session, show_json
from headway.cli.tables import line, said
from headway.client import segment

# verb -> (what the API calls it, help)
WISHES = {
    "hold": ("hold", "Keep it waiting, or put a service aside, until `headway release`."),
    "release": ("release", "End a hold: it may run again."),
    "pause": ("pause", "Park a job that can be parked, and hold it."),
    "resume": ("resume", "Let a paused job go on."),
    "winddown": ("wind_down", "Let a job run to its next saved point, then stop it and hold it."),
    "stop": ("stop", "Stop it and hold it. A job starts again from its saved point."),
    "kill": ("kill", "Stop it at once, without grace, and hold it."),
    "cancel": ("cancel", "End a job for good, in any phase. Nothing brings it back."),
    "retry": ("retry", "Queue a job again that is over."),
}


def _command(verb: str) -> click.Command:
    name, words = WISHES[verb]

    @click.command(verb, help=words)
    @click.argument("targets", metavar="ID...", nargs=-1, required=True)
    @click.option("--reason", help="Why; shown with it.")
    @json_flag
    @pass_session
    def run(session: Session, targets: tuple[str, ...], reason: str | None, as_json: bool) -> None:
        client, replies = session.client(), list[dict[str, Any]]()
        # all are known before the first is changed: a slip of the finger changes nothing
        ids = [client.get(f"/api/v1/holders/{segment(target)}")["id"] for target in targets]
        for hid in ids:
            body = {"reason": reason} if reason else {}
            reply = client.post(f"/api/v1/holders/{segment(hid)}/{name}", body)
            replies.append(reply)
            if not as_json:
                row = client.get(f"/api/v1/holders/{segment(reply['id'])}")
                called = row["name"] if row["name"] == row["id"] else f"{row['id']} {row['name']}"
                line(f"{called}: {said(row)}")
        if as_json:
            show_json(replies)

    return run


hold = _command("hold")
release = _command("release")
pause = _command("pause")
resume = _command("resume")
winddown = _command("winddown")
stop = _command("stop")
kill = _command("kill")
cancel = _command("cancel")
retry = _command("retry")
