"""`headway config`: look at the config file, check it, and take it into the running daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headway.cli.ask import Group, Session, json_flag, pass_session, show_json, tell
from headway.cli.check import check
from headway.cli.tables import line

WHEN = {"now": "", "next_start": "  (at its next start)", "restart": "  (when Headway is started again)"}
FILE = click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))


@click.group(cls=Group)
def config() -> None:
    """Look at the config file, check it, and apply it while Headway runs."""


config.add_command(check)


@config.command()
@FILE
@click.option("--all", "everything", is_flag=True, help="With the defaults of what is left out.")
@click.option("--running", is_flag=True, help="What is in force in the running daemon, without secrets.")
@json_flag
@pass_session
def show(session: Session, file: Path | None, everything: bool, running: bool, as_json: bool) -> None:
    """Print the config as it counts: with conf.d, the environment and [vars] put in."""
    from headway import app

    if running:
        if file or everything:
            raise click.UsageError("--running asks the daemon, for everything: give no FILE and no --all.")
        _in_force(session.client().get("/api/v1/config"), as_json)
        return
    config = file.absolute() if file else Path(session.paths().config_file)
    found = app.shown(config, everything, units=not as_json)
    if as_json:
        show_json(found)
    else:
        import tomlkit

        click.echo(tomlkit.dumps(found), nl=False)


def _in_force(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    import tomlkit

    mark = found["etag"].strip('"')
    line(f"# in force from {found['file']}, with the mark {mark}")
    click.echo(tomlkit.dumps(found["config"]), nl=False)


@config.command()
@click.option(
    "--drain",
    is_flag=True,
    help="Take away what is in use too: put aside, or let go on to its end.",
)
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would change.")
@click.option(
    "--if-match", metavar="MARK", help="Only over the config of that mark: see `config show --running`."
)
@json_flag
@pass_session
def apply(session: Session, drain: bool, dry_run: bool, if_match: str | None, as_json: bool) -> None:
    """Have the running daemon take what its config file says now, whole or not at all.

    A config with problems changes nothing (exit 78). What runs keeps what it was started with until its next start.
    To take away a service or job that is in use needs --drain.
    """
    mark = None if if_match is None else f'"{if_match.strip(chr(34))}"'
    found = session.client().post("/api/v1/config/apply", {"drain": drain, "dry_run": dry_run}, mark)
    if as_json:
        show_json(found)
        return
    for change in found["changes"]:
        line(f"{change['what']}{WHEN[change['when']]}")
    _told(found)


def _told(found: dict[str, Any]) -> None:
    later = [change for change in found["changes"] if change["when"] == "restart"]
    n = len(found["changes"]) - len(later)
    if n:
        did = "applied" if found["applied"] else "would be applied"
        tell(f"{n} change{'' if n == 1 else 's'} from {found['file']} {did}.")
    elif not found["draining"]:
        tell(f"{found['file']} has no change that could be applied now.")
    if found["draining"]:
        tell(f"Put aside once nobody uses them, and then forgotten: {', '.join(found['draining'])}.")
    if later:
        tell("Ports and devices count when Headway is started again: `headway down`, then `headway up`.")


@config.command()
def schema() -> None:
    """Print the JSON Schema of the config file, for editors."""
    from headway import app

    click.echo(app.config_schema(), nl=False)


@config.command()
@json_flag
@pass_session
def path(session: Session, as_json: bool) -> None:
    """Print which file is the config."""
    file = str(session.paths().config_file)
    if as_json:
        show_json({"file": file})
    else:
        click.echo(file)
