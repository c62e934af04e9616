"""docs/reference/cli.md, made from the verbs: `python -m headway.cli.reference > FILE`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click

from headway.cli.main import GROUPS, cli

_INTRO = """\
# Command reference

Made from the code by `python -m headway.cli.reference`; a test keeps it so. `headway VERB --help` says the same.

What a verb tells you goes to stdout, what it says beside that to stderr. Exit codes: 0 done, 1 it failed, 2 wrong
usage, 69 no daemon, 73 a port or home is taken, 75 not your turn, 77 not allowed, 78 a config with problems, 124 a
limit is over, 130 interrupted; `headway run` exits with the code of its command, or 125 to 127 as env(1) does.
"""


def reference() -> str:
    """The whole page, in Markdown."""
    return "\n".join([_INTRO, *_options(cli, ("headway",)), *_sections()])


def _sections() -> Iterator[str]:
    root = click.Context(cli, info_name="headway")
    for title, verbs in GROUPS.items():
        yield f"## {title}\n"
        for verb in verbs:
            command = cli.get_command(root, verb)
            assert command is not None
            yield from _command(command, ("headway", verb), root)


def _command(command: click.Command, path: tuple[str, ...], above: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=path[-1], parent=above)
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"{'#' * (len(path) + 1)} `{' '.join(path)} {pieces}`\n"
    yield _words(command.help or "") + "\n"
    yield from _options(command, path)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _command(below, (*path, name), context)


def _options(command: click.Command, path: tuple[str, ...]) -> Iterator[str]:
    context = click.Context(command, info_name=path[-1])
    rows = [record for one in command.params if (record := _record(one, context)) is not None]
    if rows:
        yield "| option | what it does |\n|---|---|"
        yield from (f"| `{_cell(names)}` | {_cell(words)} |" for names, words in rows)
        yield ""


def _record(option: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    record: Any = option.get_help_record(context)
    if record is None or not record[1]:  # an argument that says nothing about itself
        return None
    return record[0], record[1]


def _cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|").replace("<", "\\<")


def _words(text: str) -> str:
    """A help text in Markdown: what click must not wrap is a block of code."""
    made = []
    for part in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip("\n") for line in part.split("\n")]
        if lines and lines[0].strip() == "\b":
            made.append("```\n" + "\n".join(lines[1:]) + "\n```")
        else:
            made.append(" ".join(line.strip() for line in lines))
    return "\n\n".join(made)


if __name__ == "__main__":
    print(reference(), end="")
