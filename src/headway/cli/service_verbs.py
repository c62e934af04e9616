"""`headway service wake|sleep|start|stop`: bring a model server, or put it aside."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click

from headway.cli.ask import (
    AWAY_LIMIT_S,
    LOOK_S,
    TIMED_OUT,
    Session,
    json_flag,
    pass_session,
    quiet_flag,
    show_json,
    tell,
)
from headway.cli.tables import line, said
from headway.client import Client, segment
from headway.errors import DaemonAway, Refused

Row = dict[str, Any]
ASIDE = ("asleep", "stopped", "failed")
HOPELESS = ("never_fits", "no_device")  # no waiting helps
# verb -> (the states it is for, help)
WORDS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "wake": (
        ("awake",),
        "Bring it, as a request would: jobs step aside for it. It stays until the memory is given to somebody who "
        "waits, by the usual rules. Ends a hold and a stop.",
    ),
    "sleep": (
        ASIDE,
        "Put it aside as soon as nobody uses it, until a request or `wake` brings it back. One that cannot sleep is "
        "stopped, and started again by the next request.",
    ),
    "start": (("awake",), "The same as wake, for one that is stopped."),
    "stop": (
        ("stopped", "failed"),
        "Stop it, and keep it stopped until `start`: requests for it are refused meanwhile. What it answers now is "
        "finished first.",
    ),
}


def _command(verb: str) -> click.Command:
    @click.command(verb, help=WORDS[verb][1])
    @click.argument("names", metavar="NAME...", nargs=-1, required=True)
    @click.option("--reason", help="Why; shown with it.")
    @click.option(
        "-w", "--wait", "waits", is_flag=True, help="Wait until it is there. Exit 1 if it will not be."
    )
    @click.option(
        "--timeout",
        "limit_s",
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        help="Of -w: give up, with exit 124.",
    )
    @quiet_flag
    @json_flag
    @pass_session
    @click.pass_context
    def run(
        ctx: click.Context,
        session: Session,
        /,
        names: tuple[str, ...],
        reason: str | None,
        waits: bool,
        limit_s: float | None,
        quiet: bool,
        as_json: bool,
    ) -> None:
        if limit_s is not None and not waits:
            raise click.UsageError("--timeout says how long -w waits: give both, or none.")
        client, body = session.client(), {"reason": reason} if reason else {}
        names = tuple(dict.fromkeys(names))
        for name in names if len(names) > 1 else ():
            _row(client, name)  # one that is not known changes nothing for the others
        for name in names:
            client.post(f"/api/v1/services/{segment(name)}/{verb}", body)
        deadline_s = None if limit_s is None else time.monotonic() + limit_s
        rows = [_there(client, verb, name, deadline_s) if waits else _row(client, name) for name in names]
        if as_json:
            show_json(rows)
        for row in () if as_json else rows:
            click.echo(row["id"]) if quiet else line(f"{row['name']}: {said(row)}")
        if waits and any(row["state"] not in WORDS[verb][0] for row in rows):
            tell(f"not in time. `headway why {names[0]}` says why.")
            ctx.exit(TIMED_OUT)

    return run


def _row(client: Client, name: str) -> Row:
    row: Row = client.get(f"/api/v1/services/{segment(name)}")
    return row


def _there(client: Client, verb: str, name: str, deadline_s: float | None) -> Row:
    """Its row once it is as it was asked to be, or when the time is over.

    Raises:
        Refused: it will not be: it failed, or somebody said something else since.
        DaemonAway: none has answered for a while.
    """
    away_since_s: float | None = None
    told = ""
    while True:
        try:
            row, away_since_s = _row(client, name), None
        except DaemonAway:
            away_since_s = time.monotonic() if away_since_s is None else away_since_s
            if time.monotonic() - away_since_s > AWAY_LIMIT_S:
                raise
            time.sleep(LOOK_S)
            continue
        if row["state"] in WORDS[verb][0]:
            return row
        if _is_void(verb, row):
            raise Refused(
                "not_done", f"{name} is {said(row)}.", id=row["id"], state=row["state"], why=row["why"]
            )
        if deadline_s is not None and time.monotonic() >= deadline_s:
            return row
        if row["code"] != told:
            told = row["code"]
            tell(f"{name}: {said(row)}")
        time.sleep(LOOK_S)


def _is_void(verb: str, row: Row) -> bool:
    """Does nobody ask for it any more, or is it asked in vain?"""
    if verb == "stop":
        return bool(row["wish"] == "run")
    asked_by = row["dismissed_by"] if verb == "sleep" else row["called_by"]
    return asked_by is None or row["code"] in HOPELESS


VERBS = tuple(_command(verb) for verb in WORDS)
