"""What the command line says, and does, in the moment in which a daemon is being started again."""

import asyncio
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.config.paths import Paths
from tests.parts.command_line import headway

pytestmark = pytest.mark.contract


@pytest.fixture
def supervised(home: Path) -> Iterator[Path]:
    """A `headway up` whose daemon is not there."""
    paths = Paths.find(home)
    paths.create()
    lock = os.open(paths.run_dir / "up.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield home
    os.close(lock)


async def test_nobody_is_told_to_start_what_is_being_started(supervised: Path) -> None:
    result = await headway(supervised, "status")
    assert (result.exit_code, "headway up` runs" in result.stderr) == (69, True)


async def test_without_it_he_is_told_how_to_start_one(home: Path) -> None:
    result = await headway(home, "status")
    assert (result.exit_code, "Start one with" in result.stderr) == (69, True)


async def test_a_job_waits_for_the_daemon_that_will_know_it(
    supervised: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.cli.add.LOOK_S", 0.01)
    monkeypatch.setattr("headway.cli.add.AWAY_LIMIT_S", 0.2)
    async with asyncio.timeout(60):
        result = await headway(supervised, "add", "train")
    assert (result.exit_code, "on its way" in result.stderr) == (69, True)
