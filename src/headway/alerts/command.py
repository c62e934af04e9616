"""Alerts by a command of the user's: facts as HEADWAY_* variables and as JSON on its standard input."""

from __future__ import annotations

import asyncio
import json
import os
import time

from headway.core.model import Event

ONCE_IN_S = 3600.0  # per cause
LIMIT_S = 30.0


class CommandAlert:
    """Implements ports.Alert. Without a command it does nothing."""

    CODES = frozenset(
        {
            "memory.not_released",
            "gate.stuck",
            "service.failed",
            "service.died",
            "job.failed",
            "job.held",
            "job.lost",
            "job.over_time",
            "job.stalled",
            "job.unhealthy",
            "meter.silent",
            "store.silent",
        }
    )

    def __init__(self, argv: tuple[str, ...] | None) -> None:
        self._argv = argv
        self._told_s: dict[tuple[str, str | None], float] = {}

    async def send(self, event: Event, sentence: str) -> None:
        """Run the command, at most once an hour for the same cause. Never raises."""
        now_s, cause = time.monotonic(), (event.code, event.holder)
        if self._argv is None or now_s - self._told_s.get(cause, float("-inf")) < ONCE_IN_S:
            return
        self._told_s[cause] = now_s
        facts = {"code": event.code, "holder": event.holder, "message": sentence, **event.facts}
        env = {f"HEADWAY_{name.upper()}": str(value) for name, value in facts.items()}
        try:
            child = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={**os.environ, **env},
                start_new_session=True,
            )
        except (OSError, ValueError):  # ValueError: a word with a NUL in it
            return
        try:
            async with asyncio.timeout(LIMIT_S):
                await child.communicate(json.dumps(facts, default=str).encode())
        except TimeoutError:
            child.kill()
            await child.wait()
