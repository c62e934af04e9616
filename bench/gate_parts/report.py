"""The table of figures, with goals, for people and for the document."""

from __future__ import annotations

import os
import platform
import re
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.gate_parts.measures import FIGURES, Figure
from bench.gate_parts.tools import BenchFailed

Medians = Mapping[str, Mapping[str, float]]  # figure -> column -> value
OTHERS = ("nginx", "haproxy", "floor", "litellm")
DOCUMENT = Path(__file__).parents[2] / "docs" / "performance.md"
END = "<!-- and ends -->"
WIDTH = 118
WORDS = {True: "pass", False: "miss", None: "no nginx"}


def lines(medians: Medians) -> list[str]:
    """A table in Markdown: a row per figure, a column per proxy, then ours against nginx with its goal."""
    columns = list(dict.fromkeys(column for row in medians.values() for column in row))
    ours = [column for column in columns if column not in OTHERS]
    rows = [["", *columns, *(f"{column} / nginx" for column in ours), "goal", ""]]
    for figure in FIGURES:
        if figure.key in medians:
            rows.append(_row(figure, medians[figure.key], columns, ours))
    return ["| " + " | ".join(row) + " |" for row in aligned(rows)]


def machine(versions: Sequence[str]) -> str:
    """What it was measured on, and what."""
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    model = found[1] if found else platform.machine()
    return (
        f"{model}, {os.cpu_count()} cores, Linux {platform.release().partition('-')[0]}, "
        f"Python {platform.python_version()}{'; ' * bool(versions)}{', '.join(versions)}."
    )


def begins(bench: str) -> str:
    """The line of the document behind which the table of that bench is."""
    return f"<!-- `python -m {bench} --write` begins -->"


def write(
    told: str, options: str, table: Sequence[str], document: Path = DOCUMENT, bench: str = "bench.gate"
) -> None:
    """Put the table where the document has the last one. `options` made it. Raises BenchFailed, OSError."""
    text = document.read_text("utf-8")
    before, begin, rest = text.partition(begins(bench))
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BenchFailed(
            f"{document} has no place for the table: a line `{begins(bench)}` and a line `{END}`"
        )
    day = time.strftime("%Y-%m-%d")
    made = textwrap.wrap(f"`{' '.join(('python -m', bench, options)).strip()}`, {day}, on: {told}", WIDTH)
    part = [begin, *made, "", *table, END]
    document.write_text(before + "\n".join(part) + after, "utf-8")


def _row(
    figure: Figure, values: Mapping[str, float], columns: Sequence[str], ours: Sequence[str]
) -> list[str]:
    nginx = values.get("nginx")
    cells = [format(values[column], figure.form) if column in values else "" for column in columns]
    ratios = [
        f"{values[column] / nginx:.2f}x" if figure.of == "ratio" and nginx and column in values else ""
        for column in ours
    ]
    sign = "≤" if figure.better == "less" else "≥"
    goal = f"{sign} {figure.goal:g}" + ("x" if figure.of == "ratio" else "")
    passed = [WORDS[figure.passes(values[column], nginx)] for column in ours if column in values]
    return [figure.title, *cells, *ratios, goal, " ".join(passed)]


def aligned(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The cells at one width each, with the line that Markdown wants below the first row."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return [padded[0], ["-" * width for width in widths], *padded[1:]]
