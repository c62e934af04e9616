"""Reads the gates' request logs: their lines into the store, and what these tell into the histories, each once.

A history is saved seldom, with the offsets that it is made up to: after a crash the lines behind these are read again,
for it alone. Without one that can be read it is made of the whole log.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from headway.core import gaps
from headway.core.answers import read_line
from headway.core.history import Histories
from headway.core.model import Snapshot
from headway.core.pauses import Table
from headway.daemon.record import Recorder
from headway.daemon.tail import Tail
from headway.ports import Clock, RequestLog, Saved

EVERY_S = 1.0
NEAR_S = 0.1  # a gate writes this often: after an answer, until its line is there
KEEP_EVERY_S = 30.0
KEPT = "history"  # its place among the small facts of the database


class Learning:
    """Of one daemon. `stir` when an answer ended: its line will be there soon."""

    def __init__(
        self,
        log: RequestLog,
        saved: Saved,
        table: Table,
        boot_id: str,
        clock: Clock,
        recorder: Recorder,
        told: Callable[[], None],
        snapshot: Callable[[], Snapshot],
        pace: float = 1.0,
    ) -> None:
        """`told` is called when something was learned."""
        self._clock, self._recorder, self._told, self._snapshot = clock, recorder, told, snapshot
        self._pace, self._stirred = pace, asyncio.Event()
        self.histories, offsets = _restored(saved.meta.get(KEPT), table, boot_id, clock)
        self.tail, self._rows_from = Tail(log, offsets), dict(saved.offsets)
        self._kept_s, self._kept_offsets = clock.now_s(), dict(offsets)

    def stir(self) -> None:
        self._stirred.set()

    async def run(self) -> None:
        """Until cancelled. While the store is silent nothing is read: it would only pile up."""
        while True:
            while self._recorder.ok and self.read():
                await asyncio.sleep(0)
            if self._clock.now_s() >= self._kept_s + KEEP_EVERY_S:
                self.keep()
            s = self._snapshot()
            waits = any((x := s.service(sid)) and gaps.unheard(x, s) for sid in s.services)
            if not waits:
                with suppress(TimeoutError):
                    async with asyncio.timeout(EVERY_S * self._pace):
                        await self._stirred.wait()
            self._stirred.clear()
            await asyncio.sleep(NEAR_S * self._pace)

    def read(self) -> bool:
        """What is new of each file, up to a limit; False: nothing."""
        lines, offsets = self.tail.read()
        if not offsets:
            return False
        fresh = [line for line in lines if line.offset >= self._rows_from.get(line.source, 0)]
        self._recorder.tailed(fresh, {n: max(at, self._rows_from.get(n, 0)) for n, at in offsets.items()})
        for line in lines:
            if (row := read_line(line.doc)) is not None:
                self.histories.learn(row, self._clock.now_s())
        self._told()
        return True

    def keep(self) -> None:
        """Save it with the next turn, if it is another one than the last time."""
        self._kept_s, offsets = self._clock.now_s(), self.tail.offsets()
        if offsets != self._kept_offsets:
            self._kept_offsets = offsets
            doc = {"offsets": offsets, **self.histories.to_doc()}
            self._recorder.meta(**{KEPT: json.dumps(doc, separators=(",", ":"))})


def _restored(
    text: str | None, table: Table, boot_id: str, clock: Clock
) -> tuple[Histories, Mapping[str, int]]:
    """What was saved, and up to where of each log; the beginning of all where it cannot be read."""
    now_s, wall_s = clock.now_s(), clock.wall_s()
    try:
        doc: dict[str, Any] = json.loads(text or "null")
        return Histories(table, boot_id, now_s, wall_s, doc), dict(doc["offsets"])
    except (AttributeError, LookupError, TypeError, ValueError):  # whatever is not as it is written now
        return Histories(table, boot_id, now_s, wall_s), {}
