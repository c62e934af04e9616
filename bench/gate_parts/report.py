"""The table of figures, with goals, for people and for the document."""

from __future__ import annotations

from collections.abc import Mapping

from bench.gate_parts.measures import FIGURES, Figure

Medians = Mapping[str, Mapping[str, float]]  # figure -> column -> value
OTHERS = ("nginx", "haproxy", "litellm", "llama-swap")


def lines(medians: Medians) -> list[str]:
    """A table in Markdown: a row per figure, a column per proxy, then ours against nginx with its goal."""
    columns = list(dict.fromkeys(column for row in medians.values() for column in row))
    ours = [column for column in columns if column not in OTHERS]
    rows = [["", *columns, *(f"{column} / nginx" for column in ours), "goal", ""]]
    for figure in FIGURES:
        if figure.key in medians:
            rows.append(_row(figure, medians[figure.key], columns, ours))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    table = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    return [table[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *table[1:]]


def _row(figure: Figure, values: Mapping[str, float], columns: list[str], ours: list[str]) -> list[str]:
    nginx = values.get("nginx")
    cells = [format(values[column], figure.form) if column in values else "" for column in columns]
    ratios = [
        f"{values[c] / nginx:.2f}x" if figure.of == "ratio" and nginx and c in values else "" for c in ours
    ]
    sign = "≤" if figure.better == "less" else "≥"
    goal = f"{sign} {figure.goal:g}" + ("x" if figure.of == "ratio" else "")
    passed = [figure.passes(values[column], nginx) for column in ours if column in values]
    words = {True: "pass", False: "miss", None: "no nginx"}
    return [figure.title, *cells, *ratios, goal, " ".join(words[one] for one in passed)]
