"""History for people, read beside the writer by threads that cannot write."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Column, Table, select
from sqlalchemy.exc import DBAPIError

from headway.core.model import DeviceId, HolderId
from headway.core.samples import Rollup, Span
from headway.ports import Reader
from headway.store import samples, tables
from headway.store.opening import reading_engine, store_failed

T = TypeVar("T")
THREADS = 2


class SqliteReader(Reader):
    """Pages of history by id, oldest first. `after` is the last id seen; below 0 means the newest `limit` rows.

    Raises (its methods):
        StoreFailed: the database cannot be read.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = str(path)
        self._engine = reading_engine(self._path, THREADS)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="headway-reader")

    async def events(self, holder: HolderId | None, after: int, limit: int) -> list[dict[str, Any]]:
        """Rows with id, at_s (boottime), wall_s (seconds since the epoch), code, holder, and `facts` as a dict."""
        rows = await self._page(tables.event, tables.event.c.holder, holder, after, limit)
        return [row | {"facts": json.loads(row["facts"])} for row in rows]

    async def requests(self, service: HolderId | None, after: int, limit: int) -> list[dict[str, Any]]:
        """Rows with id, source, offset, service, class, started, status, waited_s, and the log's line as `doc`.

        `doc` is a dict; empty where the line was no JSON.
        """
        rows = await self._page(tables.request, tables.request.c.service, service, after, limit)
        return [row | {"doc": _parsed(row["doc"])} for row in rows]

    async def memory(self, device: DeviceId, asked: Span) -> list[Rollup]:
        """Memory over time: for each bucket of the span a row of whoever held any, and one of the device itself."""

        def read() -> list[Rollup]:
            with self._engine.connect() as db:
                return samples.read(db, device, asked)

        return await self._in_thread(read)

    async def close(self) -> None:
        """Close the connections once what is being read is done."""
        await asyncio.to_thread(self._threads.shutdown)
        self._engine.dispose()

    async def _page(
        self, table: Table, column: Column[Any], value: str | None, after: int, limit: int
    ) -> list[dict[str, Any]]:
        def read() -> list[dict[str, Any]]:
            query = select(table).limit(limit)
            if value is not None:
                query = query.where(column == value)
            newest = after < 0
            query = query.order_by(table.c.id.desc() if newest else table.c.id)
            if not newest:
                query = query.where(table.c.id > after)
            with self._engine.connect() as db:
                rows = [dict(row) for row in db.execute(query).mappings()]
            return rows[::-1] if newest else rows

        return await self._in_thread(read)

    async def _in_thread(self, read: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, read)
        except DBAPIError as error:
            raise store_failed(self._path, error) from error


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
