"""`headway add`: queue a recipe, or a command."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from typing import Any

import click

from headway.cli.ask import AWAY_LIMIT_S, LOOK_S, Session, json_flag, pass_session, show_json, tell
from headway.cli.saying import CommandLine, Pair, pairs, said_body, said_options
from headway.cli.tables import line, said
from headway.client import Client, segment
from headway.core.names import usable
from headway.errors import DaemonAway

ASIDE = {
    "park": "When a model needs the device it parks, and goes on where it was.",
    "restart": "When a model needs the device it is stopped, and started again later.",
    "none": "It would lose its work when a model needs the device, so it starts only where no model is, or in a "
    "window. Say how it saves (--resumable, or `saved` in a recipe), or let it lose its work: "
    "headway start {id} --anyway",
}


# what only a command of one's own has: option -> (key of a [job.NAME] table, type, help)
OF_ITS_OWN: dict[str, tuple[str, Any, str]] = {
    "--saved": ("saved", CommandLine(), "Prints the point that it would restart from."),
    "--progress": ("progress", CommandLine(), "Prints how far it is, such as 40 % or 3/10."),
    "--summary": ("summary", CommandLine(), "Prints its best result so far in one line."),
    "--health": ("health", CommandLine(), "Run now and then; exit 0 if all is well."),
    "--park": ("park", CommandLine(), "Makes it give its memory back; it lives on. With --resume."),
    "--resume": ("resume", CommandLine(), "Makes it go on after that."),
    "--step-aside": (
        "step_aside",
        click.Choice(["auto", "none"]),
        "none: a stop would lose its work.",
    ),
    "--max-wait": ("max_wait", str, "After this long in line it goes to the front.  [default: 24h]"),
}


# sizes of one's own: option -> (table, form, help)
SIZES: dict[str, tuple[str, str, str]] = {
    "--parked": ("memory", "parked", "Memory that it keeps on each GPU while it is parked."),
    "--host-memory": ("host_memory", "running", "Main memory that it takes while it runs."),
    "--parked-host": ("host_memory", "parked", "Main memory that it takes while it is parked."),
    "--parked-disk": ("disk", "parked", "What parking writes to the disk of its directory."),
}


def own_options(function: Any) -> Any:
    """Adds those; the command gets them as keywords."""
    for option, (_, _, help_) in reversed(SIZES.items()):
        function = click.option(option, metavar="SIZE", help=help_)(function)
    for option, (key, kind, help_) in reversed(OF_ITS_OWN.items()):
        metavar = "DURATION" if kind is str else None
        function = click.option(option, key, type=kind, metavar=metavar, help=help_)(function)
    return function


class AfterDashes(click.Command):
    """Keeps everything behind `--` as the command to queue."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta["headway.argv"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


@click.command(cls=AfterDashes, options_metavar="[OPTIONS] (NAME | -- CMD...)")
@click.argument("recipes", nargs=-1, metavar="")
@click.option(
    "--gpu", metavar="SIZE", help="Memory it needs on each GPU, such as 14GiB. Left out: a GPU to itself."
)
@click.option("--gpus", type=click.IntRange(0), help="How many GPUs; 0 for none.  [default: 1]")
@click.option("--device", "devices", multiple=True, metavar="NAME", help="On this GPU (name, index or UUID).")
@click.option("--name", help="What to call it.  [default: the command's name]")
@said_options
@own_options
@click.option(
    "--cwd", type=click.Path(file_okay=False), help="Directory that it starts in.  [default: this one]"
)
@click.option("--env", "env", multiple=True, type=Pair(), help="A variable for it. May be repeated.")
@click.option(
    "--resumable", is_flag=True, default=None, help="It goes on from where it was when it is started again."
)
@click.option(
    "--driver",
    type=click.Choice(["auto", "restart", "command", "checkpoint"]),
    help="restart: stop it for a model, whatever it loses. command: park it. checkpoint: the same for "
    "any CUDA program. auto: by what you say of it.",
)
@click.option("--hold", is_flag=True, help="Keep it waiting until `headway release`.")
@click.option("-n", "--dry-run", is_flag=True, help="Only check it, and say how it would step aside.")
@click.option("-q", "--quiet", is_flag=True, help="Print the id alone, as when stdout is no terminal.")
@json_flag
@pass_session
@click.pass_context
def add(
    ctx: click.Context,
    session: Session,
    /,
    recipes: tuple[str, ...],
    gpu: str | None,
    gpus: int | None,
    devices: tuple[str, ...],
    cwd: str | None,
    name: str | None,
    env: tuple[tuple[str, str], ...],
    resumable: bool | None,
    driver: str | None,
    hold: bool,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Queue the recipe [job.NAME] of the config, or a command of your own.

    \b
    headway add train
    headway add --gpu 14GiB --name eval -- python eval.py --all
    """
    argv, recipe = ctx.meta.get("headway.argv", []), _recipe(recipes, ctx.meta.get("headway.argv", []))
    own = own_keys(given, devices)
    body: dict[str, Any] = {
        **said_body(given),
        "hold": hold,
        "env": pairs("--env", env) or None,
        "options": own or None,
    }
    body |= {"resumable": resumable, "driver": driver, "gpu": gpu, "gpus": gpus, "dry_run": dry_run or None}
    if recipe:
        if own:
            raise click.UsageError(f"a recipe has its own {', '.join(own)}: change it in the config.")
        body |= {"recipe": recipe, "name": name, "cwd": cwd}
    else:
        called = name if name is not None else usable(os.path.basename(argv[0]))
        body |= {"argv": argv, "cwd": _directory(cwd), "name": called, "env": with_path(env)}
        missing(argv[0], body["cwd"], body["env"].get("PATH"))
    client = session.client()
    reply = queued(session, client, {key: value for key, value in body.items() if value is not None})
    if as_json:
        show_json(reply)
    elif dry_run:
        told(reply)
    else:
        added(client, reply, quiet)


def _directory(cwd: str | None) -> str:
    """Where it starts, from the root on.

    Raises:
        click.UsageError: this directory was removed meanwhile, so nothing can be said from it.
    """
    try:
        return os.path.abspath(cwd or ".")
    except FileNotFoundError:
        raise click.UsageError(
            "the directory that this shell is in is not there any more: "
            "`cd` to one that is, or give `--cwd` with the whole path."
        ) from None


def _recipe(recipes: tuple[str, ...], argv: list[str]) -> str | None:
    """The recipe that is meant; None: the command is.

    Raises:
        click.UsageError: neither, both, or a command without its `--`.
    """
    if not argv and not recipes:
        raise click.UsageError("give the NAME of a recipe, or a command behind `--`.")
    if argv and recipes:
        raise click.UsageError("give either the NAME of a recipe or a command behind `--`, not both.")
    if len(recipes) > 1:
        raise click.UsageError(f"a command goes behind `--`: headway add ... -- {shlex.join(recipes)}")
    if argv and not argv[0].strip():
        raise click.UsageError("the command behind `--` is empty: it begins with a program.")
    return recipes[0] if recipes else None


def queued(session: Session, client: Client, body: dict[str, Any]) -> dict[str, Any]:
    """Ask for it once, whatever becomes of the daemon meanwhile: the next one finds the job that was made already.

    Raises:
        DaemonAway: there was none, or no next one came.
    """
    asked, away_since_s = {**body, "ask_key": os.urandom(16).hex()}, None
    while True:
        try:
            reply: dict[str, Any] = client.post("/api/v1/jobs", asked)
            return reply
        except DaemonAway as error:
            if away_since_s is None:
                sent, elsewhere = error.facts.get("sent"), os.environ.get("HEADWAY_URL")
                if not sent and (elsewhere or error.facts.get("denied") or not session.is_daemon_due()):
                    raise
                away_since_s = time.monotonic()
                went = "went away while it was asked; the next one knows whether it is queued"
                tell(f"headway: the daemon {went if sent else 'is on its way; waiting for it'}.")
            if time.monotonic() - away_since_s > AWAY_LIMIT_S or not session.is_daemon_due():
                raise
        time.sleep(LOOK_S)


def own_keys(given: dict[str, Any], devices: tuple[str, ...]) -> dict[str, Any]:
    """What was said that only a command of one's own has, as the keys of a [job.NAME] table; taken out of `given`."""
    said = {key: given.pop(key) for key, _, _ in OF_ITS_OWN.values()}
    own = {key: value for key, value in said.items() if value is not None}
    if devices:
        own["devices"] = list(devices)
    for option, (table, form, _) in SIZES.items():
        if (size := given.pop(option[2:].replace("-", "_"))) is not None:
            own.setdefault(table, {})[form] = size
    return own


def with_path(env: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The job finds the programs that this shell finds, those of its virtual environment: not those of the daemon."""
    path = os.environ.get("PATH")
    return {**({"PATH": path} if path else {}), **dict(env)}


def missing(program: str, cwd: str, path: str | None) -> None:
    """A warning of what is not there now; it may be by the time the job starts."""
    if not os.path.isdir(cwd):
        tell(f"headway: there is no directory {cwd} yet. The job fails if there is none when it starts.")
    elif shutil.which(os.path.join(cwd, program) if "/" in program else program, path=path) is None:
        tell(f"headway: no program {program!r} is found. The job fails if there is none when it starts.")


def told(reply: dict[str, Any]) -> None:
    """What it would be."""
    facts = reply["facts"]
    line(f"{facts['name']} would be queued: placement {facts['placement']}, priority {facts['priority']}")
    if reply["warning"]:
        tell(f"headway: {facts['name']} {reply['warning']}.")
    elif steps_aside(reply):
        line(ASIDE[facts["step_aside"]].format(id="ID"))


def added(client: Client, reply: dict[str, Any], quiet: bool) -> None:
    """Its id, and on a terminal what becomes of it."""
    out, told_already = f"`headway cancel {reply['id']}` takes it out of the queue", False
    if quiet or not sys.stdout.isatty():
        click.echo(reply["id"])
    else:
        row = client.get(f"/api/v1/jobs/{segment(reply['id'])}")
        line(f"{row['id']} ({row['name']}, placement {row['placement']}) is {said(row)}")
        if steps_aside(reply):
            line(ASIDE[row["step_aside"]].format(**row))
        told_already = bool(reply["warning"]) and reply["warning"] in row["why"]
    if told_already:
        tell(f"headway: {out}.")
    elif reply["warning"]:
        tell(f"headway: {reply['id']} {reply['warning']}. {out}.")


def steps_aside(reply: dict[str, Any]) -> bool:
    """Does it matter how? Not to one that can never start, nor where no model may want a device of its own."""
    return not reply["warning"] and bool(reply["facts"].get("meets_models"))
