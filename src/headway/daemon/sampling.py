"""Memory over time: a look each second, kept in the database whenever ten seconds are over.

Nothing is decided from it, so it goes past the loop: no turn waits for these rows, and a disk that does not take them
costs nothing but them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from headway.core.model import Snapshot
from headway.core.samples import Rollup, looked, rolled
from headway.ports import Batch, Clock, Store

EVERY_S = 1.0
CLOSES_S = 10  # a crash costs the looks since the last multiple of this
UNSAVED_MAX = 5_000  # looks at one series that wait for a disk; then the oldest go


class Sampling:
    """Of one daemon. By the wall clock: set back, what comes is added to what there is of that time already."""

    def __init__(
        self, store: Store, clock: Clock, snapshot: Callable[[], Snapshot], pace: float = 1.0
    ) -> None:
        self._store, self._clock, self._snapshot, self._pace = store, clock, snapshot, pace
        self._looks: list[Rollup] = []
        self._saving: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Until cancelled: then what is there is saved before the store closes."""
        try:
            while True:
                self.look()
                await asyncio.sleep(EVERY_S * self._pace)
        except asyncio.CancelledError:
            self._save()
            raise

    def look(self) -> None:
        """Now."""
        at_s = int(self._clock.wall_s())
        if self._looks and self._looks[-1].at_s // CLOSES_S != at_s // CLOSES_S and self._saving is None:
            self._save()
        self._looks += looked(self._snapshot(), at_s)
        del self._looks[:-UNSAVED_MAX]

    def _save(self) -> None:
        if self._looks:
            looks, self._looks = self._looks, []
            self._saving = self._store.save(Batch(rollups=rolled(looks)))
            self._saving.add_done_callback(partial(self._saved, looks))

    def _saved(self, looks: list[Rollup], done: asyncio.Future[None]) -> None:
        """Of a batch that failed nothing was written: its looks go with the next."""
        self._saving = None
        if done.cancelled() or done.exception() is not None:
            self._looks = (looks + self._looks)[-UNSAVED_MAX:]
