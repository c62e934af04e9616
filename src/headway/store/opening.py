"""Connections to the database file, and words for what SQLite says when it cannot."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, NullPool, QueuePool, StaticPool, create_engine, event
from sqlalchemy.exc import DBAPIError

from headway.errors import StoreFailed
from headway.store.migrate import migrate, refuse_newer

IN_MEMORY = ":memory:"
BUSY_S = 0.2  # how long SQLite itself waits for another program's lock before the writer asks again
OPEN_BUSY_S = 5.0
ASIDE = "Its -wal and -shm files go with it, and the next start ends what still runs and has no row there"

_WORDS = {
    sqlite3.SQLITE_FULL: ("full", "the disk is full. Free space there"),
    sqlite3.SQLITE_BUSY: ("locked", "another program keeps it locked. End that program"),
    sqlite3.SQLITE_LOCKED: ("locked", "another program keeps it locked. End that program"),
    sqlite3.SQLITE_IOERR: ("io", "the disk gives errors. Check it and its free space"),
    sqlite3.SQLITE_READONLY: ("readonly", "it is read-only. Make it writable for this user"),
    sqlite3.SQLITE_CANTOPEN: (
        "cannot_open",
        f"it cannot be opened. Make it and its directory writable for this user. {ASIDE}",
    ),
    sqlite3.SQLITE_CORRUPT: ("corrupt", f"it is damaged. Restore a copy, or put it aside. {ASIDE}"),
    sqlite3.SQLITE_NOTADB: ("corrupt", f"it is no database. Restore a copy, or put it aside. {ASIDE}"),
}


def store_failed(path: str, error: Exception) -> StoreFailed:
    """The error to raise for what a library raised; its fact `reason` is stable: full, locked, io, ..., other."""
    if isinstance(error, StoreFailed):
        return error
    reason, words = _reason(error)
    return StoreFailed(f"the database {path} did not work: {words}.", reason=reason, path=path)


def _reason(error: BaseException) -> tuple[str, str]:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None and (known := _WORDS.get(code & 0xFF)):  # the upper bits are details
        return known
    if isinstance(cause, OSError):
        return "cannot_open", f"{cause.strerror or cause}. Make its directory writable for this user"
    return "other", f"{type(cause).__name__}: {cause}. Please report this"


def writing_engine(path: str, migrations: Sequence[Path]) -> Engine:
    """The engine of the one writer, on a database of the newest schema; makes the file where there is none.

    Its transactions begin by taking the write lock, so none fails half-way for want of it.

    Raises:
        StoreTooNew: a newer Headway wrote the file; it was not touched.
        sqlite3.Error, OSError: it cannot be opened or migrated.
    """
    if path != IN_MEMORY:
        _prepare(Path(path), migrations)

    def connect() -> sqlite3.Connection:
        db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA synchronous = FULL")
        if path == IN_MEMORY:
            migrate(db, migrations)
        return db

    # a connection that failed is replaced by a new one; in memory that would lose everything
    pool = StaticPool if path == IN_MEMORY else NullPool
    engine = create_engine("sqlite+pysqlite://", creator=connect, poolclass=pool)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def reading_engine(path: str, connections: int = 1) -> Engine:
    """An engine that cannot write; nothing is opened yet."""
    uri = f"{Path(path).resolve().as_uri()}?mode=ro"

    def connect() -> sqlite3.Connection:
        db = sqlite3.connect(
            uri, uri=True, timeout=OPEN_BUSY_S, isolation_level=None, check_same_thread=False
        )
        db.text_factory = _text
        return db

    pool: dict[str, Any] = {"poolclass": QueuePool, "pool_size": connections, "max_overflow": 0}
    return create_engine("sqlite+pysqlite://", creator=connect, **pool)


def _text(raw: bytes) -> str | bytes:
    """Text that is damaged stays bytes: one such value must not keep every row from being read."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _begin_immediate(db: Connection) -> None:
    db.exec_driver_sql("BEGIN IMMEDIATE")


def _prepare(file: Path, migrations: Sequence[Path]) -> None:
    if file.exists() and file.stat().st_size:
        # a connection that may write already changes the file when it closes
        looking = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=OPEN_BUSY_S)
        try:
            refuse_newer(looking, migrations)
        finally:
            looking.close()
    else:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite gives its side files the same mode
    db = sqlite3.connect(file, isolation_level=None, timeout=OPEN_BUSY_S)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        migrate(db, migrations)
    finally:
        db.close()
