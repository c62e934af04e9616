"""Which events people are told of: once an hour per cause, and once more when it is over."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.core.model import Event
from headway.errors import AlertFailed
from headway.ports import AlertSent, AlertWay

ONCE_IN_S = 3600.0  # per cause
CAUSES_MAX = 10_000  # remembered; the oldest go first
QUEUED_MAX = 1000

CODES = frozenset(
    {
        "daemon.crash_loop",
        "device.trouble",
        "disk.low",
        "gate.stuck",
        "job.failed",
        "job.held",
        "job.lost",
        "job.over_time",
        "job.stalled",
        "job.unhealthy",
        "memory.low",
        "memory.not_released",
        "meter.silent",
        "service.died",
        "service.failed",
        "store.silent",
    }
)
UP = ("awake", "running")
# event -> the causes that it ends for the same holder or device, and the forms it must tell of; empty: any
OVER: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "device.seen": (("device.trouble",), ()),
    "disk.enough": (("disk.low",), ()),
    "gate.closed": (("gate.stuck",), ()),
    "gate.open": (("gate.stuck",), ()),
    "job.cancelled": (("job.stalled", "job.unhealthy"), ()),
    "job.done": (("job.failed", "job.lost", "job.over_time", "job.stalled", "job.unhealthy"), ()),
    "job.healthy": (("job.unhealthy",), ()),
    "job.works_again": (("job.stalled",), ()),
    "memory.enough": (("memory.low",), ()),
    "meter.speaks": (("meter.silent",), ()),
    "move.done": (("job.held", "job.over_time", "job.stalled", "service.died", "service.failed"), UP),
    "queue.released": (("daemon.crash_loop",), ()),
    "release.verified": (("memory.not_released",), ()),
    "store.speaks": (("store.silent",), ()),
}
Cause = tuple[str, str | None]  # code, holder or device


@dataclass(slots=True)
class _Told:
    at_s: float
    over: bool = False


class Alerts:
    """Decides at once; a worker (`run`) tells, one after the other, so that no recovery comes before its trouble.

    Args:
        now_s: the clock.
        failed: called with a way's name and the words, when it could not tell.
    """

    def __init__(self, now_s: Callable[[], float], failed: Callable[[str, str], None]) -> None:
        self._now_s, self._failed = now_s, failed
        self._ways: Sequence[AlertWay] = ()
        self._told: dict[Cause, _Told] = {}
        self._queue: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue(QUEUED_MAX)
        self.counts: Counter[tuple[str, str]] = Counter()  # (way, "sent" or "failed")

    def use(self, ways: Sequence[AlertWay]) -> None:
        """Tell by these from now on. What was told a moment ago is not told again."""
        self._ways = tuple(ways)

    def note(self, event: Event, sentence: Callable[[], str]) -> None:
        """Look at one event; tell people of it if they should know. Returns at once."""
        subject = event.holder or event.facts.get("device")
        about = None if subject is None else str(subject)
        if event.code in CODES:
            self._begin((event.code, about), event, sentence)
        causes, forms = OVER.get(event.code, ((), ()))
        if not forms or event.facts.get("form") in forms:
            for code in causes:
                self._over((code, about), event, sentence)

    async def run(self) -> None:
        """Tell what was noted, for ever."""
        while True:
            await self._tell(await self._queue.get())

    async def test(self) -> list[AlertSent]:
        """Tell everybody that this is a test, now, and say what became of it."""
        words = "This is a test by `headway alert test`; nothing is wrong."
        return await self._tell({"state": "test", "code": "test", "holder": None, "message": words})

    def _begin(self, cause: Cause, event: Event, sentence: Callable[[], str]) -> None:
        now_s, before = self._now_s(), self._told.pop(cause, None)
        if before is not None and now_s - before.at_s < ONCE_IN_S:
            self._told[cause] = before
            return
        while len(self._told) >= CAUSES_MAX:
            del self._told[next(iter(self._told))]
        self._told[cause] = _Told(now_s)
        self._put(event.facts, "trouble", event.code, event.holder, sentence())

    def _over(self, cause: Cause, event: Event, sentence: Callable[[], str]) -> None:
        told = self._told.get(cause)
        if told is None or told.over:
            return
        told.over = True
        self._put(event.facts, "recovered", cause[0], event.holder, f"over: {sentence()}")

    def _put(self, facts: Mapping[str, Any], state: str, code: str, holder: str | None, words: str) -> None:
        if not self._ways:
            return
        try:
            self._queue.put_nowait(
                {**facts, "state": state, "code": code, "holder": holder, "message": words}
            )
        except asyncio.QueueFull:
            self.counts["queue", "failed"] += 1

    async def _tell(self, facts: Mapping[str, Any]) -> list[AlertSent]:
        return list(await asyncio.gather(*(self._by(way, facts) for way in self._ways)))

    async def _by(self, way: AlertWay, facts: Mapping[str, Any]) -> AlertSent:
        try:
            await way.tell(facts)
        except AlertFailed as error:
            self.counts[way.name, "failed"] += 1
            self._failed(way.name, str(error))
            return AlertSent(way=way.name, sent=False, error=str(error))
        self.counts[way.name, "sent"] += 1
        return AlertSent(way=way.name, sent=True)
