"""Running Headway itself: all of it, or one part for a service manager."""

from __future__ import annotations

from pathlib import Path

import click

from headway.cli.ask import Session, pass_session

CONFIG = click.argument("config", required=False, type=click.Path(dir_okay=False, path_type=Path))

AGAIN = click.option(
    "--again", is_flag=True, help="While CONFIG has problems, go on with the last one that was in force."
)


def _file(session: Session, config: Path | None) -> Path:
    return config.absolute() if config else Path(session.paths().config_file)


@click.command()
@CONFIG
@pass_session
@click.pass_context
def up(ctx: click.Context, session: Session, config: Path | None) -> None:
    """Run gate and daemon here until Ctrl-C. CONFIG defaults to the one `headway check` names.

    Jobs and awake models go on when it ends; the next one takes them over, and `headway down --all` ends them too.
    Exit 73 when something else has a port or runs in this home, 78 when the config has problems.
    """
    from headway import app

    ctx.exit(app.up(session.paths(), _file(session, config)))


@click.command()
@CONFIG
@click.option("--all", "all_", is_flag=True, help="Stop and hold every job and model before.")
@pass_session
@click.pass_context
def down(ctx: click.Context, session: Session, config: Path | None, all_: bool) -> None:
    """End what `headway up` runs, and say what goes on.

    With --all nothing goes on: jobs in the queue are held, what runs is stopped and held, and the line to release them
    is printed. CONFIG is for the daemon that --all starts where none runs.
    """
    from headway import app

    ctx.exit(app.down(session.paths(), _file(session, config), everything=all_))


@click.command()
@CONFIG
@AGAIN
@pass_session
@click.pass_context
def daemon(ctx: click.Context, session: Session, config: Path | None, again: bool) -> None:
    """Run the daemon alone: it decides, starts and stops."""
    from headway import app

    ctx.exit(app.daemon(session.paths(), _file(session, config), again))


@click.command()
@CONFIG
@AGAIN
@pass_session
@click.pass_context
def gate(ctx: click.Context, session: Session, config: Path | None, again: bool) -> None:
    """Run the gate alone: it takes the requests and needs nobody to serve open models."""
    from headway import app

    ctx.exit(app.gate(session.paths(), _file(session, config), again))
