"""Forty jobs that take their memory long after they started: what is not allocated yet is not free."""

from collections.abc import Callable

import pytest

from demo.memory_watch import MemoryWatch
from tests.e2e.stack import Row, Stack
from tests.e2e.tables import Entry, Table, config, train
from tests.parts.programs import GIB

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]
JOBS, FIFTH, LATE_S = 40, "4.8GiB", 3


def late_job(number: int) -> Entry:
    """Takes a fifth of the card 3 s after its start, and ends right after that; the first four hold it for 2 s."""
    name, steps = f"late{number:02}", 40 if number < 4 else 2
    entry = train(name, FIFTH, "--alloc-late-s", LATE_S, "--steps", steps)
    return Entry("job", name, {key: value for key, value in entry.table.items() if key != "saved"})


def most_at_once(events: list[Row]) -> int:
    """The most jobs that were under way at one time, from being asked to start to the exit of their process.

    A start that was refused right before it began is none.
    """
    running: set[str] = set()
    most = 0
    for event in events:
        if event["code"] != "move.asked":
            running.discard(event["holder"])
        elif event["facts"]["form"] == "running":
            running.add(event["holder"])
        most = max(most, len(running))
    return most


def test_40_jobs_of_a_fifth_of_the_card_that_allocate_late_run_four_at_a_time(stack: Up) -> None:
    headway = stack(config(*map(late_job, range(JOBS)), max_active_jobs=JOBS))
    with MemoryWatch(headway.reports) as memory:
        headway.wait(lambda: headway.job("late00")["state"] == "done", "the first one's end")
        headway.wait(lambda: not headway.jobs(ended=False), "the end of all of them", limit_s=110)
    rows = headway.jobs()
    assert len(rows) == JOBS
    assert {row["state"] for row in rows} == {"done"}
    assert [row["exit_code"] for row in rows] == [0] * JOBS, "none ran out of memory"
    assert {row["failures"] for row in rows} == {0}
    assert most_at_once(headway.events("move.asked", "move.refused", "run.exit")) == 4
    assert max(len(held.by_pid) for held in memory.trace) == 4, "four had their memory at once"
    assert memory.most_bytes() <= 24 * GIB
    assert len(headway.events("move.done")) == JOBS, "each ran once"
