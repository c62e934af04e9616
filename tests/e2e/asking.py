"""Requests sent in the background of a test that itself waits for states."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import aiohttp

from demo.client import Answer, ask

T = TypeVar("T")
LIMIT_S = 60.0


class Asking:
    """A thread with an event loop. `send` answers at once with a Future; `close` gives up what is under way."""

    def __init__(self, url: Callable[[], str]) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="asking", daemon=True)
        self._thread.start()
        self._session = self.work(self._open()).result(LIMIT_S)

    async def _open(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    def work(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run any coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def send(self, model: str, *, stream: bool = True, limit_s: float = LIMIT_S) -> Future[Answer]:
        """One chat request to the front door."""
        return self.work(ask(self._session, self._url(), model, stream=stream, limit_s=limit_s))

    def close(self) -> None:
        """End every request under way, and the thread."""
        self.work(self._close()).result(LIMIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        own = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not own]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._session.close()
