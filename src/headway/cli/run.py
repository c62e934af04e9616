"""`headway run`: a command of your own, when its turn has come."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Any

import click

from headway.cli.add import AfterDashes
from headway.cli.ask import Session, fail, json_flag, pass_session, tell
from headway.cli.duration import FOREVER, Duration
from headway.cli.foreground import CANNOT_EXECUTE, NOT_FOUND, find_program, foreground
from headway.cli.place import Place, Row, give_back, inside_of, watch
from headway.cli.saying import Priority
from headway.cli.tables import age
from headway.core.names import usable
from headway.errors import Refused


@click.command(cls=AfterDashes, options_metavar="[OPTIONS] [ACTIVITY] -- CMD...")
@click.argument("activity", nargs=-1, metavar="")
@click.option("--gpu", metavar="SIZE", help="Memory it needs on each GPU, such as 12GiB.")
@click.option("--exclusive", is_flag=True, help="A GPU alone.  [default where --gpu is not given]")
@click.option(
    "--gpus", type=click.IntRange(1, 64), help="How many GPUs.  [default: 1, or all that --device names]"
)
@click.option("--device", "devices", multiple=True, metavar="NAME", help="On this GPU (name, index or UUID).")
@click.option(
    "--wait",
    "wait_s",
    type=Duration(waits=True),
    help="How long to wait.  [default: forever on a terminal, else 15min]",
)
@click.option(
    "--ttl", "ttl_s", type=Duration(), help="How long it may take. It is never ended, but may be asked to."
)
@click.option(
    "--require", is_flag=True, help="Never run without a daemon: exit 69 when none comes within 30 s."
)
@click.option("--priority", type=Priority(), help="Higher goes first.  [default: normal]")
@click.option(
    "--preemptible", is_flag=True, help="It may be asked to leave for others: it is sent SIGTERM then."
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
@json_flag
@pass_session
@click.pass_context
def run(ctx: click.Context, session: Session, /, activity: tuple[str, ...], **given: Any) -> None:
    """Wait for a GPU, then run CMD here, with your terminal, and exit with its exit code.

    \b
    headway run --gpu 12GiB -- python eval.py
    headway run --exclusive --wait 0 -- ./bench

    The GPU is given back when CMD and everything it started are gone. Exit 75: not your turn. 69: no daemon, with
    --require; without, CMD runs all the same, with a warning. 126, 127: CMD cannot be run.
    """
    argv: list[str] = ctx.meta.get("headway.argv", [])
    _check_usage(argv, activity, given)
    program, wrong = find_program(argv[0])
    if wrong:
        words = "no such program" if wrong == NOT_FOUND else "it cannot be executed"
        fail(ctx, Refused("cannot_start", f"{program}: {words}.", program=program))
        ctx.exit(wrong)
    client, quiet = session.client(), bool(given["quiet"])
    if (outer := inside_of(client, os.environ)) is not None:
        if not quiet:
            tell(f"headway: this runs inside {outer}: what it takes counts there, and it waits for nobody.")
        ctx.exit(_started(program, argv, dict(os.environ), None, given))
    place = Place(session, client, _body(argv, activity, given), require=given["require"], quiet=quiet)
    try:
        row = place.wait()
    except KeyboardInterrupt:
        place.leave()
        tell("headway: gave up its place in line.")
        ctx.exit(130)
    env = {**os.environ, **(row["env"] if row else {}), **({"HEADWAY_LEASE": place.mark} if row else {})}
    code = _started(program, argv, env, (place, row) if row else None, given)
    if row is not None:
        give_back(client, row["id"])
    ctx.exit(code)


def _check_usage(argv: list[str], activity: tuple[str, ...], given: dict[str, Any]) -> None:
    """Raises: click.UsageError."""
    if not argv:
        words = shlex.join(activity) or "CMD"
        raise click.UsageError(f"the command goes behind `--`: headway run -- {words}")
    if len(activity) > 1:
        raise click.UsageError(
            f"one ACTIVITY at most before `--`, these are {len(activity)}: {' '.join(activity)}"
        )
    if not argv[0].strip():
        raise click.UsageError("the command behind `--` is empty: it begins with a program.")
    if given["gpu"] is not None and given["exclusive"]:
        raise click.UsageError("give either --gpu SIZE or --exclusive, not both.")


def _body(argv: list[str], activity: tuple[str, ...], given: dict[str, Any]) -> Row:
    """What the daemon is asked for."""
    wait_s = given["wait_s"]
    if wait_s is None:
        wait: float | str | None = FOREVER if sys.stdin.isatty() or sys.stderr.isatty() else None
    else:
        wait = FOREVER if wait_s == float("inf") else wait_s
    body = {
        "name": activity[0] if activity else usable(os.path.basename(argv[0])),
        "gpu": given["gpu"],
        "gpus": given["gpus"],
        "devices": list(given["devices"]),
        "pid": os.getpid(),
        "priority": given["priority"],
        "preemptible": given["preemptible"],
        "wait_s": wait,
        "ttl_s": given["ttl_s"],
        "ask_key": os.urandom(16).hex(),
    }
    return {key: value for key, value in body.items() if value is not None}


def _started(
    program: str,
    argv: list[str],
    env: dict[str, str],
    granted: tuple[Place, Row] | None,
    given: dict[str, Any],
) -> int:
    """Run it; its exit code, or env(1)'s where it could not be executed."""

    def started(pid: int) -> None:
        if granted is not None and (given["preemptible"] or given["ttl_s"] is not None):
            watch(granted[0].client, granted[1], pid if given["preemptible"] else None)

    if granted is not None and not given["quiet"] and granted[0].told:
        lease, row = granted[1]["id"], granted[1]
        on = f" on {', '.join(row['devices'])}" if row["devices"] else ""
        tell(f"headway: {lease} begins{on} after {age(row['age_s'])}.")
    try:
        return foreground(program, argv, env, started)
    except OSError as error:
        tell(f"headway: {program} cannot be executed: {(error.strerror or str(error)).lower()}.")
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_EXECUTE
