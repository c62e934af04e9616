"""A store and a journal in memory that are late, fail and recover when the test says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from headway.errors import StoreFailed
from headway.ports import Batch, Saved


class FakeStore:
    """Implements ports.Store. `mode`: commits at once, hangs until `speak`, or fails."""

    def __init__(self, mode: str = "ok") -> None:
        self.mode = mode
        self.committed: list[Batch] = []
        self.attempts = 0
        self.holders: dict[str, tuple[str, str]] = {}
        self.pending: dict[str, str] = {}
        self.meta: dict[str, str] = {}
        self.offsets: dict[str, int] = {}
        self._waiting: list[tuple[Batch, asyncio.Future[None]]] = []

    def load(self) -> Saved:
        rows = tuple((hid, kind, doc) for hid, (kind, doc) in sorted(self.holders.items()))
        pending = tuple(sorted(self.pending.items()))
        return Saved(holders=rows, pending=pending, offsets=dict(self.offsets), meta=dict(self.meta))

    def save(self, batch: Batch) -> asyncio.Future[None]:
        self.attempts += 1
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.mode == "ok":
            self._commit(batch)
            future.set_result(None)
        elif self.mode == "fails":
            future.set_exception(StoreFailed("disk full", reason="full"))
        else:
            self._waiting.append((batch, future))
        return future

    def speak(self, well: bool = True) -> None:
        """Whatever hangs is committed, or fails."""
        self.mode = "ok"
        waiting, self._waiting = self._waiting, []
        for batch, future in waiting:
            if not well:
                future.set_exception(StoreFailed("disk full", reason="full"))
                continue
            self._commit(batch)
            future.set_result(None)

    def forget(self) -> None:
        """The process is gone: what hangs will never be committed."""
        self._waiting.clear()

    async def close(self) -> None:
        self.speak()

    def codes(self) -> list[str]:
        """Codes of the committed events, in the order of their rows."""
        return [event.code for batch in self.committed for event, _ in batch.events]

    def _commit(self, batch: Batch) -> None:
        self.committed.append(batch)
        for hid in batch.holders_gone:
            self.holders.pop(hid, None)
        for hid in batch.pending_gone:
            self.pending.pop(hid, None)
        self.holders |= {hid: (kind, doc) for hid, kind, doc in batch.holders}
        self.pending |= dict(batch.pending)
        self.meta |= batch.meta
        self.offsets |= batch.offsets


class FakeJournal:
    """Implements ports.Journal. What goes in is JSON, as in life."""

    file = "journal.ndjson"

    def __init__(self, *entries: dict[str, Any]) -> None:
        self.entries = list(entries)
        self.broken = False

    def append(self, doc: Mapping[str, Any]) -> None:
        if self.broken:
            raise StoreFailed("the journal could not be written", reason="journal")
        self.entries.append(json.loads(json.dumps(dict(doc))))

    def read(self) -> dict[int, dict[str, Any]]:
        return dict(enumerate(self.entries, 1))

    def clear(self) -> None:
        if self.broken:
            raise OSError("read-only")
        self.entries.clear()


class FakeClock:
    """Real time that a test may push forward."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.offset_s = now_s - asyncio.get_running_loop().time()

    def now_s(self) -> float:
        return asyncio.get_running_loop().time() + self.offset_s

    def wall_s(self) -> float:
        return 1_700_000_000.0 + self.now_s()
