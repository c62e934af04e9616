"""`headway log`: what a job or a server printed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from headway.cli.ask import LOOK_S, Session, json_flag, pass_session, show_json, tell
from headway.cli.log_text import Shown
from headway.cli.tables import colours_wanted
from headway.client import Client, segment
from headway.core.words import ENDED
from headway.errors import Refused


@click.command()
@click.argument("target", metavar="ID")
@click.option(
    "-n",
    "lines",
    default=100,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="How many of the last lines.",
)
@click.option(
    "--run", "number", type=click.IntRange(1), help="The log of that run; `headway show` lists the runs."
)
@click.option("--path", "only_path", is_flag=True, help="Print which file it is, and nothing else.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what it prints, until it is over or Ctrl-C.")
@click.option(
    "--raw", is_flag=True, help="To a terminal too, all that it printed: what steers the terminal as well."
)
@json_flag
@pass_session
def log(
    session: Session,
    target: str,
    lines: int,
    number: int | None,
    only_path: bool,
    follow: bool,
    raw: bool,
    as_json: bool,
) -> None:
    """Print the end of the log of a job's or a server's last run.

    A terminal gets its text and its colours; a file or a pipe gets what steers a terminal too. All of it, byte for
    byte, is in the file that --path names: this reads its last 64 KiB.
    """
    if follow and number is not None:
        raise click.UsageError("-f follows the last run: leave --run out.")
    if only_path and (follow or as_json):
        raise click.UsageError("give --path alone: it prints one line.")
    client = session.client()
    found = _tail(client, target, lines, number)
    end = _size(found)  # before anything is printed: what is added from now on is not in these lines
    if only_path and found["path"]:
        click.echo(found["path"])
        return
    if as_json and not follow:
        show_json(found)
        return
    if found["run"] is None and follow and found["state"] not in ENDED:
        tell(
            f"{target} has not run yet: it is {found['state']}. Waiting; `headway why {target}` says what for."
        )
    elif found["run"] is None:
        tell(f"{target} has not run yet.")
    elif found["path"] and (gone := _gone(found)):
        tell(gone)
    elif found["path"] and not found["lines"] and (found["state"] in ENDED or not follow):
        tell(f"{found['run']} printed nothing{'' if found['state'] in ENDED else ' so far'}.")
    shown = None if raw or not sys.stdout.isatty() else Shown(colours_wanted())
    try:
        for line in found["lines"]:
            click.echo(shown.text(f"{line}\n") if shown else f"{line}\n", nl=False, color=True)
        for chunk in _follow(client, target, found, end) if follow else ():
            sys.stdout.buffer.write(shown.piece(chunk).encode() if shown else chunk)
            sys.stdout.buffer.flush()
    finally:
        if shown:
            click.echo(shown.end(), nl=False, color=True)


@click.command()
@click.argument("target", metavar="ID")
@click.option(
    "-n",
    "lines",
    default=10,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="How many of the last lines to begin with.",
)
@click.option("--raw", is_flag=True, help="To a terminal too, all that it printed.")
@click.pass_context
def follow(ctx: click.Context, target: str, lines: int, raw: bool) -> None:
    """Print what a job or a server prints, until it is over or Ctrl-C: `headway log -f`."""
    said = {"lines": lines, "number": None, "only_path": False, "follow": True, "raw": raw, "as_json": False}
    ctx.invoke(log, target=target, **said)


def _tail(client: Client, target: str, lines: int, number: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/api/v1/holders/{segment(target)}/log", lines=lines, run=number)
    return found


def _follow(client: Client, target: str, found: dict[str, Any], at: int) -> Iterator[bytes]:
    """Bytes as they are added to the log file, run after run.

    Raises:
        Refused: the file is not on this machine.
    """
    run = found["run"]
    while True:
        path = found["path"]
        if found["run"] is not None and path is None:
            raise Refused(
                "log_elsewhere", "`log -f` reads the file itself: run it on the daemon's machine, by socket."
            )
        if path is not None:
            if found["run"] != run:
                run, at = found["run"], 0
            data, at = _rest(path, at)
            if data:
                yield data
        if found["state"] in ENDED:
            return
        time.sleep(LOOK_S)
        found = _tail(client, target, 1)


def _gone(found: dict[str, Any]) -> str | None:
    """What became of a log whose file is not there; None: it is there, or nobody here may look."""
    try:
        os.stat(found["path"])
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(found["path"])):
            return f"the log of {found['run']} is not kept any more: only those of the newest runs are."
        return (
            f"the log of {found['run']} was removed or moved: {found['path']} is not there, though the rest of that "
            f"run is. What its program still prints goes where the file went; a new run has a log of its own again."
        )
    except OSError:
        return None
    return None


def _size(found: dict[str, Any]) -> int:
    """How long the log is whose end was read; 0 where nothing of it was, so that following begins there."""
    try:
        return os.path.getsize(found["path"]) if found["path"] and found["lines"] else 0
    except FileNotFoundError:
        return 0


def _rest(path: str, at: int) -> tuple[bytes, int]:
    """What was added after `at`. A file that became shorter began anew: what it had before is in PATH.1 now."""
    try:
        with open(path, "rb") as file:
            size, before = file.seek(0, os.SEEK_END), b""
            if size < at:
                before, _ = _rest(f"{path}.1", at) if os.path.exists(f"{path}.1") else (b"", 0)
                at = 0
            file.seek(at)
            data = file.read()
    except FileNotFoundError:
        return b"", at
    return before + data, at + len(data)
