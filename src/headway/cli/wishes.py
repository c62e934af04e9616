"""The verbs that say what is wished for jobs and services. One table; each is a command of its own."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.ask import EXITS, FAILED, Session, json_flag, pass_session, quiet_flag, show_json, tell
from headway.cli.tables import line, said
from headway.client import Client, segment
from headway.errors import Refused

WORDS = 20  # results that are told one by one; of more, the sum
# verb -> (what the API calls it, help)
WISHES = {
    "start": (
        "start",
        "Start a job now: first in line, in the next gap whatever it is worth. It still needs memory, and a model "
        "that is not busy.",
    ),
    "hold": ("hold", "Keep a job waiting, or put a service aside, until `headway release`."),
    "release": ("release", "End a hold: a job stands in line again, a service may be woken."),
    "pause": ("pause", "Park a job that can be parked, and hold it."),
    "resume": ("resume", "Let a paused job go on."),
    "winddown": ("wind_down", "Let a job run to its next saved point, then stop it and hold it."),
    "stop": ("stop", "Stop a job and hold it. Released, it starts again from its saved point."),
    "kill": ("kill", "Stop a job at once, without grace, and hold it."),
    "cancel": ("cancel", "End a job for good, in any phase. Nothing brings it back."),
    "retry": ("retry", "Queue again a job that is over, but not cancelled."),
    "clear": ("clear", "Forget jobs that are over. The logs of their last runs stay for a while."),
}
OPTIONS = {
    "start": [
        click.Option(
            ["--anyway"], is_flag=True, help="Also one that loses its work when it has to step aside."
        )
    ],
    "pause": [
        click.Option(
            ["--at-saved-point"],
            is_flag=True,
            help="Stop one that cannot park at its next saved point instead.",
        )
    ],
}
WHOM = (
    "\n\nEach ID is an id, a name, or a group: tag=eval, state=queued, name=train*, or several with commas."
)


def select(
    client: Client, verb: str, targets: tuple[str, ...], all_: bool, dry_run: bool, **more: Any
) -> dict[str, Any]:
    """One verb on all that the words mean."""
    body = {"targets": list(targets), "all": all_, "dry_run": dry_run}
    reply: dict[str, Any] = client.post(
        f"/api/v1/select/{verb}",
        {**body, **{key: value for key, value in more.items() if value not in (None, False)}},
    )
    return reply


def report(
    ctx: click.Context, client: Client, reply: dict[str, Any], verb: str, as_json: bool, quiet: bool = False
) -> None:
    """What became of each; exit 1 if it was refused for one of them.

    Raises:
        Refused: it was refused for the only one that was meant.
    """
    results = reply["results"]
    if len(results) == 1 and not results[0]["accepted"]:
        raise Refused(results[0]["code"], results[0]["detail"], **results[0]["facts"])
    if as_json:
        show_json(results)
    elif quiet:
        for one in (one for one in results if one["accepted"]):
            click.echo(one["id"])
    elif reply["dry_run"]:
        for one in results:
            line(_called(client, one["id"])[0])
        tell(f"`{verb}` would be done with {len(results)} of them; nothing was changed.")
    else:
        for one in results if len(results) <= WORDS else ():
            if one["accepted"]:
                line(_told(client, one["id"], verb))
        if len(results) > WORDS:
            line(f"{verb}: {sum(one['accepted'] for one in results)} of {len(results)}")
    if not as_json:
        for one in (one for one in results if not one["accepted"]):
            tell(f"headway: {one['id']}: {one['detail']}")
    if refused := next((one for one in results if not one["accepted"]), None):
        ctx.exit(EXITS.get(refused["code"], FAILED))


def _told(client: Client, hid: str, verb: str) -> str:
    if verb == "clear":
        return f"{hid}: forgotten"
    called, row = _called(client, hid)
    return f"{called}: {said(row)}"


def _called(client: Client, hid: str) -> tuple[str, dict[str, Any]]:
    row = client.get(f"/api/v1/holders/{segment(hid)}")
    return (row["name"] if row["name"] == row["id"] else f"{row['id']} {row['name']}"), row


def whom(verb: str, targets: tuple[str, ...], all_: bool) -> None:
    """Raises: UsageError, unless exactly one of the two says who is meant."""
    if all_ == bool(targets):
        raise click.UsageError(f"say which: `headway {verb} ID...`, or `headway {verb} --all`.")


def _command(verb: str) -> click.Command:
    name, words = WISHES[verb]

    @click.command(verb, help=words + WHOM)
    @click.argument("targets", metavar="ID...", nargs=-1)
    @click.option("--all", "all_", is_flag=True, help="Every job that this can be done with.")
    @click.option("--reason", help="Why; shown with it.")
    @click.option("-n", "--dry-run", is_flag=True, help="Only say which jobs are meant; change nothing.")
    @quiet_flag
    @json_flag
    @pass_session
    @click.pass_context
    def run(
        ctx: click.Context,
        session: Session,
        /,
        targets: tuple[str, ...],
        all_: bool,
        reason: str | None,
        dry_run: bool,
        quiet: bool,
        as_json: bool,
        **more: Any,
    ) -> None:
        whom(verb, targets, all_)
        client = session.client()
        reply = select(client, name, targets, all_, dry_run, reason=reason, **more)
        report(ctx, client, reply, verb, as_json, quiet)

    run.params += OPTIONS.get(verb, [])
    return run


start = _command("start")
hold = _command("hold")
release = _command("release")
pause = _command("pause")
resume = _command("resume")
winddown = _command("winddown")
stop = _command("stop")
kill = _command("kill")
cancel = _command("cancel")
retry = _command("retry")
clear = _command("clear")
