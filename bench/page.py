"""What the web page costs with a long queue and a week of memory, each figure with its goal.

    python -m bench.page [--first] [--only look,file] [--write]
    python -m bench.page --quick              whether it works; its figures say nothing

look: a whole Headway with 500 jobs, four of which run and tell their progress, and a database with seven days of looks
      at its device, one a second; a Chromium without a GPU that never saw the page opens it
file: the size of the page

Times are real ones, so they tell what else the machine did; on a busy one use `--first` (root): a real-time priority
for all of it. CPU is what the kernel counted, of all processes of the browser together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bench.gate_parts.report import machine, write
from bench.gate_parts.tools import BenchFailed
from bench.queue import Figure, measure, table

KB = 1000
PARTS = {
    "look": ("look", "--jobs", "500", "--days", "7", "--seconds", "30", "--times", "7"),
    "file": ("file",),
}
QUICK = {
    "look": ("look", "--jobs", "8", "--days", "1", "--seconds", "1", "--times", "1"),
    "file": ("file",),
}
FIGURES = (
    Figure("first view of Now, its chart included (s)", "look", lambda f: f["first_s"], ".2f", 1.0),
    Figure("live Jobs page: CPU of the browser (%)", "look", lambda f: f["jobs_share"] * 100, ".1f", 5.0),
    Figure("an empty page: CPU of the browser (%)", "look", lambda f: f["idle_share"] * 100, ".1f"),
    Figure("live Jobs page: CPU of the daemon (%)", "look", lambda f: f["daemon_share"] * 100, ".1f"),
    Figure("7 days of memory over the API, p50 (ms)", "look", lambda f: f["query_ms"]["p50"], ".1f", 50.0),
    Figure("7 days of memory over the API, p99 (ms)", "look", lambda f: f["query_ms"]["p99"], ".1f"),
    Figure("the page (KB)", "file", lambda f: f["bytes"] / KB, ".0f", 300.0),
    Figure("the page, gzipped (KB)", "file", lambda f: f["gz_bytes"] / KB, ".0f", 100.0),
)


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
    parser.add_argument("--only", type=parts_of, default=list(PARTS), metavar="PARTS", help="of look,file")
    parser.add_argument(
        "--first", action="store_true", help="run before all other work of the machine (root)"
    )
    parser.add_argument("--quick", action="store_true", help="a second of each: does it work?")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args(argv)
    if options.write and (options.quick or set(options.only) != set(PARTS)):
        parser.error("--write is for all parts: not with --quick or --only")
    parts = QUICK if options.quick else PARTS
    try:
        found = {name: measure(parts[name], options.first, "bench.page_parts") for name in options.only}
        rows = table(found, FIGURES)
        print("\n".join(rows))
        if options.write:
            write(machine(()), "--first" if options.first else "", rows, bench="bench.page")
    except (BenchFailed, OSError) as error:
        print(f"bench.page: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
