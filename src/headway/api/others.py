"""Model servers on this machine that are not ours, as far as their routes tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from headway.ports import Clock, FoundServer

FRESH_S = 60.0


class Others:
    """Looked for when somebody asks, at most once a minute however many do; it takes seconds, in a thread.

    Args:
        find: asks the servers, but for those at the ports given.
    """

    def __init__(self, find: Callable[[Collection[int]], list[FoundServer]], clock: Clock) -> None:
        self._find, self._clock = find, clock
        self._look: asyncio.Future[list[FoundServer]] | None = None
        self._at_s = 0.0

    async def servers(self, without: Collection[int]) -> list[FoundServer]:
        """Those that were found last. Raises OSError."""
        look, now_s = self._look, self._clock.now_s()
        if look is None or (look.done() and (look.exception() or now_s - self._at_s > FRESH_S)):
            look = asyncio.get_running_loop().run_in_executor(None, self._find, frozenset(without))
            self._look, self._at_s = look, now_s
        return await asyncio.shield(look)  # others wait for the same one
