"""Brings a database to the newest schema, one numbered file at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from headway.errors import StoreTooNew

MIGRATIONS: tuple[Path, ...] = tuple(sorted((Path(__file__).parent / "migrations").glob("*.sql")))


def version(db: sqlite3.Connection) -> int:
    """The number of the last migration that ran in this database; 0: none."""
    (number,) = db.execute("PRAGMA user_version").fetchone()
    return int(number)


def refuse_newer(db: sqlite3.Connection, files: Sequence[Path] = MIGRATIONS) -> None:
    """Only reads.

    Raises:
        StoreTooNew: the database has seen more migrations than there are files.
    """
    if (found := version(db)) > len(files):
        raise StoreTooNew(found, len(files))


def migrate(db: sqlite3.Connection, files: Sequence[Path] = MIGRATIONS) -> int:
    """Run each missing migration in a transaction of its own; return the schema version reached.

    A file is never edited once released. The version is the number of files run, kept in user_version,
    so a file that fails half-way leaves schema, rows and version as they were.

    Raises:
        StoreTooNew: the database was written by a newer Headway.
        sqlite3.Error: a migration failed; those before it stay.
    """
    refuse_newer(db, files)
    for number, file in enumerate(files[version(db) :], start=version(db) + 1):
        try:
            db.executescript(
                f"BEGIN IMMEDIATE;\n{file.read_text('utf-8')}\nPRAGMA user_version = {number};\nCOMMIT;"
            )
        except sqlite3.Error:
            db.rollback()
            raise
    return len(files)
