"""One suite over the forms of the store; then what only a file can do."""

import asyncio
import os
import random
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Engine, event

from headway.core.model import Event
from headway.errors import StoreFailed, StoreTooNew
from headway.ports import Batch
from headway.store import tables
from headway.store.migrate import MIGRATIONS, migrate, version
from headway.store.store import SqliteStore

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[2]
LIMIT_S = 20.0


def an_event(code: str, holder: str | None = None, **facts: Any) -> tuple[Event, float]:
    return Event(code=code, holder=holder, at_s=1.5, facts=facts), 1700000000.25


BAD = Batch(events=(an_event("fine"), an_event("bad", what=cast("Any", object()))))


@pytest.fixture(params=["file", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(tmp_path / "headway.db" if request.param == "file" else ":memory:")
    yield made
    await made.close()


@pytest.fixture
async def on_file(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(tmp_path / "headway.db")
    yield made
    await made.close()


# ---------------------------------------------------------------- every form


async def test_empty_at_first(store: SqliteStore) -> None:
    saved = store.load()
    assert (saved.holders, saved.pending, saved.offsets, saved.meta) == ((), (), {}, {})


async def test_what_was_saved_is_loaded(store: SqliteStore) -> None:
    await store.save(
        Batch(
            holders=(("chat", "service", "{}"), ("7", "job", '{"a":1}')),
            pending=(("7", '{"to":"running"}'),),
            offsets={"a.ndjson": 120},
            meta={"mode": "live"},
        )
    )
    saved = store.load()
    assert saved.holders == (("7", "job", '{"a":1}'), ("chat", "service", "{}"))
    assert saved.pending == (("7", '{"to":"running"}'),)
    assert saved.offsets == {"a.ndjson": 120} and saved.meta == {"mode": "live"}


async def test_a_second_save_replaces_and_gone_removes(store: SqliteStore) -> None:
    await store.save(Batch(holders=(("a", "job", "1"), ("b", "job", "1")), pending=(("a", "1"), ("b", "1"))))
    await store.save(
        Batch(
            holders=(("a", "job", "2"),),
            holders_gone=("b", "never was"),
            pending_gone=("a",),
            offsets={"l": 1},
        )
    )
    await store.save(Batch(offsets={"l": 2}))
    saved = store.load()
    assert (
        saved.holders == (("a", "job", "2"),) and saved.pending == (("b", "1"),) and saved.offsets == {"l": 2}
    )


async def test_a_move_that_ends_while_the_next_begins_is_there(store: SqliteStore) -> None:
    await store.save(Batch(pending=(("a", "old"),)))
    await store.save(Batch(pending=(("a", "new"),), pending_gone=("a",)))
    assert store.load().pending == (("a", "new"),)


async def test_a_bad_batch_fails_whole_and_alone(store: SqliteStore) -> None:
    batches = [Batch(meta={"n": str(n)}, holders=((str(n), "job", ""),)) for n in range(5)]
    bad = Batch(holders=(("half", "job", ""),), events=BAD.events)
    results = await asyncio.gather(
        *map(store.save, [*batches[:2], bad, *batches[2:]]), return_exceptions=True
    )
    assert [type(result) for result in results] == [type(None)] * 2 + [StoreFailed] + [type(None)] * 3
    saved = store.load()
    assert [row[0] for row in saved.holders] == ["0", "1", "2", "3", "4"]
    assert saved.meta == {"n": "4"}


async def test_close_waits_and_then_refuses(store: SqliteStore) -> None:
    waiting = [store.save(Batch(meta={str(n): ""})) for n in range(20)]
    await store.close()
    assert all(future.done() and future.exception() is None for future in waiting)
    with pytest.raises(StoreFailed):
        await store.save(Batch())
    await store.close()


# ---------------------------------------------------------------- groups, locks, faults


async def test_batches_that_wait_share_one_commit_and_keep_their_order(
    on_file: SqliteStore, tmp_path: Path
) -> None:
    commits: list[object] = []
    count = commits.append
    event.listen(Engine, "commit", count)
    try:
        with locked(tmp_path / "headway.db") as unlock:
            waiting = [
                on_file.save(Batch(events=(an_event("n", n=n),), meta={"last": str(n)})) for n in range(100)
            ]
            assert not any(future.done() for future in waiting)
            unlock()
            await asyncio.wait_for(asyncio.gather(*waiting), LIMIT_S)
    finally:
        event.remove(Engine, "commit", count)
    assert (
        len(commits) <= 3
    )  # those that came before the writer was stuck, those that came while it was, the rest
    assert on_file.load().meta == {"last": "99"}
    with sqlite3.connect(tmp_path / "headway.db") as db:
        assert [row[0] for row in db.execute("SELECT json_extract(facts, '$.n') FROM event ORDER BY id")] == [
            *range(100)
        ]


class locked:
    """Another program that keeps the database locked, until `unlock` or the end of the block."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)

    def __enter__(self) -> Callable[[], None]:
        self._db.execute("BEGIN EXCLUSIVE")
        return self._db.close

    def __exit__(self, *_: object) -> None:
        self._db.close()


async def test_a_locked_database_is_silence_then_everything_follows(
    on_file: SqliteStore, tmp_path: Path
) -> None:
    with locked(tmp_path / "headway.db") as unlock:
        future = on_file.save(Batch(meta={"a": "1"}))
        _, pending = await asyncio.wait([future], timeout=1.0)  # longer than SQLite itself waits
        assert pending
        unlock()
        await asyncio.wait_for(future, LIMIT_S)
    assert on_file.load().meta == {"a": "1"}


async def test_a_lock_that_stays_fails_all_that_wait(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "headway.db", locked_limit_s=0.3)
    with locked(tmp_path / "headway.db"):
        waiting = [store.save(Batch(meta={"a": str(n)})) for n in range(3)]
        results = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), LIMIT_S)
        assert [cast("StoreFailed", result).facts["reason"] for result in results] == ["locked"] * 3
    await store.save(Batch(meta={"a": "after"}))
    assert store.load().meta == {"a": "after"}
    await store.close()


async def test_a_lock_does_not_keep_the_daemon_from_ending(
    on_file: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.store.store.CLOSING_LIMIT_S", 0.2)
    with locked(tmp_path / "headway.db"):
        future = on_file.save(Batch(meta={"a": "1"}))
        await asyncio.wait_for(on_file.close(), LIMIT_S)
    with pytest.raises(StoreFailed):
        await future


async def test_a_future_nobody_waits_for_does_not_stop_the_writer(
    on_file: SqliteStore, tmp_path: Path
) -> None:
    with locked(tmp_path / "headway.db"):
        on_file.save(Batch(meta={"a": "1"})).cancel()
    await on_file.save(Batch(meta={"b": "2"}))
    assert on_file.load().meta == {"a": "1", "b": "2"}  # cancelling the wait does not undo the change


FULL_DISK = """
import asyncio, resource, sys
from headway.errors import StoreFailed
from headway.ports import Batch
from headway.store.store import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    await store.save(Batch(meta={"before": "x"}))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    results = await asyncio.gather(
        *(store.save(Batch(meta={f"big{n}": "x" * 300_000, f"half{n}": ""})) for n in range(2)), return_exceptions=True
    )
    assert all(isinstance(result, StoreFailed) for result in results), results
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await store.save(Batch(meta={"after": "x"}))
    print(sorted(store.load().meta), results[0].facts["reason"])
    await store.close()

asyncio.run(main())
"""


def test_a_disk_without_room_fails_at_once_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    """A limit on file sizes stands in for the full disk."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "headway.db")],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() in ("['after', 'before'] io", "['after', 'before'] full"), (
        done.stdout + done.stderr
    )


# ---------------------------------------------------------------- killed

WRITER = """
import asyncio, sys
from headway.core.model import Event
from headway.ports import Batch
from headway.store.store import SqliteStore

async def write(store, n):
    await store.save(Batch(events=((Event(code="n", holder=str(n), at_s=0.0), 0.0),), holders=(("last", "job", str(n)),)))
    print(n, flush=True)

async def main():
    store, n = SqliteStore(sys.argv[1]), 0
    while True:
        await asyncio.gather(*(write(store, n + k) for k in range(7)))
        n += 7

asyncio.run(main())
"""


def test_kill_9_keeps_what_was_answered_in_order(tmp_path: Path) -> None:
    draw = random.Random(5)
    for round_ in range(6):
        path = tmp_path / f"{round_}.db"
        argv = [sys.executable, "-c", WRITER, str(path)]
        writer = subprocess.Popen(argv, env={"PYTHONPATH": str(ROOT / "src")}, stdout=subprocess.PIPE)
        assert writer.stdout is not None
        told = 0
        for _ in range(draw.randrange(1, 120)):
            told = int(writer.stdout.readline())
        writer.kill()
        told = max([told, *(int(line) for line in writer.stdout.read().split(b"\n")[:-1])])
        writer.wait(timeout=10)
        with sqlite3.connect(path) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            numbers = [int(row[0]) for row in db.execute("SELECT holder FROM event ORDER BY id")]
            last = int(db.execute("SELECT doc FROM holder").fetchone()[0])
        assert numbers == [*range(len(numbers))] and last == numbers[-1]
        assert numbers[-1] >= told


# ---------------------------------------------------------------- the file


async def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        store = SqliteStore(tmp_path / "new" / "headway.db")
        await store.save(Batch(meta={"a": "1"}))
        for path in (tmp_path / "new").iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
        await store.close()
    finally:
        os.umask(old)


async def test_every_commit_reaches_the_disk(on_file: SqliteStore) -> None:
    with on_file._engine.connect() as db:
        assert db.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert db.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_no_database_says_so(tmp_path: Path) -> None:
    (tmp_path / "headway.db").write_bytes(b"words" * 1000)
    with pytest.raises(StoreFailed) as raised:
        SqliteStore(tmp_path / "headway.db")
    assert raised.value.facts["reason"] == "corrupt"
    with pytest.raises(StoreFailed) as raised:
        SqliteStore(tmp_path / "headway.db" / "in a file")
    assert raised.value.facts["reason"] == "cannot_open"


def test_a_newer_database_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "headway.db"
    with sqlite3.connect(path) as db:
        db.executescript(f"CREATE TABLE tomorrow (a); PRAGMA user_version = {len(MIGRATIONS) + 1};")
    before = path.read_bytes(), path.stat().st_mtime_ns
    with pytest.raises(StoreTooNew):
        SqliteStore(path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [found.name for found in tmp_path.iterdir()] == ["headway.db"]


def test_a_migration_that_fails_half_way_changes_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "0002.sql"
    broken.write_text(
        "CREATE TABLE half (a);\nINSERT INTO meta VALUES ('k', 'v');\nINSERT INTO nowhere VALUES (1);"
    )
    path = tmp_path / "headway.db"
    with pytest.raises(StoreFailed):
        SqliteStore(path, migrations=(*MIGRATIONS, broken))
    with sqlite3.connect(path) as db:
        assert version(db) == len(MIGRATIONS)
        assert db.execute("SELECT count(*) FROM meta").fetchone() == (0,)
        assert not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'half'").fetchall()
        broken.write_text("CREATE TABLE half (a);")
        assert migrate(db, (*MIGRATIONS, broken)) == len(MIGRATIONS) + 1


def test_each_migration_says_why_and_keeps_its_number() -> None:
    assert [file.stem for file in MIGRATIONS] == [f"{number:04}" for number in range(1, len(MIGRATIONS) + 1)]
    assert all(file.read_text().startswith("-- ") for file in MIGRATIONS)


async def test_the_tables_are_those_of_the_schema(on_file: SqliteStore, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "headway.db") as db:
        for name, table in tables.schema.tables.items():
            rows = db.execute(f"PRAGMA table_info({name})").fetchall()
            assert [(row[1], bool(row[5])) for row in rows] == [(c.name, c.primary_key) for c in table.c]
            assert [bool(row[3] or row[5]) for row in rows] == [not c.nullable for c in table.c]
