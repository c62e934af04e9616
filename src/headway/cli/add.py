"""`headway add`: queue a recipe, or a command."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import click

from headway.cli.ask import Session, json_flag, pass_session, show_json, tell
from headway.cli.saying import Pair, said_body, said_options
from headway.cli.tables import line, said
from headway.client import segment

ASIDE = {
    "park": "When a model needs the device it parks, and goes on where it was.",
    "restart": "When a model needs the device it is stopped, and started again from its saved point if it has one.",
    "none": "It would lose its work when a model needs the device, so it starts only where no model is, or in a "
    "window. Say how it saves (--resumable, or `saved` in a recipe), or let it lose its work: "
    "headway start {id} --anyway",
}


class AfterDashes(click.Command):
    """Keeps everything behind `--` as the command to queue."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta["headway.argv"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


@click.command(cls=AfterDashes, options_metavar="[OPTIONS] (NAME | -- CMD...)")
@click.argument("recipe", required=False, metavar="")
@click.option(
    "--gpu", metavar="SIZE", help="Memory it needs on each GPU, such as 14GiB. Left out: a GPU alone."
)
@click.option("--gpus", type=click.IntRange(0), help="How many GPUs; 0 for none.  [default: 1]")
@click.option("--name", help="What to call it.  [default: the command's name]")
@said_options
@click.option("--env", "env", multiple=True, type=Pair(), help="A variable for it. May be repeated.")
@click.option(
    "--resumable", is_flag=True, default=None, help="It goes on from where it was when it is started again."
)
@click.option(
    "--driver",
    type=click.Choice(["auto", "restart"]),
    help="restart: stop it for a model, whatever it loses.",
)
@click.option("--hold", is_flag=True, help="Keep it waiting until `headway release`.")
@click.option("-q", "--quiet", is_flag=True, help="Print the id alone, as when stdout is no terminal.")
@json_flag
@pass_session
@click.pass_context
def add(
    ctx: click.Context,
    session: Session,
    /,
    recipe: str | None,
    gpu: str | None,
    gpus: int | None,
    name: str | None,
    env: tuple[tuple[str, str], ...],
    resumable: bool | None,
    driver: str | None,
    hold: bool,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Queue the recipe [job.NAME] of the config, or a command of your own.

    \b
    headway add train
    headway add --gpu 14GiB --name eval -- python eval.py --all
    """
    argv = ctx.meta.get("headway.argv", [])
    if not argv and not recipe:
        raise click.UsageError("give the NAME of a recipe, or a command behind `--`.")
    if argv and recipe:
        raise click.UsageError("give either the NAME of a recipe or a command behind `--`, not both.")
    if argv and not argv[0].strip():
        raise click.UsageError("the command behind `--` is empty: it begins with a program.")
    body: dict[str, Any] = {**said_body(given), "hold": hold, "env": dict(env) or None}
    body |= {"resumable": resumable, "driver": driver}
    if recipe:
        body |= {"recipe": recipe, "gpu": gpu, "gpus": gpus, "name": name}
    else:
        called = name if name is not None else usable(os.path.basename(argv[0]))
        body |= {"argv": argv, "cwd": os.getcwd(), "gpu": gpu, "gpus": gpus, "name": called}
    client = session.client()
    reply = client.post("/api/v1/jobs", {key: value for key, value in body.items() if value is not None})
    if as_json:
        show_json(reply)
        return
    row = None
    if quiet or not sys.stdout.isatty():
        click.echo(reply["id"])
    else:
        row = client.get(f"/api/v1/jobs/{segment(reply['id'])}")
        line(f"{row['id']} ({row['name']}, placement {row['placement']}) is {said(row)}")
        line(ASIDE[row["step_aside"]].format(**row))
    if reply["warning"] and not (row and reply["warning"] in row["why"]):
        tell(
            f"headway: {reply['id']} {reply['warning']}. `headway cancel {reply['id']}` takes it out of the queue."
        )


def usable(word: str) -> str:
    """A program's name as the name of a job."""
    kept = re.sub(r"[^a-z0-9._-]+", "-", word.lower()).strip("._-")
    return kept[:64] or "job"
