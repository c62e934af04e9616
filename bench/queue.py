"""What a long queue, an idle Headway and `headway status` cost, each with its goal.

    python -m bench.queue [--first] [--only turns,many,idle,status] [--write]
    python -m bench.queue --quick             whether it works; its figures say nothing

turns:  10,000 queued jobs, 5 people who look, 50 pieces of news a second; how long a turn takes (its commit included)
        and how late the loop is for a wait of 1 ms
many:   the same with 100,000
idle:   CPU and memory of all processes of `headway up` over a minute in which nothing happens
status: CPU of `headway status` beside that of `python -c "import click"`, by turns

Times are real ones, so they tell what else the machine did; on a busy one use `--first` (root): a real-time priority
for all of it. CPU is what the kernel counted.
"""

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

MIB = 1 << 20
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


PARTS = {
    "turns": ("turns", "--jobs", "10000", "--seconds", "30"),
    "many": ("turns", "--jobs", "100000", "--seconds", "15"),
    "idle": ("idle", "--seconds", "60"),
    "status": ("status", "--runs", "25"),
}
QUICK = {
    "turns": ("turns", "--jobs", "300", "--seconds", "2", "--warm", "0.5"),
    "many": ("turns", "--jobs", "600", "--seconds", "2", "--warm", "0.5"),
    "idle": ("idle", "--seconds", "1"),
    "status": ("status", "--runs", "1"),
}
FIGURES = (
    Figure("turn, 10,000 queued, p50 (ms)", "turns", lambda f: f["turn_ms"]["p50"], ".1f"),
    Figure("turn, 10,000 queued, p99 (ms)", "turns", lambda f: f["turn_ms"]["p99"], ".1f", 5.0),
    Figure("of this its commit, p99 (ms)", "turns", lambda f: f["save_ms"]["p99"], ".1f"),
    Figure("loop lag, 10,000 queued, p99 (ms)", "turns", lambda f: f["lag_ms"]["p99"], ".1f", 10.0),
    Figure("loop lag, 10,000 queued, most (ms)", "turns", lambda f: f["lag_ms"]["max"], ".1f"),
    Figure("CPU of the daemon meanwhile (% of a core)", "turns", lambda f: f["cpu_share"] * 100, ".0f"),
    Figure("turn, 100,000 queued, p99 (ms)", "many", lambda f: f["turn_ms"]["p99"], ".1f", 50.0),
    Figure("loop lag, 100,000 queued, p99 (ms)", "many", lambda f: f["lag_ms"]["p99"], ".1f"),
    Figure(
        "idle: CPU of all processes (% of a core)", "idle", lambda f: summed(f, "cpu_share") * 100, ".2f", 1.0
    ),
    Figure("idle: memory of all processes (MiB)", "idle", lambda f: summed(f, "bytes") / MIB, ".0f", 200.0),
    Figure("idle: memory of the daemon (MiB)", "idle", lambda f: f["daemon"]["bytes"] / MIB, ".0f"),
    Figure("CPU of `headway status` (ms)", "status", lambda f: f["status_s"] * 1e3, ".0f"),
    Figure('its CPU / that of `python -c "import click"`', "status", lambda f: f["ratio"], ".2f", 2.5),
)


def summed(found: Found, key: str) -> float:
    return sum(float(part[key]) for part in found.values())


def measure(words: Sequence[str], first: bool, parts: str = "bench.queue_parts") -> Found:
    """Run one part in a Python of its own. Raises BenchFailed with what it said."""
    argv = [sys.executable, "-m", f"{parts}.{words[0]}", *words[1:]]
    ahead = (lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))) if first else None
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, preexec_fn=ahead)
    except subprocess.SubprocessError as error:
        why = (
            "--first is for root, who alone may run before all else" if first and os.geteuid() else str(error)
        )
        raise BenchFailed(why) from None
    if done.returncode:
        raise BenchFailed(f"{' '.join(argv[2:])} ended with {done.returncode}: {done.stderr.strip()}")
    found: Found = json.loads(done.stdout)
    return found


def table(found: Mapping[str, Found], figures: Sequence[Figure] = FIGURES) -> list[str]:
    """In Markdown, a row per figure."""
    rows = [["", "measured", "goal", ""]]
    for figure in figures:
        if figure.part in found:
            value = figure.of(found[figure.part])
            goal = "" if figure.goal is None else f"≤ {figure.goal:g}"
            passed = "" if figure.goal is None else "pass" if value <= figure.goal else "miss"
            rows.append([figure.title, format(value, figure.form), goal, passed])
    return ["| " + " | ".join(row) + " |" for row in aligned(rows)]


def parts_of(text: str) -> list[str]:
    """The parts named in a list with commas. Raises argparse.ArgumentTypeError."""
    names = text.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: there is {', '.join(PARTS)}")
    return names


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", type=parts_of, default=list(PARTS), metavar="PARTS", help="of turns,many,idle,status"
    )
    parser.add_argument(
        "--first", action="store_true", help="run before all other work of the machine (root)"
    )
    parser.add_argument("--quick", action="store_true", help="a second of each: does it work?")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args(argv)
    if options.write and (options.quick or set(options.only) != set(PARTS)):
        parser.error("--write is for all parts: not with --quick or --only")
    try:
        parts = QUICK if options.quick else PARTS
        found = {name: measure(parts[name], options.first) for name in options.only}
        rows = table(found)
        print("\n".join(rows))
        if options.write:
            write(machine(()), "--first" if options.first else "", rows, bench="bench.queue")
    except (BenchFailed, OSError) as error:
        print(f"bench.queue: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
