"""The daemon's standing tasks and short errands: none is forgotten, none fails in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any


class Tasks:
    """Owns every task that is not a move.

    Args:
        trouble: called with the name and error of one that failed.
        vital: names without which the daemon is worse than none; when one of them fails, `lost` is called.
    """

    def __init__(
        self,
        trouble: Callable[[str, BaseException], None],
        vital: Collection[str] = (),
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._trouble, self._vital, self._lost = trouble, frozenset(vital), lost
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        """Begin it now."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        self._trouble(task.get_name(), error)
        if task.get_name() in self._vital:
            self._lost()

    async def stop(self) -> None:
        """Give up all of them, and wait until they are over."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
