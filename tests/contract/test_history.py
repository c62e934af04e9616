"""History as people page through it, and the journal."""

import asyncio
import os
import sqlite3
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headway.core.model import Event
from headway.errors import StoreFailed
from headway.ports import Batch, RequestLine
from headway.store.journal import FileJournal
from headway.store.reader import SqliteReader
from headway.store.store import SqliteStore

pytestmark = pytest.mark.contract

LIMIT_S = 20.0


def an_event(code: str, holder: str | None = None, **facts: Any) -> tuple[Event, float]:
    return Event(code=code, holder=holder, at_s=1.5, facts=facts), 1700000000.25


def a_line(offset: int, doc: str, source: str = "2026-01.g.ndjson") -> RequestLine:
    return RequestLine(source=source, offset=offset, doc=doc)


@pytest.fixture
async def on_file(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(tmp_path / "headway.db")
    yield made
    await made.close()


@pytest.fixture
async def reader(on_file: SqliteStore, tmp_path: Path) -> AsyncIterator[SqliteReader]:
    made = SqliteReader(tmp_path / "headway.db")
    yield made
    await made.close()


# ---------------------------------------------------------------- history


async def test_events_are_paged_by_id(on_file: SqliteStore, reader: SqliteReader) -> None:
    await on_file.save(Batch(events=tuple(an_event("n", "ab"[n % 2], n=n) for n in range(6))))
    first = await reader.events(None, after=0, limit=4)
    assert [row["facts"]["n"] for row in first] == [0, 1, 2, 3]
    assert first[0] | {"id": 0} == {
        "id": 0, "at_s": 1.5, "wall_s": 1700000000.25, "code": "n", "holder": "a", "facts": {"n": 0},
    }  # fmt: skip
    assert [row["facts"]["n"] for row in await reader.events(None, first[-1]["id"], 4)] == [4, 5]
    assert [row["facts"]["n"] for row in await reader.events("b", 0, 9)] == [1, 3, 5]
    assert [row["facts"]["n"] for row in await reader.events("b", -1, 2)] == [3, 5]
    assert await reader.events("nobody", 0, 9) == []


async def test_the_oldest_go_where_more_is_there_than_is_kept_a_few_with_each_commit(
    on_file: SqliteStore, reader: SqliteReader
) -> None:
    lines = tuple(a_line(n, "{}") for n in range(3000))
    await on_file.save(Batch(events=tuple(an_event(f"e{n}") for n in range(3000)), requests=lines))
    on_file.events_kept, on_file.requests_kept = 1000, 1500
    dropped = []
    for _ in range(5):
        await on_file.save(Batch(events=(an_event("more"),)))
        oldest, request = await reader.events(None, 0, 1), await reader.requests(None, 0, 1)
        dropped.append((oldest[0]["id"] - 1, request[0]["id"] - 1))
    assert dropped == [(500, 500), (1000, 1000), (1500, 1500), (2000, 1500), (2005, 1500)]
    assert len(await reader.events(None, 0, 9000)) == 1000
    await on_file.save(Batch(meta={"a": "b"}))  # a commit without history has nothing to do
    (line,) = await reader.requests(None, 0, 1)
    await on_file.save(Batch(requests=(a_line(line["offset"], "{}"),)))
    assert len(await reader.requests(None, 0, 9000)) == 1500


async def test_ids_are_never_used_twice(on_file: SqliteStore, reader: SqliteReader, tmp_path: Path) -> None:
    await on_file.save(Batch(events=(an_event("a"), an_event("b"))))
    last = (await reader.events(None, -1, 1))[0]["id"]
    with sqlite3.connect(tmp_path / "headway.db") as db:
        db.execute("DELETE FROM event")
    await on_file.save(Batch(events=(an_event("c"),)))
    assert (await reader.events(None, 0, 9))[0]["id"] == last + 1


async def test_request_lines_have_columns_where_they_can(on_file: SqliteStore, reader: SqliteReader) -> None:
    good = (
        '{"service":"chat","class":"attended","wall_s":1700000000.5,"status":200,"waited_s":1.25,"more":[1]}'
    )
    odd = '{"service":3,"status":"x"}'
    await on_file.save(
        Batch(requests=(a_line(0, good), a_line(100, odd), a_line(120, '{"cut')), offsets={"s": 126})
    )
    rows = await reader.requests(None, 0, 9)
    columns = [(row["service"], row["class"], row["started"], row["status"], row["waited_s"]) for row in rows]
    assert columns == [("chat", "attended", 1700000000.5, 200, 1.25), (None,) * 5, (None,) * 5]
    assert rows[0]["doc"]["more"] == [1] and rows[2]["doc"] == {} and rows[1]["offset"] == 100
    assert [row["id"] for row in await reader.requests("chat", 0, 9)] == [rows[0]["id"]]


async def test_a_line_read_twice_is_stored_once(on_file: SqliteStore, reader: SqliteReader) -> None:
    for _ in range(2):
        await on_file.save(Batch(requests=(a_line(0, "{}"), a_line(0, "{}", "other"), a_line(3, "{}"))))
    assert [(row["source"], row["offset"]) for row in await reader.requests(None, 0, 9)] == [
        ("2026-01.g.ndjson", 0), ("other", 0), ("2026-01.g.ndjson", 3),
    ]  # fmt: skip


async def test_history_is_readable_while_the_writer_is_stuck(
    on_file: SqliteStore, reader: SqliteReader, tmp_path: Path
) -> None:
    await on_file.save(Batch(events=(an_event("a"),)))
    other = sqlite3.connect(tmp_path / "headway.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    future = on_file.save(Batch(events=(an_event("b"),)))
    assert len(await asyncio.wait_for(reader.events(None, 0, 9), LIMIT_S)) == 1
    assert not future.done()
    other.close()
    await asyncio.wait_for(future, LIMIT_S)


async def test_a_reader_cannot_write(on_file: SqliteStore, reader: SqliteReader) -> None:
    with reader._engine.connect() as db, pytest.raises(Exception, match="readonly"):
        db.exec_driver_sql("DELETE FROM event")


async def test_a_reader_without_a_database_says_so(tmp_path: Path) -> None:
    reader = SqliteReader(tmp_path / "none.db")
    with pytest.raises(StoreFailed):
        await reader.events(None, 0, 1)
    await reader.close()


# ---------------------------------------------------------------- the journal


def test_the_journal_gives_back_what_was_written(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "journal.ndjson")
    assert journal.read() == []
    journal.append({"holder": "7", "to": "parked\n"})
    FileJournal(tmp_path / "journal.ndjson").append({"holder": "8"})
    assert journal.read() == [{"holder": "7", "to": "parked\n"}, {"holder": "8"}]
    assert stat.S_IMODE((tmp_path / "journal.ndjson").stat().st_mode) == 0o600
    journal.clear()
    assert journal.read() == []
    journal.clear()


@pytest.mark.parametrize("kept", range(1, 14))
def test_a_cut_line_is_left_out_and_takes_no_other_with_it(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "journal.ndjson"
    journal = FileJournal(path)
    journal.append({"n": 1})
    whole = path.stat().st_size
    journal.append({"n": "long"})
    os.truncate(path, whole + kept)
    cut = [{"n": 1}] + (
        [{"n": "long"}] if kept == len('{"n":"long"}') + 1 or kept == len('{"n":"long"}') else []
    )
    assert journal.read() == cut
    journal.append({"n": 3})
    assert journal.read() == [*cut, {"n": 3}]


def test_a_journal_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed):
        FileJournal(tmp_path / "missing" / "journal.ndjson").append({})
