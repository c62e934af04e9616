"""`headway check`: read the config once, change nothing, say every problem."""

from __future__ import annotations

from collections.abc import Sized
from pathlib import Path

import click

from headway.cli.ask import BAD_CONFIG, Session, json_flag, pass_session, show_json, tell
from headway.errors import ConfigInvalid


@click.command()
@click.argument("config", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--strict", is_flag=True, help="Exit 78 for a warning too.")
@json_flag
@pass_session
@click.pass_context
def check(ctx: click.Context, session: Session, config: Path | None, strict: bool, as_json: bool) -> None:
    """Check CONFIG: every problem at once, each with file, table and line. Exit 78 if there is one.

    A warning is something that is allowed and probably not meant, such as a program that is not there.
    """
    from headway import app

    file = config.absolute() if config else session.paths().config_file
    problems: list[str] = []
    warnings: list[str] = []
    try:
        warnings = app.doubts(file)
        found = app.settings(file)
    except ConfigInvalid as error:
        problems, warnings = error.problems, warnings or error.warnings
    if as_json:
        show_json({"config": str(file), "ok": not problems, "problems": problems, "warnings": warnings})
    elif problems:
        for problem in problems:
            click.echo(problem)
        for warning in warnings:
            click.echo(f"warning: {warning}")
        tell(f"{_count(problems, 'problem')}. Fix, then run `headway check` again.")
    else:
        for warning in warnings:
            click.echo(f"warning: {warning}")
        parts = f"{_count(found.services, 'service')}, {_count(found.recipes, 'job')}"
        but = f", {_count(warnings, 'warning')}" if warnings else ""
        click.echo(f"{file} has no problems{but}: mode {found.mode}, {parts}.")
    if problems or (strict and warnings):
        ctx.exit(BAD_CONFIG)


def _count(things: Sized, one: str) -> str:
    return f"{len(things)} {one}{'' if len(things) == 1 else 's'}"
