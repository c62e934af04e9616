"""A machine without enough main memory, or disk: what does not start, and what is stopped instead of parked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.loads import cli, up
from tests.e2e.stack import Stack
from tests.e2e.tables import Entry, Table, config, render, sleeper, tiny

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


def test_a_job_waits_for_the_main_memory_that_it_says_it_takes(stack: Callable[[Table], Stack]) -> None:
    def said(size: str) -> Table:
        return config(sleeper("train", size="1GiB", host_memory={"running": size}))

    headway = up(stack, said("1000TiB"))
    headway.wait(lambda: headway.job("train")["code"] == "host_short", "the reason")
    headway.configure(said("1MiB"))
    assert cli(headway, "config", "apply").returncode == 0
    headway.wait_job("train", "running")


def parks_to(key: str) -> Entry:
    """A job that says that parking takes more of that than any machine has."""
    entry = render()
    entry.table[key] = {"parked": "1000TiB"}
    return entry


@pytest.mark.parametrize(
    ("key", "event"), [("host_memory", "move.no_memory"), ("disk", "move.no_disk")], ids=["memory", "disk"]
)
def test_a_job_without_room_to_park_is_stopped_for_a_model_and_it_says_what_was_measured(
    stack: Callable[[Table], Stack], key: str, event: str
) -> None:
    headway = up(stack, config(tiny("chat", "16GiB"), parks_to(key)))
    headway.wait_job("render", "running")
    assert headway.ask("chat").status == 200
    (told,) = headway.events(event, holder=headway.job("render")["id"])
    assert (told["facts"]["form"], told["facts"]["instead"]) == ("stopped", "parked")
    assert 0 < told["facts"]["free_bytes"] < told["facts"]["need_bytes"] == 1000 << 40
