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

import sys

from bench.figures import Bench, Figure, Found

MIB = 1 << 20


def summed(found: Found, key: str) -> float:
    return sum(float(part[key]) for part in found.values())


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
BENCH = Bench(name="bench.queue", says=__doc__, parts=PARTS, quick=QUICK, figures=FIGURES)

if __name__ == "__main__":
    sys.exit(BENCH.main())
