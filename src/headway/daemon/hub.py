"""The present state for everybody who reads: one snapshot, a revision, and what changed since an older one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping

from headway.core.model import HolderId, Snapshot, Verdict

KEPT = 512  # revisions for which "what changed since" can be answered


class StateHub:
    """Implements ports.Hub. Viewers keep a revision; there is no queue per viewer."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._verdicts: Mapping[HolderId, Verdict] = {}
        self._log: deque[tuple[int, frozenset[HolderId]]] = deque(maxlen=KEPT)
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._codes: dict[HolderId, str] = {}
        self.news = True  # did the last turn change a holder, or what is said of one?

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    @property
    def verdicts(self) -> Mapping[HolderId, Verdict]:
        return self._verdicts

    @property
    def revision(self) -> int:
        return self._snapshot.rev

    def publish(
        self, snapshot: Snapshot, verdicts: Mapping[HolderId, Verdict], changed: frozenset[HolderId]
    ) -> None:
        """A turn ended: this is the state now."""
        codes = {hid: verdict.code for hid, verdict in verdicts.items()}
        self.news = bool(changed) or codes != self._codes
        self._codes = codes
        told = {hid for hid in verdicts if self._verdicts.get(hid) != verdicts[hid]}
        self._snapshot, self._verdicts = snapshot, verdicts
        self._log.append((snapshot.rev, changed | told))
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, after: int, limit_s: float) -> int:
        if self.revision <= after:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters[waiter] = None
            try:
                async with asyncio.timeout(limit_s):
                    await waiter
            except TimeoutError:
                pass
            finally:
                self._waiters.pop(waiter, None)
        return self.revision

    def changed_since(self, revision: int) -> frozenset[HolderId] | None:
        if revision >= self.revision:
            return frozenset()
        if not self._log or self._log[0][0] > revision + 1:
            return None
        return frozenset().union(*(ids for rev, ids in self._log if rev > revision))
