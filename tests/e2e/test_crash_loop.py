"""A daemon that crashes again and again comes up with the queue held, until somebody releases it by name."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.e2e.loads import cli, up
from tests.e2e.stack import LIMIT_S, Stack
from tests.e2e.tables import Table, config, sleeper, tiny
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]


def crash(headway: Stack) -> None:
    headway.kill("daemon")
    headway.wait(headway.daemon_answers, "the next daemon")


def restarted(headway: Stack) -> None:
    """By a person: Ctrl-C, and `headway up` again."""
    pid = headway.pid("up")
    os.kill(pid, signal.SIGINT)
    wait_for(lambda: not headway.pids("up"), LIMIT_S, "the end of headway up")
    headway.up()


def held(headway: Stack) -> str | None:
    found: str | None = headway.api("/api/v1/status")["queue_held_by"]
    return found


def test_no_job_starts_after_a_crash_loop_until_the_queue_is_released(stack: Up) -> None:
    runs = sleeper("runs", size="1GiB", placement="share")
    table = config(runs, tiny("chat", "8GiB"), crash_starts=3, max_active_jobs=9)
    headway = up(stack, table)
    headway.wait_job("runs", "running")
    crash(headway)
    crash(headway)
    restarted(headway)  # that one was told to end: the count begins anew
    crash(headway)
    crash(headway)
    assert held(headway) is None
    crash(headway)
    assert held(headway) == "headway"
    added = cli(headway, "add", "-q", "--gpu", "1GiB", "--placement", "share", "--", "true")
    job = added.stdout.strip()
    headway.wait(lambda: headway.job(job)["code"] == "queue_held", "the reason")
    assert headway.job("runs")["state"] == "running" and headway.ask("chat").status == 200
    assert (
        "queue release" in cli(headway, "why", job).stdout
        and "queue release" in cli(headway, "status").stdout
    )
    restarted(headway)
    assert held(headway) == "headway" and headway.job(job)["state"] == "queued"
    assert cli(headway, "queue", "release").returncode == 0
    headway.wait_job(job, "done")
    assert held(headway) is None


def test_somebody_who_restarts_it_again_and_again_is_no_crash_loop(stack: Up) -> None:
    headway = up(stack, config(sleeper("runs", size="1GiB", placement="share"), crash_starts=2))
    for _ in range(3):
        restarted(headway)
    assert held(headway) is None
