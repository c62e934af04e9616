"""The SQLite store: write-ahead log, FULL commits, one writer thread that commits what waits as one group."""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from headway.errors import StoreFailed
from headway.ports import Batch, Saved
from headway.store import batches, tables
from headway.store.migrate import MIGRATIONS, migrate, refuse_newer

IN_MEMORY = ":memory:"
GROUP_MAX = 256  # batches in one transaction
BUSY_S = 0.2  # how long SQLite itself waits for another program's lock before the writer asks again
LOCKED_LIMIT_S = 60.0

_WORDS = {
    sqlite3.SQLITE_FULL: ("full", "the disk is full. Free space there"),
    sqlite3.SQLITE_BUSY: ("locked", "another program keeps it locked. End that program"),
    sqlite3.SQLITE_LOCKED: ("locked", "another program keeps it locked. End that program"),
    sqlite3.SQLITE_IOERR: ("io", "the disk gives errors. Check the disk and its free space"),
    sqlite3.SQLITE_READONLY: ("readonly", "it is read-only. Make it writable for this user"),
    sqlite3.SQLITE_CANTOPEN: ("cannot_open", "it cannot be opened. Make its directory writable for this user"),
    sqlite3.SQLITE_CORRUPT: ("corrupt", "it is damaged. Put it aside or restore a copy"),
    sqlite3.SQLITE_NOTADB: ("corrupt", "it is no database. Put it aside or restore a copy"),
}


@dataclass(frozen=True, slots=True)
class _Waiting:
    batch: Batch
    future: asyncio.Future[None]


class SqliteStore:
    """`Store` over one file; `":memory:"` keeps nothing and commits in the caller's thread.

    Args:
        path: the database. It is made, readable by its owner only, where it is missing.
        locked_limit_s: how long a batch waits for another program's lock before it fails. The loop sees
            silence until then, not an error.

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
        try:
            self._engine = _open(self._path, migrations)
            self._db: Connection = self._engine.connect()
        except (sqlite3.Error, DBAPIError, OSError) as error:
            raise self._failed(error) from error
        self._thread: threading.Thread | None = None
        if self._path != IN_MEMORY:
            self._thread = threading.Thread(target=self._write_all, name="headway-store", daemon=True)
            self._thread.start()

    def load(self) -> Saved:
        """What was saved, as of now. Call it before the first `save`, or when none waits.

        Raises:
            StoreFailed: the database cannot be read.
        """
        try:
            if self._path == IN_MEMORY:
                return _load(self._db)
            with _engine(self._path).connect() as db:
                return _load(db)
        except DBAPIError as error:
            raise self._failed(error) from error

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

    async def close(self) -> None:
        """Wait until everything queued is saved or has failed, then close the file. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)
        self._db.close()
        self._engine.dispose()

    # ---------------------------------------------------------------- in the writer thread

    def _write_all(self) -> None:
        """Until the closing mark: take everything that waits, commit it, tell the loop once."""
        open_ = True
        while open_:
            group: list[_Waiting] = []
            item = self._queue.get()
            while item is not None:
                group.append(item)
                if len(group) == GROUP_MAX or self._queue.empty():
                    break
                item = self._queue.get()
            open_ = item is not None
            if group:
                _tell(group[0].future.get_loop(), self._commit(group))

    def _commit(self, group: list[_Waiting]) -> list[tuple[_Waiting, StoreFailed | None]]:
        """Commit the group as one transaction; if that fails, each alone, in order."""
        error = self._attempt(group)
        if error is None or len(group) == 1:
            return [(waiting, error) for waiting in group]
        if error.facts["reason"] == "locked":  # it is not one of them, and each would wait as long again
            return [(waiting, error) for waiting in group]
        return [(waiting, self._attempt([waiting])) for waiting in group]

    def _attempt(self, group: list[_Waiting]) -> StoreFailed | None:
        """One transaction, tried again while another program holds the lock. Any other error rolls it back."""
        give_up_s = time.monotonic() + self._locked_limit_s
        while True:
            try:
                with self._db.begin():
                    for waiting in group:
                        batches.write(self._db, waiting.batch)
                return None
            except Exception as error:  # whatever it is, the batch was not saved, and its future must say so
                failed = self._failed(error)
            if failed.facts["reason"] != "locked" or time.monotonic() > give_up_s:
                return failed

    def _failed(self, error: Exception) -> StoreFailed:
        reason, words = _reason(error)
        return StoreFailed(
            f"{self._path} could not be written: {words}; nothing of this change was saved.",
            reason=reason,
            path=self._path,
        )


def _reason(error: BaseException) -> tuple[str, str]:
    """A stable word and a sentence for what went wrong."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None and (known := _WORDS.get(code & 0xFF)):  # the upper bits are details
        return known
    if isinstance(cause, OSError):
        return "cannot_open", f"{cause.strerror or cause}. Make its directory writable for this user"
    return "other", f"{type(cause).__name__}: {cause}"


def _settle(results: list[tuple[_Waiting, StoreFailed | None]]) -> None:
    for waiting, error in results:
        if waiting.future.done():
            continue  # nobody waits for it any more
        if error is None:
            waiting.future.set_result(None)
        else:
            waiting.future.set_exception(error)


def _tell(loop: asyncio.AbstractEventLoop, results: list[tuple[_Waiting, StoreFailed | None]]) -> None:
    try:
        loop.call_soon_threadsafe(_settle, results)
    except RuntimeError:
        pass  # the loop is closed: nobody is left to hear it


def _open(path: str, migrations: Sequence[Path]) -> Engine:
    """The engine that writes, on a database of the newest schema."""
    if path == IN_MEMORY:
        engine = _engine(path)
        raw = engine.raw_connection()
        migrate(_sqlite(raw), migrations)
        raw.close()
        return engine
    file = Path(path)
    if file.exists() and file.stat().st_size:
        _refuse_newer(file, migrations)
    else:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite gives its side files the same mode
    db = sqlite3.connect(path, isolation_level=None, timeout=5.0)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        migrate(db, migrations)
    finally:
        db.close()
    return _engine(path)


def _refuse_newer(file: Path, migrations: Sequence[Path]) -> None:
    """Look through a read-only connection: a writing one would already change the file when it closes."""
    db = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=5.0)
    try:
        refuse_newer(db, migrations)
    finally:
        db.close()


def _engine(path: str) -> Engine:
    """An engine whose transactions begin by taking the write lock, so that nothing fails half-way for want of it."""
    engine = create_engine(
        f"sqlite+pysqlite:///{path}",
        poolclass=StaticPool,
        connect_args={"timeout": BUSY_S, "check_same_thread": False, "isolation_level": None},
    )

    @event.listens_for(engine, "connect")
    def configure(db: Any, _record: object) -> None:
        db.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(db: Connection) -> None:
        db.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _sqlite(raw: Any) -> sqlite3.Connection:
    db = raw.driver_connection
    assert isinstance(db, sqlite3.Connection)
    return db


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
