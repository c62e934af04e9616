"""`headway edit` and `headway priority`: other values for what was said of jobs."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.ask import Session, json_flag, pass_session, quiet_flag
from headway.cli.saying import Priority, said_body, said_options
from headway.cli.wishes import report, select, whom

CLEARS = ("max_runtime_s", "stall_after_s", "oom_exit_code", "goal", "colour")

NAMES = {"max-time": "max_runtime_s", "stall-after": "stall_after_s"}


@click.command()
@click.argument("targets", metavar="ID...", nargs=-1)
@click.option("--all", "all_", is_flag=True, help="All jobs that are not over.")
@said_options
@click.option(
    "--no",
    "without",
    multiple=True,
    type=click.Choice(
        ["max-time", "stall-after", "oom-exit-code", "goal", "colour", "tags", "labels", "after", "after-ok"]
    ),
    help="Take this away. May be repeated.",
)
@click.option("-n", "--dry-run", is_flag=True, help="Only say which jobs are meant; change nothing.")
@quiet_flag
@json_flag
@pass_session
@click.pass_context
def edit(
    ctx: click.Context,
    session: Session,
    /,
    targets: tuple[str, ...],
    all_: bool,
    without: tuple[str, ...],
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Change what was said of jobs that are not over. What runs goes on as it was started.

    Lists (--tag, --label, --after) replace what was there.
    """
    whom("edit", targets, all_)
    changes = said_body(given)
    for word in without:
        name = NAMES.get(word, word.replace("-", "_"))
        if name in changes:
            raise click.UsageError(f"--no {word} contradicts what you give for it: leave one of them out.")
        changes[name] = None if name in CLEARS else {} if name == "labels" else []
    if not changes:
        raise click.UsageError("say what to change, such as --priority high. `headway edit --help` lists it.")
    client = session.client()
    reply = select(client, "edit", targets, all_, dry_run, changes=changes)
    report(ctx, client, reply, "edit", as_json, quiet)


@click.command()
@click.argument("targets", metavar="ID... PRIORITY", nargs=-1)
@click.option("-n", "--dry-run", is_flag=True, help="Only say which jobs are meant; change nothing.")
@quiet_flag
@json_flag
@pass_session
@click.pass_context
def priority(
    ctx: click.Context,
    session: Session,
    targets: tuple[str, ...],
    dry_run: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Change the priority of jobs: 0 to 100, or background, normal, high. A point is worth half an hour of waiting."""
    if len(targets) < 2:
        raise click.UsageError("say which jobs, then their priority: `headway priority ID... high`.")
    value = Priority().convert(targets[-1], None, ctx)
    client = session.client()
    reply = select(client, "edit", targets[:-1], False, dry_run, changes={"priority": value})
    report(ctx, client, reply, "priority", as_json, quiet)
