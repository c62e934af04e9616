"""`headway check`: read the config once, change nothing, say every problem."""

from __future__ import annotations

from pathlib import Path

import click

from headway.cli.ask import BAD_CONFIG, Session, json_flag, pass_session, show_json, tell
from headway.errors import ConfigInvalid


@click.command()
@click.argument("config", required=False, type=click.Path(dir_okay=False, path_type=Path))
@json_flag
@pass_session
@click.pass_context
def check(ctx: click.Context, session: Session, config: Path | None, as_json: bool) -> None:
    """Check CONFIG: every problem at once, each with file, table and line. Exit 78 if there is one."""
    from headway import app

    file = config.absolute() if config else session.paths().config_file
    problems: list[str] = []
    try:
        found = app.settings(file)
    except ConfigInvalid as error:
        problems = error.problems
    if as_json:
        show_json({"config": str(file), "ok": not problems, "problems": problems})
    elif problems:
        for problem in problems:
            click.echo(problem)
        tell(
            f"{len(problems)} problem{'s' if len(problems) != 1 else ''}. Fix, then run `headway check` again."
        )
    else:
        parts = f"{len(found.services)} services, {len(found.recipes)} jobs"
        click.echo(f"{file} is good: mode {found.mode}, {parts}.")
    if problems:
        ctx.exit(BAD_CONFIG)
