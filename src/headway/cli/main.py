"""`headway`: the verbs are found by name and imported when they are called."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import click

from headway.cli.ask import Session, fail, no_such, of_disk
from headway.errors import DaemonAway, HeadwayError, Refused

# verb -> (module below headway.cli, attribute), by what people are about to do
GROUPS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Look": {
        "status": ("status", "status"),
        "top": ("top", "top"),
        "ps": ("jobs", "ps"),
        "queue": ("queue", "queue"),
        "why": ("why", "why"),
        "log": ("log", "log"),
        "follow": ("log", "follow"),
        "lease": ("lease", "lease"),
        "events": ("events", "events"),
        "show": ("show", "show"),
        "service": ("service", "service"),
    },
    "Queue": {
        "add": ("add", "add"),
        "wait": ("wait", "wait"),
        "start": ("wishes", "start"),
        "move": ("move", "move"),
        "priority": ("edit", "priority"),
        "edit": ("edit", "edit"),
        "hold": ("wishes", "hold"),
        "release": ("wishes", "release"),
        "cancel": ("wishes", "cancel"),
        "retry": ("wishes", "retry"),
        "clear": ("wishes", "clear"),
    },
    "Your own programs": {
        "run": ("run", "run"),
        "claim": ("claim", "claim"),
    },
    "Change what runs": {
        "pause": ("wishes", "pause"),
        "resume": ("wishes", "resume"),
        "winddown": ("wishes", "winddown"),
        "stop": ("wishes", "stop"),
        "kill": ("wishes", "kill"),
    },
    "Let others in": {
        "token": ("token", "token"),
        "pin": ("pin", "pin"),
        "open": ("pin", "open_"),
    },
    "Run Headway": {
        "init": ("init", "init"),
        "check": ("check", "check"),
        "doctor": ("doctor", "doctor"),
        "config": ("config", "config"),
        "up": ("up", "up"),
        "down": ("up", "down"),
        "mode": ("mode", "mode"),
        "alert": ("alert", "alert"),
        "prod-only": ("mode", "prod_only"),
        "window": ("window", "window"),
        "daemon": ("up", "daemon"),
        "gate": ("up", "gate"),
        "completion": ("completion", "completion"),
        "replay": ("replay", "replay"),
        "sim": ("sim", "sim"),
    },
}
VERBS: Mapping[str, tuple[str, str]] = {verb: at for group in GROUPS.values() for verb, at in group.items()}


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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs group by group, each with its first sentence."""
        for title, group in GROUPS.items():
            found = [(verb, self.get_command(ctx, verb)) for verb in group]
            with formatter.section(title):
                formatter.write_dl([(verb, one.get_short_help_str(200)) for verb, one in found if one])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in VERBS and not word.startswith("-"):
            no_such(ctx, word, VERBS)
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ours = args[: args.index("--")] if "--" in args else args
        ctx.meta["headway.json"] = "--json" in ours  # also where the words behind it are wrong
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if not ctx.meta["headway.json"]:
                raise
            ctx.exit(fail(ctx, Refused("usage", error.format_message())))
        except HeadwayError as error:
            ctx.exit(fail(ctx, _on_its_way(ctx, error)))
        except OSError as error:
            if (failed := of_disk(error)) is None:
                raise
            ctx.exit(fail(ctx, failed))
        except KeyboardInterrupt:
            ctx.exit(130)


def _on_its_way(ctx: click.Context, error: HeadwayError) -> HeadwayError:
    """Who is told to start a daemon that is being started would be told something wrong."""
    told = error.facts.get("sent") or error.facts.get("denied")
    if not isinstance(error, DaemonAway) or told or not isinstance(ctx.obj, Session):
        return error
    if os.environ.get("HEADWAY_URL") or not ctx.obj.is_daemon_due():
        return error
    words = "no daemon answers yet: `headway up` runs, and starts it. Try again in a moment."
    return DaemonAway(words, **error.facts)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="HEADWAY_HOME",
    show_envvar=True,
    help="Keep everything (config, state, sockets) in this directory.",
)
@click.version_option(package_name="headway", prog_name="headway")
@click.pass_context
def cli(ctx: click.Context, home: Path | None) -> None:
    """Share the GPUs of this machine between model servers and jobs.

    Begin with `headway init`, `headway check` and `headway up`, then look at `headway status`.
    """
    ctx.obj = Session(home)


def main() -> None:
    open_streams()
    cli(prog_name="headway")


def open_streams() -> None:
    """A standard stream that whoever started us has closed is /dev/null: for us, and for what we run."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, number)
        if null == number:
            os.set_inheritable(number, True)
        else:
            os.close(null)
        setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))


if __name__ == "__main__":
    main()
