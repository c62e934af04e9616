"""What a meter says beside memory: it is shown, and never a reason to decide again."""

from dataclasses import replace
from typing import Any

import pytest

from headway.core import view
from headway.core.draft import Draft
from headway.core.fold import fold
from headway.core.model import Snapshot
from headway.daemon.observe import FRESH_S, Watcher
from headway.ports import DeviceReading, Reading
from tests.core.make import gib
from tests.parts.fake_runs import FakeRuns
from tests.parts.fake_store import FakeClock

pytestmark = pytest.mark.contract


class Eyes:
    """A watcher over a state that changes with what it tells."""

    def __init__(self) -> None:
        self.s = Snapshot(now_s=0.0, holders={})
        self.watcher = Watcher(
            runs=FakeRuns(),
            drivers={},
            clock=FakeClock(),
            tell=lambda fact: None,
            snapshot=lambda: self.s,
            spawn=lambda what, work: work.close(),
            read_now=lambda: None,
        )

    def read(self, at_s: float, free: int = 20, **extra: Any) -> int:
        """How many facts a reading with that beside its memory made; they are taken in."""
        device = DeviceReading(
            id="local/gpu0", name="gpu0", index=0, total_bytes=gib(24), used_bytes=gib(24 - free),
            free_bytes=gib(free), processes=(), extra=extra,
        )  # fmt: skip
        facts = list(self.watcher.reading(Reading(at_s=at_s, devices=(device,))))
        draft = Draft(self.s, at_s)
        for fact in facts:
            fold(draft, fact)
        self.s = replace(draft.done(), now_s=at_s)
        return len(facts)

    def shown(self) -> tuple[Any, ...]:
        (row,) = view.devices(self.s)
        return row.model, row.util_percent, row.temp_c, row.power_w


async def test_what_a_meter_says_is_shown_and_what_it_does_not_say_is_unknown() -> None:
    eyes = Eyes()
    eyes.read(1.0, model="NVIDIA Fake", util_percent=37, temp_c=55, power_w=212.5)
    assert eyes.shown() == ("NVIDIA Fake", 37.0, 55.0, 212.5)
    eyes.read(20.0, temp_c=0)
    assert eyes.shown() == (None, None, 0.0, None)
    eyes.read(40.0, util_percent="busy", model=7)
    assert eyes.shown() == (None, None, None, None)


async def test_a_gauge_that_changes_alone_is_told_with_the_next_reading_that_is_due() -> None:
    eyes = Eyes()
    assert eyes.read(1.0, util_percent=10) == 1
    assert eyes.read(2.0, util_percent=90) == 0 and eyes.shown()[1] == 10.0
    assert eyes.read(3.0, free=19, util_percent=90) == 1 and eyes.shown()[1] == 90.0
    assert eyes.read(3.0 + FRESH_S, free=19, util_percent=20) == 1 and eyes.shown()[1] == 20.0
