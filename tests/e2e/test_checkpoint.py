"""A job that is parked by a (fake) cuda-checkpoint: it makes room for a model and goes on; where that fails it is stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.loads import up
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, render, tiny
from tests.parts.driven import fake_checkpoint

pytestmark = pytest.mark.e2e
Stacks = Callable[[Table], Stack]


def begun(stack: Stacks, fake: Path) -> Stack:
    """A stack whose job runs and knows nothing of parking."""
    entry = render()
    entry.table["env"], options = fake_checkpoint(fake)
    entry.table.update(driver="checkpoint", **options)
    del entry.table["park"], entry.table["resume"]
    headway = up(stack, config(tiny("chat", "16GiB"), entry))
    (fake / "reports").write_text(str(headway.reports))
    (fake / "job").write_text(str(headway.home / "render"))
    headway.wait(lambda: (headway.home / "render" / "control.sock").exists(), "the job draws")
    headway.wait_job("render", "running")
    return headway


def test_it_makes_room_and_goes_on_as_the_same_process(stack: Stacks, tmp_path: Path) -> None:
    headway = begun(stack, tmp_path / "fake")
    pid = headway.job("render")["pid"]
    assert headway.ask("chat").status == 200
    headway.wait_job("render", "parked")
    headway.wait_job("render", "running")
    assert headway.job("render")["pid"] == pid
    assert (tmp_path / "fake" / str(pid)).read_text() == "running"


def test_where_it_cannot_be_parked_it_is_stopped_with_its_grace_and_the_program_s_words_are_told(
    stack: Stacks, tmp_path: Path
) -> None:
    headway = begun(stack, tmp_path / "fake")
    pid = headway.job("render")["pid"]
    (tmp_path / "fake" / "traps").write_text(f"checkpoint:{pid}:operation not supported\n")
    assert headway.ask("chat").status == 200
    (failed,) = headway.events("move.failed", holder=headway.job("render")["id"])
    assert (failed["facts"]["form"], failed["facts"]["reason"]) == ("parked", "hook_failed")
    assert "operation not supported" in str(failed["facts"]["lines"])
    (ended,) = headway.events("run.exit", holder=headway.job("render")["id"])
    assert ended["facts"]["exit_code"] != -9
