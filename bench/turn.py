"""What one turn of the daemon costs: fold, decide and the records around them, without store and sockets.

    python -m bench.turn [--jobs 10000]

Prints milliseconds (median and p99 of 300 turns) for an idle turn, a turn with a reading, and one with a command.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from headway.core import wishes
from headway.core.commands import AddJob, Configure
from headway.core.decide import decide
from headway.core.draft import Draft
from headway.core.facts import DeviceRead
from headway.core.fold import decided, fold
from headway.core.model import GIB, Form, JobSpec, MoveRule, ServiceSpec, Snapshot
from headway.daemon import collecting

TURNS = 300

JOB_MOVES = (
    MoveRule(source="stopped", to="running", limit_s=30, frees=False, creates=True),
    MoveRule(source="running", to="stopped", limit_s=30, frees=True, loses_work=True),
)
SERVICE_MOVES = (
    MoveRule(source="stopped", to="awake", limit_s=300, frees=False, creates=True),
    MoveRule(source="awake", to="stopped", limit_s=30, frees=True),
)


def world(jobs: int) -> Snapshot:
    """Four devices, two services, that many queued jobs with different sizes and priorities."""
    draft = Draft(Snapshot(now_s=1000.0), 1000.0)
    services = tuple(
        ServiceSpec(
            name=name,
            driver="process",
            argv=("serve",),
            forms=(Form(name="awake", declared_bytes=16 * GIB), Form(name="stopped", declared_bytes=0)),
            moves=SERVICE_MOVES,
        )
        for name in ("chat", "code")
    )
    wishes.apply(draft, Configure(services=services, recipes=()))
    for number in range(jobs):
        forms = (
            Form(name="running", declared_bytes=(4 + number % 17) * GIB),
            Form(name="stopped", declared_bytes=0),
        )
        spec = JobSpec(
            name=f"job{number}",
            driver="restart",
            argv=("work",),
            forms=forms,
            moves=JOB_MOVES,
            priority=number % 101,
        )
        wishes.apply(draft, AddJob(spec=spec))
    for index in range(4):
        fold(draft, reading(index, 1000.0))
    return draft.done()


def reading(index: int, at_s: float) -> DeviceRead:
    total = 24 * GIB
    return DeviceRead(
        device=f"local/gpu{index}",
        name=f"gpu{index}",
        index=index,
        at_s=at_s,
        total_bytes=total,
        used_bytes=0,
        free_bytes=total,
        seen={},
    )


def read_all(draft: Draft, now_s: float) -> None:
    for index in range(4):
        fold(draft, reading(index, now_s))


def turn(s: Snapshot, now_s: float, work: Callable[[Draft], object]) -> Snapshot:
    draft = Draft(s, now_s)
    work(draft)
    decided(draft, decide(draft.view()))
    return draft.done()


def measure(name: str, s: Snapshot, work: Callable[[Draft, float], object]) -> None:
    times = []
    for number in range(TURNS):
        now_s = 2000.0 + number
        began = time.perf_counter()
        turn(s, now_s, lambda draft: work(draft, now_s))  # noqa: B023 - called at once
        times.append((time.perf_counter() - began) * 1e3)
    times.sort()
    print(
        f"{name:34s} median {statistics.median(times):7.3f} ms   p99 {times[int(len(times) * 0.99)]:7.3f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    jobs = parser.parse_args().jobs
    s = world(jobs)
    for number in range(20):
        s = turn(s, 1010.0 + number, lambda draft: fold(draft, reading(0, draft.now_s)))
    collecting.settle()
    print(f"{jobs} queued jobs, 4 devices, 2 services, {len(s.present)} present")
    measure("idle turn", s, lambda draft, now_s: None)
    measure("turn with four readings", s, read_all)
    spec = next(h.spec for h in s.holders.values() if isinstance(h.spec, JobSpec))
    command = AddJob(spec=replace(spec, name="new"))
    measure("turn with a new job", s, lambda draft, now_s: wishes.apply(draft, command))


if __name__ == "__main__":
    main()
