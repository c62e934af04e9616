"""The SQLite store: write-ahead log, FULL commits, one writer thread that commits what waits as one group."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, select, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from headway.errors import StoreFailed
from headway.ports import Batch, Keeper, Kept, Saved, Store
from headway.store import batches, tables
from headway.store.migrate import MIGRATIONS
from headway.store.opening import IN_MEMORY, reading_engine, store_failed, writing_engine

T = TypeVar("T")
GROUP_MAX = 256  # batches in one transaction
LOCKED_LIMIT_S = 60.0
HISTORY_KEPT = 500_000  # rows of the audit, and of finished requests; the config says other numbers
CLOSING_LIMIT_S = 5.0  # the same while the daemon ends: whoever starts it again must not wait a minute


@dataclass(frozen=True, slots=True)
class _Waiting:
    batch: Batch
    future: asyncio.Future[None]


Results = list[tuple[_Waiting, StoreFailed | None]]


class SqliteStore(Store, Keeper):
    """`Store` over one file. `":memory:"` lasts as long as the object and commits in the caller's thread.

    Args:
        path: the database. It is made, readable by its owner only, where it is missing.
        locked_limit_s: how long a batch waits for another program's lock before it fails. The loop sees
            silence until then, not an error.
        migrations: the files that make the schema, in order.

    Attributes:
        events_kept, requests_kept: how many rows of history stay; may be set at any time.

    Raises:
        StoreTooNew: a newer Headway wrote it; it was not touched.
        StoreFailed: it cannot be opened or brought to the newest schema.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        locked_limit_s: float = LOCKED_LIMIT_S,
        migrations: Sequence[Path] = MIGRATIONS,
    ) -> None:
        self._path = str(path)
        self._locked_limit_s = locked_limit_s
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._closed = False
        self.events_kept = self.requests_kept = HISTORY_KEPT
        try:
            self._engine = writing_engine(self._path, migrations)
            self._db: Connection | None = self._engine.connect()
        except (sqlite3.Error, DBAPIError, OSError) as error:
            raise store_failed(self._path, error) from error
        self._thread: threading.Thread | None = None
        if self._path != IN_MEMORY:
            self._thread = threading.Thread(target=self._write_all, name="headway-store", daemon=True)
            self._thread.start()

    def load(self) -> Saved:
        """What is saved, as of now; batches that wait are not in it.

        Raises:
            StoreFailed: the database cannot be read.
        """
        return replace(self._reading(_load), file=self._path)

    def kept(self) -> tuple[Kept, ...]:
        """The small documents of the API. Raises StoreFailed."""
        return self._reading(_kept)

    def _reading(self, read: Callable[[Connection], T]) -> T:
        engine = self._engine if self._path == IN_MEMORY else reading_engine(self._path)
        try:
            with engine.connect() as db:
                return read(db)
        except DBAPIError as error:
            raise store_failed(self._path, error) from error
        finally:
            if engine is not self._engine:
                engine.dispose()

    def look(self, sql: str) -> list[tuple[object, ...]]:
        """The rows that a SELECT finds, in a store in memory."""
        with self._engine.connect() as db:
            return [tuple(row) for row in db.execute(text(sql))]

    def save(self, batch: Batch) -> asyncio.Future[None]:
        """Put the batch at the end of the queue; call it in the event loop.

        The future is done after the commit. It raises StoreFailed when nothing of the batch was saved: at once for
        a full disk or a bad batch (others are not affected), after `locked_limit_s` for a locked database.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(batch, future)
        if self._closed:
            _settle([(waiting, StoreFailed("the store is closed: Headway is ending.", reason="closed"))])
        elif self._thread is None:
            _settle(self._commit([waiting]))
        else:
            self._queue.put(waiting)
        return future

    async def keep(self, put: Sequence[Kept] = (), gone: Sequence[tuple[str, str]] = ()) -> None:
        await self.save(Batch(kept=tuple(put), kept_gone=tuple(gone)))

    async def close(self) -> None:
        """Wait until everything queued is saved or has failed, then close the file. Safe to call twice.

        A database that another program keeps locked makes this take up to CLOSING_LIMIT_S.
        """
        if self._closed:
            return
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)
        self._disconnect()
        self._engine.dispose()

    # ---------------------------------------------------------------- in the writer thread

    def _write_all(self) -> None:
        """Until the closing mark: take everything that waits, commit it, tell the loop once."""
        ending = False
        while not ending:
            group: list[_Waiting] = []
            while not group or (
                len(group) < GROUP_MAX and not self._queue.empty()
            ):  # nobody else takes from it
                item = self._queue.get()
                if item is None:
                    ending = True
                    break
                group.append(item)
            if group:
                _tell(group[0].future.get_loop(), self._commit(group))

    def _commit(self, group: list[_Waiting]) -> Results:
        """Commit the group as one transaction; if that fails, each alone, in order."""
        error = self._attempt(group)
        if error is None or len(group) == 1:
            return [(waiting, error) for waiting in group]
        if error.facts["reason"] == "locked":  # no batch is to blame, and each would wait as long again
            return [(waiting, error) for waiting in group]
        return [(waiting, self._attempt([waiting])) for waiting in group]

    def _attempt(self, group: list[_Waiting]) -> StoreFailed | None:
        """One transaction, tried again while another program holds the lock. Any other error rolls it back."""
        began_s = time.monotonic()
        while True:
            try:
                self._write(group)
                return None
            except Exception as error:  # whatever it was: nothing was saved, and the futures must say so
                failed = store_failed(self._path, error)
            self._disconnect()
            limit_s = min(self._locked_limit_s, CLOSING_LIMIT_S) if self._closed else self._locked_limit_s
            if failed.facts["reason"] != "locked" or time.monotonic() - began_s > limit_s:
                return failed

    def _write(self, group: list[_Waiting]) -> None:
        if self._db is None:
            self._db = self._engine.connect()
        with self._db.begin():
            for waiting in group:
                batches.write(self._db, waiting.batch)
            if any(waiting.batch.events or waiting.batch.requests for waiting in group):
                batches.prune(self._db, self.events_kept, self.requests_kept)

    def _disconnect(self) -> None:
        """After an error nobody knows what state a connection is in: the next attempt opens another."""
        if self._db is not None:
            try:
                self._db.close()
            except SQLAlchemyError:
                pass  # the file is what counts, and the transaction in it was never committed
            self._db = None


def _settle(results: Results) -> None:
    for waiting, error in results:
        if waiting.future.done():
            continue  # cancelled: nobody waits for it any more
        if error is None:
            waiting.future.set_result(None)
        else:
            waiting.future.set_exception(error)


def _tell(loop: asyncio.AbstractEventLoop, results: Results) -> None:
    try:
        loop.call_soon_threadsafe(_settle, results)
    except RuntimeError:
        pass  # the loop is closed: nobody is left to hear it


def _kept(db: Connection) -> tuple[Kept, ...]:
    with db.begin():
        rows = db.execute(select(tables.kept).order_by(tables.kept.c.kind, tables.kept.c.key))
        return tuple(Kept(kind=row.kind, key=row.key, doc=row.doc, wall_s=row.wall_s) for row in rows)


def _load(db: Connection) -> Saved:
    with db.begin():
        holders = db.execute(select(tables.holder).order_by(tables.holder.c.id))
        pending = db.execute(select(tables.intent).order_by(tables.intent.c.holder))
        offsets = db.execute(select(tables.log_offset).order_by(tables.log_offset.c.source))
        meta = db.execute(select(tables.meta).order_by(tables.meta.c.key))
        return Saved(
            holders=tuple((row.id, row.kind, row.doc) for row in holders),
            pending=tuple((row.holder, row.doc) for row in pending),
            offsets={row.source: row.offset for row in offsets},
            meta={row.key: row.value for row in meta},
        )
