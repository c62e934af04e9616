"""What becomes of jobs over their runs, on a whole Headway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headway.cli.ask import FAILED
from tests.e2e.loads import cli, cli_json, up
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, tiny

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]

OUT = "echo 'CUDA out of memory. Tried to allocate 2 GiB'; exit 1"


def test_limits_attempts_and_verbs_on_many(stack: Up) -> None:
    headway = up(stack, config(tiny("chat"), max_active_jobs=4, backoff_min=0.1))

    def add(*words: str) -> str:
        return cli(headway, "add", *words).stdout.strip()

    def shown(job: str) -> dict[str, Any]:
        found: dict[str, Any] = cli_json(headway, "show", job)
        return found

    long = add("--gpus", "0", "--name", "long", "--max-time", "1s", "--tag", "mine", "--", "sleep", "600")
    crash = add("--gpus", "0", "--retries", "9", "--", "sh", "-c", "echo no such data; exit 3")
    out = add("--gpu", "1GiB", "--driver", "restart", "--tag", "mine", "--", "sh", "-c", OUT)
    stays = add("--gpu", "1GiB", "--name", "stays", "--label", "owner=ana", "--", "sleep", "600")

    headway.wait(lambda: shown(long)["state"] == "held", "the end of its running time")
    assert shown(long)["ran_s"] >= 1.0 and "max_runtime" in shown(long)["why"]
    headway.wait(lambda: shown(crash)["state"] == "held", "a hold after it failed again and again")
    assert "no such data" in shown(crash)["why"]
    assert [row["exit_code"] for row in headway.api(f"/api/v1/holders/{crash}/runs")] == [3, 3, 3]
    assert "no such data" in cli(headway, "log", crash, "--run", "2").stdout
    headway.wait_job(out, "failed")
    assert [e["holder"] for e in headway.events("job.out_of_memory")] == [out]
    assert shown(out)["runs"] == 2

    assert shown(stays)["code"] == "no_way_aside" and shown(stays)["step_aside"] == "none"
    cli(headway, "start", stays, "--anyway")
    headway.wait_job(stays, "running")
    assert cli(headway, "queue").returncode == 0

    assert cli(headway, "hold", "tag=mine,state=running").returncode == FAILED, "nobody is meant"
    assert {row["id"] for row in cli_json(headway, "cancel", "label=owner:ana", crash)} == {stays, crash}
    headway.wait_job(stays, "cancelled")
    cli(headway, "edit", long, "--max-time", "1h", "--priority", "high")
    cli(headway, "release", long)
    headway.wait_job(long, "running")
    cli(headway, "cancel", "--all")
    headway.wait_job(long, "cancelled")
    headway.wait(lambda: cli(headway, "clear", "--all").returncode == 0, "all of them forgotten")
    assert cli_json(headway, "ps", "-a") == []
