"""A launch that is given up: the stop after it finds what was launched."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headway.drivers.launching import ensure_launched
from headway.ports import RunSpec
from tests.parts.fake_runs import FakeRuns

pytestmark = pytest.mark.contract


class SlowDisk(FakeRuns):
    """Its launch takes until it is let go on."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.on = threading.Event(), threading.Event()

    def launch(self, spec: RunSpec) -> None:
        self.begun.set()
        assert self.on.wait(30.0)
        super().launch(spec)


async def test_who_gives_a_launch_up_waits_until_it_was_made() -> None:
    runs = SlowDisk()
    move = asyncio.create_task(ensure_launched(runs, RunSpec(id="a.1", holder="a", argv=("x",))))
    await asyncio.to_thread(runs.begun.wait, 30.0)
    move.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not move.done() and runs.read("a.1") is None
    runs.on.set()
    with pytest.raises(asyncio.CancelledError):
        await move
    assert runs.read("a.1") is not None
