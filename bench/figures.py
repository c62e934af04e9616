"""A bench of parts: each runs in a Python of its own and prints JSON, of which a table with goals is made."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.gate_parts.report import aligned, machine, write
from bench.gate_parts.tools import BenchFailed

LIMIT_S = 300.0
Found = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One row. `of` reads it from what its part printed; more than `goal` is a miss, None is no promise."""

    title: str
    part: str
    of: Callable[[Found], float]
    form: str
    goal: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """`parts` and `quick`: by name, the module in `name`_parts with its words. `says`: its help."""

    name: str
    says: str
    parts: Mapping[str, Sequence[str]]
    quick: Mapping[str, Sequence[str]]
    figures: Sequence[Figure]

    def main(self, argv: Sequence[str] | None = None) -> int:
        """As `python -m NAME` does; returns the exit status."""
        options = self._options(argv)
        parts = self.quick if options.quick else self.parts
        try:
            found = {name: self._measure(parts[name], options.first) for name in options.only}
            rows = self._table(found)
            print("\n".join(rows))
            if options.write:
                write(machine(()), "--first" if options.first else "", rows, bench=self.name)
        except (BenchFailed, OSError) as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            return 1
        return 0

    def _options(self, argv: Sequence[str] | None) -> argparse.Namespace:
        parser = argparse.ArgumentParser(
            description=self.says, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        only = f"of {','.join(self.parts)}"
        parser.add_argument("--only", type=self._named, default=list(self.parts), metavar="PARTS", help=only)
        parser.add_argument(
            "--first", action="store_true", help="run before all other work of the machine (root)"
        )
        parser.add_argument("--quick", action="store_true", help="a second of each: does it work?")
        parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
        options = parser.parse_args(argv)
        if options.write and (options.quick or set(options.only) != set(self.parts)):
            parser.error("--write is for all parts: not with --quick or --only")
        return options

    def _named(self, text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in self.parts]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: there is {', '.join(self.parts)}")
        return names

    def _measure(self, words: Sequence[str], first: bool) -> Found:
        """Run one part. Raises BenchFailed with what it said."""
        argv = [sys.executable, "-m", f"{self.name}_parts.{words[0]}", *words[1:]]
        ahead = (lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))) if first else None
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, preexec_fn=ahead)
        except subprocess.SubprocessError as error:
            alone = "--first is for root, who alone may run before all else"
            raise BenchFailed(alone if first and os.geteuid() else str(error)) from None
        if done.returncode:
            raise BenchFailed(f"{' '.join(argv[2:])} ended with {done.returncode}: {done.stderr.strip()}")
        found: Found = json.loads(done.stdout)
        return found

    def _table(self, found: Mapping[str, Found]) -> list[str]:
        """In Markdown, a row per figure."""
        rows = [["", "measured", "goal", ""]]
        for figure in self.figures:
            if figure.part in found:
                value = figure.of(found[figure.part])
                goal = "" if figure.goal is None else f"≤ {figure.goal:g}"
                passed = "" if figure.goal is None else "pass" if value <= figure.goal else "miss"
                rows.append([figure.title, format(value, figure.form), goal, passed])
        return ["| " + " | ".join(row) + " |" for row in aligned(rows)]
