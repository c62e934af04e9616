"""A machine without enough main memory, or disk, starts no job; it does when the floor is lowered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.loads import cli, up
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, sleeper, tiny

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(("key", "code"), [("host_floor", "host_floor"), ("disk_floor", "disk_floor")])
def test_no_job_starts_below_a_floor_and_models_do(
    stack: Callable[[Table], Stack], key: str, code: str
) -> None:
    job, chat = sleeper("train", size="1GiB", placement="share"), tiny("chat", "8GiB")
    floor: dict[str, Any] = {key: "1000TiB"}
    headway = up(stack, config(job, chat, **floor))
    headway.wait(lambda: headway.job("train")["code"] == code, "the reason")
    assert headway.ask("chat").status == 200 and headway.job("train")["state"] == "queued"
    assert code in [one["code"] for one in headway.api("/api/v1/status")["troubles"]]
    headway.configure(config(job, chat))
    assert cli(headway, "config", "apply").returncode == 0
    headway.wait_job("train", "running")
