"""The gap policy on request traces, against its goals.

    python -m bench.gap_policy --traces DIR [--only busy2,ws3] [--quick] [--write]

Prints, per trace, job time at equal mean wait (on the concave hull of a sweep of `wait_price`) beside the best fixed
timeout and a policy that knows the future, and a table of goals with pass or miss. One code for all traces. The traces
are not part of Headway: a directory with `busy2.csv.gz`, `ws3.csv.gz`, `solo.csv.gz`, `night*.csv.gz` and others in the
format that `headway replay` reads. `--quick` sweeps in steps of 2 instead of its square root.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path

from bench.gate_parts.report import machine
from headway.core.ledger import LEAST_REQUESTS, Knobs
from headway.core.worth import Costs
from headway.sim.replay.frontier import Point, at_share, at_wait, geometric, hull
from headway.sim.replay.play import Outcome, play
from headway.sim.replay.policies import Clairvoyant, Fixed, Policy, WhoComesBack
from headway.sim.replay.report import Setting, ours
from headway.sim.replay.trace import Request, Trace, read

WAITS_S = (0.25, 0.5, 1.0)
SHARED = ("busy2", "ws3", "solo", "sg-64")
BUSY = ("azure-conv", "mooncake-conv")
GOALS = {
    "busy2": {0.5: 0.785, 1.0: 0.87},
    "ws3": {0.5: 0.92, 1.0: 0.95},
    "solo": {0.5: 0.93, 1.0: 0.954},
}
MEASURED = {  # job time that the reference reached: less is a defect
    "busy2": (0.331, 0.435, 0.516),
    "ws3": (0.672, 0.727, 0.767),
    "solo": (0.681, 0.784, 0.839),
    "sg-64": (0.389, 0.410, 0.438),
}
OVERLAPS = {"busy2": 0.89, "ws3": 0.96, "solo": 0.975}
COLD, COLD_HOURS, COLD_WITHIN = ("busy2", "ws3"), 8, 0.05
NIGHT_HOURS, NIGHT_LENGTH_H, NIGHT_WAIT_S = 3.0, 7.3, 0.78
DAY_S, SETTLED = 86400.0, 1000
DOC = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- `python -m bench.gap_policy --write` begins -->", "<!-- ends: gap policy -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of the table of goals."""

    what: str
    found: str
    goal: str
    passed: bool


def swept(requests: Sequence[Request], policies: Iterator[Policy], costs: Costs) -> list[Point]:
    """Mean wait and share of job time of each."""
    found = []
    for policy in policies:
        figures = play(requests, policy, costs).figures()
        found.append((figures["mean_wait_s"], figures["gpu_share"]))
    return found


def frontiers(trace: Trace, factor: float, costs: Costs) -> tuple[list[Point], list[Point], list[Point]]:
    """Hulls of ours, of fixed timeouts and of who knows the future; the future at the example costs."""
    usual = Costs()
    prices = (Setting(costs=costs, knobs=Knobs(wait_price=one)) for one in geometric(1, 512, factor))
    return (
        hull(swept(trace.requests, (ours(one, capped=False) for one in prices), costs)),
        hull(swept(trace.requests, map(Fixed, geometric(1, 14400, 2**0.5)), costs)),
        hull(swept(trace.requests, map(Clairvoyant, geometric(8, 14400, 2**0.5)), usual)),
    )


def worst_day(requests: Sequence[Request], outcome: Outcome) -> tuple[float, float]:
    """The highest share of waiting requests and the highest mean wait of any 24 h with at least 100 requests, after the
    first 1,000: of those that begin and of those that end with a request, which are the worst there are."""
    rows = list(zip((one.arrived_s for one in requests), outcome.waits_s, strict=True))[SETTLED:]
    share = mean_s = 0.0
    for line in (rows, [(-at_s, wait_s) for at_s, wait_s in reversed(rows)]):
        window: deque[tuple[float, float]] = deque()
        waited_s, waited = 0.0, 0
        for at_s, wait_s in line:
            window.append((at_s, wait_s))
            waited_s, waited = waited_s + wait_s, waited + (wait_s > 0)
            while window[0][0] <= at_s - DAY_S:
                _, gone_s = window.popleft()
                waited_s, waited = waited_s - gone_s, waited - (gone_s > 0)
            if at_s - line[0][0] >= DAY_S and len(window) >= LEAST_REQUESTS:
                share, mean_s = max(share, waited / len(window)), max(mean_s, waited_s / len(window))
    return share, mean_s


def one_trace(file: Path, factor: float) -> tuple[list[str], list[Line]]:
    """Its row of the table of frontiers, if it has one, and its lines of the table of goals."""
    trace = read(file)
    print(f"{trace.name} ...", file=sys.stderr, flush=True)
    table: list[str] = []
    lines = list(promise_lines(trace))
    if trace.name.split(".")[0] in SHARED:
        lines = [*frontier_lines(trace, factor, table), *lines]
    return table, lines


def frontier_lines(trace: Trace, factor: float, table: list[str]) -> Iterator[Line]:
    """One trace at equal waits."""
    name = trace.name.split(".")[0]
    mine, fixed, future = frontiers(trace, factor, Costs())
    cells = []
    for i, wait_s in enumerate(WAITS_S):
        ours_, best, bound = (at_wait(line, wait_s) for line in (mine, fixed, future))
        if ours_ is None or best is None or bound is None:
            cells.append("-")
            continue
        cells.append(f"{best:.3f} → {ours_:.3f} ({ours_ / bound:.1%})")
        if name in MEASURED:
            least = MEASURED[name][i]
            yield _line(f"{name}, {wait_s:g} s: job time", ours_, least, ".3f")
        if wait_s in GOALS.get(name, {}):
            yield _line(f"{name}, {wait_s:g} s: of who knows the future", ours_ / bound, GOALS[name][wait_s])
        gain = 0.06 if name == "busy2" and wait_s < 1 else -0.005
        yield _line(f"{name}, {wait_s:g} s: over the best fixed timeout", ours_ / best - 1, gain)
    if name in OVERLAPS:
        hidden, _, _ = frontiers(trace, 4.0, Costs(hides_park=True))
        at, bound = at_wait(hidden, 0.5), at_wait(future, 0.5)
        if at is not None and bound is not None:
            least = GOALS[name][0.5] + (0.05 if name == "busy2" else 0.0)
            yield _line(f"{name}, 0.5 s: the same, parks hidden behind wakes", at / bound, least)
            cells.append(f"{at / bound:.1%}")
    table.append(f"| {name} | " + " | ".join(cells + ["-"] * (4 - len(cells))) + " |")


def promise_lines(trace: Trace) -> Iterator[Line]:
    """At the knobs that nobody touched."""
    name = trace.name.split(".")[0]
    began_s = time.process_time()
    policy = ours(Setting())
    outcome = play(trace.requests, policy, Costs())
    took_s = time.process_time() - began_s
    if name in BUSY:
        yield Line(what=f"{name}: swaps", found=str(outcome.swaps), goal="0", passed=outcome.swaps == 0)
    share, mean_s = worst_day(trace.requests, outcome)
    if share or mean_s:
        knobs = Knobs()
        yield _line(
            f"{name}: worst 24 h, share that waited", share, knobs.max_waiting_share * 1.05, most=True
        )
        yield _line(
            f"{name}: worst 24 h, mean wait (s)", mean_s, knobs.max_mean_wait_s * 1.05, ".2f", most=True
        )
    if name in COLD:
        yield from cold_lines(trace, policy)
    if name in SHARED:
        per_s = took_s / len(trace.requests) * 100_000
        yield _line(f"{name}: 100,000 requests (s of CPU)", per_s, 20.0, ".1f", most=True)
        yield _line(f"{name}: a decision (ms of CPU)", outcome.decide_ms_mean or 0.0, 0.5, ".2f", most=True)


def cold_lines(trace: Trace, knowing: WhoComesBack) -> Iterator[Line]:
    """The first hours beside the same of a policy that begins with what `knowing` learned of pauses."""
    name, until_s = trace.name.split(".")[0], trace.requests[0].arrived_s + COLD_HOURS * 3600
    first = [one for one in trace.requests if one.arrived_s < until_s]
    cold, warm = (
        play(first, one, Costs()).figures() for one in (ours(Setting()), ours(Setting()).knowing(knowing))
    )
    for key, what, style in (("gpu_share", "job time", ".3f"), ("mean_wait_s", "mean wait (s)", ".2f")):
        off = cold[key] / warm[key] - 1
        yield Line(
            what=f"{name}: first {COLD_HOURS} h, {what}, beside a warm start",
            found=f"{cold[key]:{style}} beside {warm[key]:{style}} ({off:+.1%})",
            goal=f"± {COLD_WITHIN:.0%}",
            passed=abs(off) <= COLD_WITHIN,
        )


def night_line(nights: Sequence[Trace], factor: float) -> Line:
    """All nights together: mean wait at three job hours of 7.3."""
    points = []
    for knob in geometric(0.5, 16, factor):
        found = []
        for one in nights:
            policy = ours(Setting(knobs=Knobs(wait_price=knob)), capped=False)
            found.append(play(one.requests, policy, Costs()).figures())
        count = len(found)
        points.append(
            (sum(f["mean_wait_s"] for f in found) / count, sum(f["gpu_share"] for f in found) / count)
        )
    wait_s = at_share(hull(points), NIGHT_HOURS / NIGHT_LENGTH_H)
    return _line(
        f"{len(nights)} nights: mean wait at 3.0 job hours of 7.3 (s)",
        float("inf") if wait_s is None else wait_s,
        NIGHT_WAIT_S,
        ".2f",
        most=True,
    )


def _line(what: str, found: float, goal: float, style: str = ".1%", *, most: bool = False) -> Line:
    sign = "≤" if most else "≥"
    passed = found <= goal if most else found >= goal
    return Line(what=what, found=format(found, style), goal=f"{sign} {format(goal, style)}", passed=passed)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--only", default="", help="names of traces, with commas between")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--workers", type=int, default=1, help="traces at a time; processor times stay what they are"
    )
    parser.add_argument("--write", action="store_true", help="put the tables into docs/performance.md")
    asked = parser.parse_args()
    only = set(filter(None, asked.only.split(",")))
    files = [
        one for one in sorted(asked.traces.glob("*.csv.gz")) if not only or one.name.split(".")[0] in only
    ]
    if not files:
        sys.exit(f"{asked.traces} has no such traces (*.csv.gz): nothing was measured.")
    factor = 2.0 if asked.quick else 2**0.5
    lines: list[Line] = []
    table = [
        "| trace | at 0.25 s of mean wait: best fixed → ours (of who knows the future) | 0.5 s | 1.0 s "
        "| 0.5 s, parks hidden |",
        "|---|---|---|---|---|",
    ]
    nights = [one for one in files if one.name.startswith("night")]
    with ProcessPoolExecutor(asked.workers) as pool:
        found = pool.map(partial(one_trace, factor=factor), [one for one in files if one not in nights])
        for row, some in found:
            table += row
            lines += some
    if nights:
        lines.append(night_line([read(one) for one in nights], factor))
    goals = ["| measure | found | goal | |", "|---|---|---|---|"]
    goals += [f"| {x.what} | {x.found} | {x.goal} | {'pass' if x.passed else 'miss'} |" for x in lines]
    text = "\n".join([*table, "", *goals])
    print(text)
    if asked.write:
        whole = DOC.read_text("utf-8")
        steps = " --quick" if asked.quick else ""
        head = f"`python -m bench.gap_policy{steps}`, {date.today()}, {len(files)} traces, on: {machine(())}"
        block = f"{BEGIN}\n{head}\n\n{text}\n{END}"
        DOC.write_text(
            re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: block, whole, flags=re.S), "utf-8"
        )


if __name__ == "__main__":
    main()
