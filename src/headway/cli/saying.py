"""What may be said of a job on the command line: the same options for `add` and `edit`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any, TypeVar

import click

from headway.cli.duration import Duration

PRIORITY_WORDS = {"background": 20, "normal": 50, "high": 80}
F = TypeVar("F", bound=Callable[..., Any])


class Priority(click.ParamType[int]):
    name = "0..100|background|normal|high"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = PRIORITY_WORDS.get(str(value))
        if number is None and re.fullmatch("[0-9]{1,3}", str(value)) and int(value) <= 100:
            number = int(value)
        if number is None:
            self.fail(f"{value!r} is none of 0 to 100, {', '.join(PRIORITY_WORDS)}", param, ctx)
        return number


class Pair(click.ParamType[tuple[str, str]]):
    """NAME=VALUE."""

    name = "NAME=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, sign, rest = str(value).partition("=")
        if not sign or not name:
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        return name, rest


class CommandLine(click.ParamType[list[str]]):
    """A command in one word of the shell: split as a shell does, and run without one."""

    name = "CMD"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        if isinstance(value, list):
            return value
        try:
            argv = shlex.split(str(value))
        except ValueError as error:
            self.fail(f"{value!r} cannot be split into words: {error}", param, ctx)
        if not argv or not argv[0]:
            self.fail("it is empty: a command begins with a program", param, ctx)
        return argv


def said_options(function: F) -> F:
    """Adds the options; the command gets them all as keywords, see `said_body`."""
    options = (
        click.option("--priority", type=Priority(), help="Higher goes first.  [default: normal]"),
        click.option(
            "--placement", type=click.Choice(["gap", "share", "yield", "window"]), help="When it may run."
        ),
        click.option(
            "--after", multiple=True, metavar="ID", help="Start only when that job is over. May be repeated."
        ),
        click.option(
            "--after-ok",
            multiple=True,
            metavar="ID",
            help="Start only when that job has ended well; else it is held.",
        ),
        click.option(
            "--retries", type=click.IntRange(0, 1000), help="Further attempts after a failure.  [default: 0]"
        ),
        click.option(
            "--max-time", "max_runtime_s", type=Duration(), help="Running time, such as 2h; then it is held."
        ),
        click.option(
            "--stall-after",
            "stall_after_s",
            type=Duration(),
            help="Send an alert when it shows no sign of work for this long.",
        ),
        click.option(
            "--oom-exit-code",
            type=click.IntRange(1, 255),
            help="Exit code that means out of memory; what most frameworks print is known without it.",
        ),
        click.option("--goal", help="What it is for, in your words."),
        click.option("--tag", "tags", multiple=True, help="A word to find it by. May be repeated."),
        click.option(
            "--label", "labels", multiple=True, type=Pair(), help="A word with a value. May be repeated."
        ),
        click.option("--colour", help="Its colour on the page: a name, or #20b2aa."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def said_body(given: dict[str, Any]) -> dict[str, Any]:
    """The body's fields of what was said; what was not said is left out."""
    body: dict[str, Any] = {}
    for key, value in given.items():
        if value is None or value == ():
            continue
        body[key] = (
            pairs("--label", value) if key == "labels" else list(value) if isinstance(value, tuple) else value
        )
    return body


def pairs(option: str, given: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Raises: click.UsageError, for a name that was given two values."""
    found: dict[str, str] = {}
    for name, value in given:
        if found.setdefault(name, value) != value:
            raise click.UsageError(f"{option} {name} is given twice: {found[name]!r} and {value!r}.")
    return found
