"""GPU time given to jobs and leases: counted each second, kept by the day once a minute.

Nothing is decided from it, so it goes past the loop. A crash costs the last minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from headway.core.model import Holder, Job, Lease, Snapshot
from headway.ports import Batch, Clock, Store

EVERY_S = 1.0
KEEP_EVERY_S = 60.0
LONGEST_S = 60.0  # a look that comes later than this was kept from it by a machine that slept
Given = tuple[float, str, float]  # wall clock, name, device seconds


class Giving:
    """Of one daemon."""

    def __init__(
        self, store: Store, clock: Clock, snapshot: Callable[[], Snapshot], pace: float = 1.0
    ) -> None:
        self._store, self._clock, self._snapshot, self._pace = store, clock, snapshot, pace
        self._looked_s = self._kept_s = clock.now_s()
        self._sums: dict[str, float] = {}
        self._saving: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Until cancelled: then what is there is saved before the store closes."""
        try:
            while True:
                self.look()
                await asyncio.sleep(EVERY_S * self._pace)
        except asyncio.CancelledError:
            self.look()
            self.keep()
            raise

    def look(self) -> None:
        """What was given since the last look."""
        now_s, since_s = self._clock.now_s(), self._looked_s
        self._looked_s = now_s
        if now_s - since_s <= LONGEST_S:
            for name, holder in _given(self._snapshot()):
                for_s = now_s - max(since_s, min(now_s, holder.since_s))
                self._sums[name] = self._sums.get(name, 0.0) + for_s * len(holder.devices)
        if now_s - self._kept_s >= KEEP_EVERY_S:
            self.keep()

    def keep(self) -> None:
        """Save it, by the day that it is now. What cannot be saved goes with the next."""
        self._kept_s = self._clock.now_s()
        sums = {name: gpu_s for name, gpu_s in self._sums.items() if gpu_s}
        if sums and self._saving is None:
            self._sums = {}
            wall_s = self._clock.wall_s()
            given = tuple((wall_s, name, gpu_s) for name, gpu_s in sorted(sums.items()))
            self._saving = self._store.save(Batch(given=given))
            self._saving.add_done_callback(lambda done: self._saved(sums, done))

    def _saved(self, sums: dict[str, float], done: asyncio.Future[None]) -> None:
        self._saving = None
        if done.cancelled() or done.exception() is not None:
            for name, gpu_s in sums.items():
                self._sums[name] = self._sums.get(name, 0.0) + gpu_s


def _given(s: Snapshot) -> Iterator[tuple[str, Holder]]:
    """Who has devices now, and the sum of a day that this counts for."""
    for hid in s.present:
        holder = s.holders[hid]
        if holder.form != holder.top or not holder.devices:
            continue
        if isinstance(holder, Job) and holder.ended is None and not holder.frozen_by_gate:
            yield "job_gpu_s", holder
        elif isinstance(holder, Lease) and holder.kind == "lease":
            yield "lease_gpu_s", holder
