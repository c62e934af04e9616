"""Jobs that are over, counted for the board: from what changed since it was last asked, not by a walk over all jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from headway.core.model import HolderId, Job
from headway.ports import Hub

DAY_S = 86_400.0
WRONG = ("failed", "lost")


class Over:
    def __init__(self) -> None:
        self._revision: int | None = None
        self._ends: dict[HolderId, str] = {}
        self._wrong_s: dict[HolderId, float] = {}  # when each of those ended that went wrong
        self._counts: Counter[str] = Counter()

    def of(self, hub: Hub) -> Mapping[str, int]:
        """How many ended in each way: done, failed, cancelled, lost. None of a kind: it is left out."""
        self._follow(hub)
        return {word: n for word, n in sorted(self._counts.items()) if n}

    def wrong_in_a_day(self, hub: Hub) -> int:
        """How many failed or were lost in the last 24 hours."""
        self._follow(hub)
        since_s = hub.snapshot.now_s - DAY_S
        for hid in [hid for hid, ended_s in self._wrong_s.items() if ended_s < since_s]:
            del self._wrong_s[hid]  # asked 20 times a second: only those of a day are looked through
        return len(self._wrong_s)

    def _follow(self, hub: Hub) -> None:
        if self._revision == hub.revision:
            return
        changed = None if self._revision is None else hub.changed_since(self._revision)
        self._revision = hub.revision
        if changed is None:
            self._ends, self._wrong_s, self._counts = {}, {}, Counter()
        self._look(hub, hub.snapshot.holders if changed is None else changed)

    def _look(self, hub: Hub, ids: Iterable[HolderId]) -> None:
        holders = hub.snapshot.holders
        for hid in ids:
            if before := self._ends.pop(hid, None):
                self._counts[before] -= 1
                self._wrong_s.pop(hid, None)
            if not isinstance(job := holders.get(hid), Job) or job.ended is None:
                continue
            self._ends[hid] = job.ended
            self._counts[job.ended] += 1
            if job.ended in WRONG:
                self._wrong_s[hid] = job.ended_s or 0.0
