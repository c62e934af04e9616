"""History for people, read beside the writer by threads that cannot write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import structlog
from sqlalchemy import Column, ColumnElement, Table, select, text
from sqlalchemy.exc import DBAPIError

from headway.core.model import DeviceId
from headway.core.past import FAILED, DayRow, Slice
from headway.core.samples import Rollup, Span
from headway.ports import Reader
from headway.store import days, samples, tables
from headway.store.opening import reading_engine, store_failed
from headway.store.sound import document, odd_column

T = TypeVar("T")
THREADS = 2
log = structlog.get_logger("headway")


class SqliteReader(Reader):
    """Pages of history by id, oldest first.

    Raises (its methods):
        StoreFailed: the database cannot be read.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = str(path)
        self._engine = reading_engine(self._path, THREADS)
        self._told: set[tuple[str, int]] = set()  # damaged rows
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="headway-reader")

    async def events(self, asked: Slice) -> list[dict[str, Any]]:
        """Rows with id, at_s (boottime), wall_s (seconds since the epoch), code, holder, and `facts` as a dict.

        `facts` is None where they are damaged.
        """
        return await self._events(asked)

    async def swaps(self, asked: Slice) -> list[dict[str, Any]]:
        """Those of these rows that are the end of a move of a model server."""
        return await self._events(asked, tables.event.c.swap == text("1"))

    async def _events(self, asked: Slice, *more: ColumnElement[bool]) -> list[dict[str, Any]]:
        event = tables.event
        named = [event.c.code.in_(asked.codes)] if asked.codes else []
        failed = [event.c.code == FAILED] if asked.failed else []
        rows = await self._page(event, event.c.holder, asked, [*more, *named, *failed])
        for row in rows:
            row["facts"] = document(row["facts"])
            del row["swap"]
        return rows

    async def requests(self, asked: Slice) -> list[dict[str, Any]]:
        """Rows with id, source, offset, service, class, started, status, waited_s, failed, and the line as `doc`.

        `doc` is a dict; empty where the line was no JSON object.
        """
        request = tables.request
        failed = [request.c.failed == text("1")] if asked.failed else []
        rows = await self._page(request, request.c.service, asked, failed)
        return [row | {"doc": document(row["doc"]) or {}, "failed": bool(row["failed"])} for row in rows]

    async def days(self, last: int) -> list[DayRow]:
        """The last days of which anything is known, oldest first."""

        def read() -> list[DayRow]:
            with self._engine.connect() as db:
                return days.read(db, last)

        return await self._in_thread(read)

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
        self, table: Table, about: Column[Any], asked: Slice, also: Sequence[ColumnElement[bool]]
    ) -> list[dict[str, Any]]:
        key, newest = table.c.id, asked.before is not None
        query = select(table).where(key > asked.after, *also)
        if newest:
            query = query.where(key < asked.before)
        query = query.order_by(key.desc() if newest else key)
        if asked.about is not None:
            query = query.where(about == asked.about)

        def read() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = []
            with self._engine.connect() as db:
                more = query
                while (left := asked.limit - len(found)) > 0:  # a page that is not full is the last one
                    rows = [dict(row) for row in db.execute(more.limit(left)).mappings()]
                    found += [row for row in rows if self._is_sound(table, row)]
                    if len(rows) < left:
                        break
                    more = query.where(key < rows[-1]["id"] if newest else key > rows[-1]["id"])
            return found[::-1] if newest else found

        return await self._in_thread(read)

    def _is_sound(self, table: Table, row: dict[str, Any]) -> bool:
        """A damaged row is left out, and said once: it must not keep the others from being read."""
        if (column := odd_column(row, table)) is None:
            return True
        if (at := (table.name, row["id"])) not in self._told:
            self._told.add(at)
            log.error("a row cannot be read and is left out", table=table.name, id=row["id"], column=column)
        return False

    async def _in_thread(self, read: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, read)
        except DBAPIError as error:
            raise store_failed(self._path, error) from error
