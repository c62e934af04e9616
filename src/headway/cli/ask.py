"""What every command shares: where the daemon is, how errors become exit codes, and the flags they all have."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from headway.cli.tables import harmless
from headway.client import Client, address
from headway.errors import FileFailed, HeadwayError

FAILED, USAGE, AWAY, TAKEN, NOT_YOUR_TURN, NO_PERMISSION, BAD_CONFIG, TIMED_OUT = (
    1,
    2,
    69,
    73,
    75,
    77,
    78,
    124,
)
EXITS = {
    "usage": USAGE,
    "daemon_away": AWAY,
    "already_running": TAKEN,
    "port_taken": TAKEN,
    "config_invalid": BAD_CONFIG,
    "forbidden": NO_PERMISSION,
    "read_only": NO_PERMISSION,
    "other_user": NO_PERMISSION,
    "not_your_turn": NOT_YOUR_TURN,
    "line_full": NOT_YOUR_TURN,
    "store_silent": NOT_YOUR_TURN,
    "store_failed": NOT_YOUR_TURN,
    "invalid": USAGE,
    "invalid_job": USAGE,
    "no_such_process": USAGE,
    "unknown_device": USAGE,
}
DOCTOR = "What else stands in the way: `headway doctor`."
NEXT = {  # errors of the system's that are no mistake of ours -> what to do about them
    errno.ENOSPC: f"Free space on that disk. {DOCTOR}",
    errno.EDQUOT: f"Free space: its user may not have more. {DOCTOR}",
    errno.EFBIG: f"Files of that size are not allowed here: `ulimit -f unlimited`, then try again. {DOCTOR}",
    errno.EROFS: f"Make that file system writable, or keep everything elsewhere: `headway --home DIR ...`. {DOCTOR}",
    errno.EACCES: f"Make it this user's, or keep everything elsewhere: `headway --home DIR ...`. {DOCTOR}",
    errno.EPERM: f"Make it this user's, or keep everything elsewhere: `headway --home DIR ...`. {DOCTOR}",
    errno.EIO: f"Look at the disk: `dmesg | tail`. {DOCTOR}",
    errno.ENFILE: "The machine has too many open files. End some program, then try again.",
    errno.EMFILE: "Allow more open files: `ulimit -n 4096`, then try again.",
}
LOOK_S = 0.5  # between two looks at something that is waited for
AWAY_LIMIT_S = 30.0  # a daemon that is being restarted comes back within this time
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Session:
    """One call of the command line."""

    home: Path | None = None

    def paths(self) -> Any:
        """The places of config, state and sockets (config.paths.Paths).

        Raises:
            HeadwayError: they cannot be used.
        """
        from headway.config.paths import Paths

        return Paths.find(self.home)

    def is_daemon_due(self) -> bool:
        """Does anything run that is, or starts, a daemon, so that one which does not answer now soon will?"""
        from headway import app

        return bool(app.is_daemon_due(self.paths()))

    def client(self) -> Client:
        return Client(address(Path(self.paths().run_dir)))


def no_such(ctx: click.Context, word: str, known: Iterable[str]) -> NoReturn:
    """Ends with the verb that was probably meant.

    Raises:
        click.UsageError: always.
    """
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=1)
    ctx.fail(f"No such command {word!r}." + (f" Did you mean `{near[0]}`?" if near else ""))


class Group(click.Group):
    """A verb with verbs of its own, each listed with its whole first sentence."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and not args[0].startswith("-"):
            no_such(ctx, args[0], self.commands)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, one.get_short_help_str(200)) for name, one in sorted(self.commands.items())]
            )


pass_session = click.make_pass_decorator(Session, ensure=True)


def _note_json(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    ctx.meta["headway.json"] = value
    return value


def json_flag(function: F) -> F:
    """`--json`: the daemon's answer unchanged; errors are JSON on stderr then."""
    option = click.option("--json", "as_json", is_flag=True, callback=_note_json, help="Print JSON.")
    return option(function)


def quiet_flag(function: F) -> F:
    """`-q`: ids alone, one on each line."""
    return click.option("-q", "--quiet", is_flag=True, help="Only ids.")(function)


def show_json(document: Any) -> None:
    click.echo(json.dumps(document, ensure_ascii=False))


def tell(text: str) -> None:
    """Talk goes to stderr; stdout has data only."""
    click.echo(harmless(text), err=True)


def of_disk(error: OSError) -> FileFailed | None:
    """What a person can mend, in words; None: it is a mistake of ours."""
    if (next_ := NEXT.get(error.errno or 0)) is None:
        return None
    file = error.filename or "a file"
    words = (error.strerror or str(error)).lower()
    return FileFailed(f"{file} cannot be used: {words}. {next_}", file=str(file), errno=error.errno)


def fail(ctx: click.Context, error: HeadwayError) -> int:
    """Say what went wrong, and return the exit status for it."""
    if ctx.meta.get("headway.json"):
        tell(json.dumps({"code": error.code, "detail": str(error), "facts": error.facts}, default=str))
    else:
        tell(f"headway: {error}")
    if error.facts.get("denied"):
        return NO_PERMISSION
    return EXITS.get(error.code, NO_PERMISSION if error.http_status in (401, 403) else FAILED)
