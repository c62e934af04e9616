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

import sys

from bench.figures import Bench, Figure

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
BENCH = Bench(name="bench.page", says=__doc__, parts=PARTS, quick=QUICK, figures=FIGURES)

if __name__ == "__main__":
    sys.exit(BENCH.main())
