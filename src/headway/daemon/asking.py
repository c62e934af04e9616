"""What jobs say of themselves: asked for while they run, and once more when a run is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from headway.core.facts import Fact, JobTold
from headway.core.model import Job, Snapshot

EVERY_S = 5.0


class Asker:
    """Args:
    told: what a job says now: a JobTold, or a coroutine of one; None: nobody is asked.
    """

    def __init__(
        self,
        told: Callable[[Job], object] | None,
        tell: Callable[[Fact], None],
        snapshot: Callable[[], Snapshot],
        spawn: Callable[[str, Coroutine[Any, Any, Any]], None],
    ) -> None:
        self._told, self._tell, self._snapshot, self._spawn = told, tell, snapshot, spawn
        self._asked_s: dict[str, float] = {}

    def tick(self, now_s: float) -> None:
        """Ask everybody who runs and was not asked for a while."""
        s = self._snapshot()
        for hid in s.present if self._told is not None else ():
            job = s.holders[hid]
            if not isinstance(job, Job) or job.form != job.top:
                continue
            if now_s - self._asked_s.get(hid, float("-inf")) >= EVERY_S:
                self._asked_s[hid] = now_s
                self._spawn(f"ask {hid}", self._ask(job))

    def last_words(self, hid: str) -> None:
        """A job whose run is over may still print what came of it."""
        job = self._snapshot().holders.get(hid)
        if isinstance(job, Job) and job.spec.summary and self._told is not None:
            self._spawn(f"ask {hid}", self._ask(job))

    async def _ask(self, job: Job) -> None:
        assert self._told is not None
        answer = self._told(job)
        told = await answer if asyncio.iscoroutine(answer) else answer
        if isinstance(told, JobTold):
            self._tell(told)
