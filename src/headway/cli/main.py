"""`headway`: the verbs are found by name and imported when they are called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import click

from headway.cli.ask import Session, fail
from headway.errors import HeadwayError

# verb -> (module below headway.cli, attribute)
VERBS: Mapping[str, tuple[str, str]] = {
    "up": ("up", "up"),
    "daemon": ("up", "daemon"),
    "gate": ("up", "gate"),
    "check": ("check", "check"),
    "status": ("status", "status"),
    "mode": ("mode", "mode"),
    "ps": ("jobs", "ps"),
    "add": ("add", "add"),
    "show": ("show", "show"),
    "why": ("why", "why"),
    "log": ("log", "log"),
    "wait": ("wait", "wait"),
    "move": ("move", "move"),
    "hold": ("wishes", "hold"),
    "release": ("wishes", "release"),
    "pause": ("wishes", "pause"),
    "resume": ("wishes", "resume"),
    "winddown": ("wishes", "winddown"),
    "stop": ("wishes", "stop"),
    "kill": ("wishes", "kill"),
    "cancel": ("wishes", "cancel"),
    "retry": ("wishes", "retry"),
    "service": ("service", "service"),
    "events": ("events", "events"),
}


class Verbs(click.Group):
    """Imports a verb's module when it is asked for, and turns our errors into words and an exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, attribute = VERBS[cmd_name]
        found = getattr(import_module(f"headway.cli.{module}"), attribute)
        assert isinstance(found, click.Command)
        return found

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except HeadwayError as error:
            ctx.exit(fail(ctx, error))
        except KeyboardInterrupt:
            ctx.exit(130)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep everything (config, state, sockets) in this directory.",
)
@click.version_option(package_name="headway", prog_name="headway")
@click.pass_context
def cli(ctx: click.Context, home: Path | None) -> None:
    """Share the GPUs of this machine between model servers and jobs.

    Begin with `headway check` and `headway up`, then look at `headway status`.
    """
    ctx.obj = Session(home)


def main() -> None:
    cli(prog_name="headway")


if __name__ == "__main__":
    main()
