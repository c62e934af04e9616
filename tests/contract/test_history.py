"""History as people page through it."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headway.core.model import Event
from headway.core.past import NEWEST, DayRow, Slice
from headway.errors import StoreFailed
from headway.ports import Batch, RequestLine
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
    first = await reader.events(Slice(limit=4))
    assert [row["facts"]["n"] for row in first] == [0, 1, 2, 3]
    assert first[0] | {"id": 0} == {
        "id": 0, "at_s": 1.5, "wall_s": 1700000000.25, "code": "n", "holder": "a", "facts": {"n": 0},
    }  # fmt: skip
    assert [row["facts"]["n"] for row in await reader.events(Slice(after=first[-1]["id"], limit=4))] == [4, 5]
    assert [row["facts"]["n"] for row in await reader.events(Slice(about="b"))] == [1, 3, 5]
    assert [row["facts"]["n"] for row in await reader.events(Slice(about="b", before=NEWEST, limit=2))] == [
        3,
        5,
    ]
    assert await reader.events(Slice(about="nobody")) == []


async def test_the_oldest_go_where_more_is_there_than_is_kept_a_few_with_each_commit(
    on_file: SqliteStore, reader: SqliteReader
) -> None:
    lines = tuple(a_line(n, "{}") for n in range(3000))
    await on_file.save(Batch(events=tuple(an_event(f"e{n}") for n in range(3000)), requests=lines))
    on_file.events_kept, on_file.requests_kept = 1000, 1500
    dropped = []
    for _ in range(5):
        await on_file.save(Batch(events=(an_event("more"),)))
        oldest, request = await reader.events(Slice(limit=1)), await reader.requests(Slice(limit=1))
        dropped.append((oldest[0]["id"] - 1, request[0]["id"] - 1))
    assert dropped == [(500, 500), (1000, 1000), (1500, 1500), (2000, 1500), (2005, 1500)]
    assert len(await reader.events(Slice(limit=9000))) == 1000
    await on_file.save(Batch(meta={"a": "b"}))  # a commit without history has nothing to do
    (line,) = await reader.requests(Slice(limit=1))
    await on_file.save(Batch(requests=(a_line(line["offset"], "{}"),)))
    assert len(await reader.requests(Slice(limit=9000))) == 1500


async def test_ids_are_never_used_twice(on_file: SqliteStore, reader: SqliteReader, tmp_path: Path) -> None:
    await on_file.save(Batch(events=(an_event("a"), an_event("b"))))
    last = (await reader.events(Slice(before=NEWEST, limit=1)))[0]["id"]
    with sqlite3.connect(tmp_path / "headway.db") as db:
        db.execute("DELETE FROM event")
    await on_file.save(Batch(events=(an_event("c"),)))
    assert (await reader.events(Slice(limit=9)))[0]["id"] == last + 1


async def test_request_lines_have_columns_where_they_can(on_file: SqliteStore, reader: SqliteReader) -> None:
    good = (
        '{"service":"chat","class":"attended","wall_s":1700000000.5,"status":200,"waited_s":1.25,"more":[1]}'
    )
    odd = '{"service":3,"status":"x"}'
    await on_file.save(
        Batch(requests=(a_line(0, good), a_line(100, odd), a_line(120, '{"cut')), offsets={"s": 126})
    )
    rows = await reader.requests(Slice(limit=9))
    columns = [(row["service"], row["class"], row["started"], row["status"], row["waited_s"]) for row in rows]
    assert columns == [("chat", "attended", 1700000000.5, 200, 1.25), (None,) * 5, (None,) * 5]
    assert rows[0]["doc"]["more"] == [1] and rows[2]["doc"] == {} and rows[1]["offset"] == 100
    assert [row["id"] for row in await reader.requests(Slice(about="chat"))] == [rows[0]["id"]]


async def test_a_line_read_twice_is_stored_once(on_file: SqliteStore, reader: SqliteReader) -> None:
    for _ in range(2):
        await on_file.save(Batch(requests=(a_line(0, "{}"), a_line(0, "{}", "other"), a_line(3, "{}"))))
    assert [(row["source"], row["offset"]) for row in await reader.requests(Slice(limit=9))] == [
        ("2026-01.g.ndjson", 0), ("other", 0), ("2026-01.g.ndjson", 3),
    ]  # fmt: skip


async def test_history_is_readable_while_the_writer_is_stuck(
    on_file: SqliteStore, reader: SqliteReader, tmp_path: Path
) -> None:
    await on_file.save(Batch(events=(an_event("a"),)))
    other = sqlite3.connect(tmp_path / "headway.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    future = on_file.save(Batch(events=(an_event("b"),)))
    assert len(await asyncio.wait_for(reader.events(Slice(limit=9)), LIMIT_S)) == 1
    assert not future.done()
    other.close()
    await asyncio.wait_for(future, LIMIT_S)


async def test_a_reader_cannot_write(on_file: SqliteStore, reader: SqliteReader) -> None:
    with reader._engine.connect() as db, pytest.raises(Exception, match="readonly"):
        db.exec_driver_sql("DELETE FROM event")


async def test_a_reader_without_a_database_says_so(tmp_path: Path) -> None:
    reader = SqliteReader(tmp_path / "none.db")
    with pytest.raises(StoreFailed):
        await reader.events(Slice(limit=1))
    await reader.close()


# ---------------------------------------------------------------- what people look for


MOVED = {"form": "asleep", "source": "awake", "took_s": 1.0}
WOKEN = {"form": "awake", "source": "stopped", "took_s": 2.0, "waiting": 1}
STAYED = {"form": "asleep", "source": "awake", "reason": "limit_passed"}
NO_SWAPS = (
    an_event("move.done", "j1", form="running", source="stopped", took_s=1.0),
    an_event("release.verified", "j1", form="stopped", source="running", took_s=1.0),
    an_event("release.verified", "chat", form="asleep"),  # it let go of what it had kept: no move
    an_event("move.asked", "chat", form="asleep"),
)


async def test_moves_of_model_servers_are_found_among_all_that_happened(
    on_file: SqliteStore, reader: SqliteReader
) -> None:
    moves = (
        an_event("release.verified", "chat", **MOVED),
        an_event("move.done", "draw", **WOKEN),
        an_event("move.failed", "chat", **STAYED),
    )
    await on_file.save(Batch(events=(*NO_SWAPS, *moves, *NO_SWAPS)))
    assert [row["facts"] for row in await reader.swaps(Slice())] == [MOVED, WOKEN, STAYED]
    assert [row["facts"] for row in await reader.swaps(Slice(about="draw"))] == [WOKEN]
    assert [row["facts"] for row in await reader.swaps(Slice(failed=True))] == [STAYED]


async def test_pages_go_back_from_the_newest_to_the_first(on_file: SqliteStore, reader: SqliteReader) -> None:
    await on_file.save(Batch(events=tuple(an_event("n" if n % 2 else "m", n=n) for n in range(10))))
    seen, before = [], NEWEST
    while rows := await reader.events(Slice(before=before, limit=2, codes=("n", "other"))):
        seen.append([row["facts"]["n"] for row in rows])
        before = rows[0]["id"]
    assert seen == [[7, 9], [3, 5], [1]]
    first = (await reader.events(Slice(limit=1)))[0]["id"]
    between = await reader.events(Slice(after=first + 3, before=first + 6))
    assert [row["facts"]["n"] for row in between] == [4, 5], "both bounds hold"


ENDS = {
    # name: (line, failed)
    "answered": ({"status": 200, "ended": "done"}, False),
    "answered by the gate itself": ({"status": 200, "ended": "local"}, False),
    "a tunnel": ({"status": 101, "ended": "done"}, False),
    "its server said no": ({"status": 400, "ended": "done"}, True),
    "refused": ({"status": 503, "ended": "wait_over"}, True),
    "its client left": ({"status": 0, "ended": "client_gone"}, True),
    "cut in the middle": ({"status": 200, "ended": "upstream_lost"}, True),
    "nothing is known": ({}, True),
}


@pytest.mark.parametrize(("line", "failed"), ENDS.values(), ids=ENDS.keys())
async def test_which_requests_failed(
    on_file: SqliteStore, reader: SqliteReader, line: dict[str, Any], failed: bool
) -> None:
    await on_file.save(Batch(requests=(a_line(0, json.dumps(line)),)))
    assert [row["failed"] for row in await reader.requests(Slice())] == [failed]
    assert len(await reader.requests(Slice(failed=True))) == failed


@pytest.mark.parametrize("asked", ["swaps", "failed requests", "by code"])
async def test_no_page_reads_all_of_a_long_history(
    on_file: SqliteStore, reader: SqliteReader, tmp_path: Path, asked: str
) -> None:
    """Each is found by an index, however much else there is."""
    plans = {
        "swaps": "SELECT * FROM event WHERE swap = 1 AND id < 9 ORDER BY id DESC LIMIT 2",
        "failed requests": "SELECT * FROM request WHERE failed = 1 AND id < 9 ORDER BY id DESC LIMIT 2",
        "by code": "SELECT * FROM event WHERE code IN ('a', 'b') AND id < 9 ORDER BY id DESC LIMIT 2",
    }
    with sqlite3.connect(tmp_path / "headway.db") as db:
        plan = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {plans[asked]}"))
    assert "USING INDEX" in plan, plan


# ---------------------------------------------------------------- days


DAY_S = 86_400.0
NOON_S = 1_700_049_600.0  # 2023-11-15, somewhere around noon wherever this machine is


def asked_at(wall_s: float, waited_s: float = 0.0, **more: Any) -> str:
    """A line of the gate's log, as the ledger counts it."""
    row = {"service": "chat", "class": "attended", "demand": True, "boot": "b", "at_s": 1.0, "took_s": 9.0}
    row |= {"wall_s": wall_s, "sent_after_s": waited_s, "waited_s": waited_s, "held": waited_s > 0}
    return json.dumps({**row, **{name.rstrip("_"): value for name, value in more.items()}})


async def test_a_day_is_added_up_as_it_comes(on_file: SqliteStore, reader: SqliteReader) -> None:
    lines = (
        asked_at(NOON_S), asked_at(NOON_S, 3.0), asked_at(NOON_S + DAY_S, 1.5),
        asked_at(NOON_S, class_="background"),
        asked_at(NOON_S, 9.0, sent_after_s=None),  # it never came to a server
        asked_at(NOON_S, 9.0, window="slow_wake"),
        asked_at(NOON_S, 9.0, waited_for="place"),  # that is no wait for the model
        "no JSON", '{"wall_s":1e300}', asked_at(1e300),
    )  # fmt: skip
    requests = tuple(a_line(n, line) for n, line in enumerate(lines))
    event, _ = an_event("release.verified", "chat", **MOVED)
    back, _ = an_event("move.done", "chat", **WOKEN)
    no, _ = an_event("move.failed", "chat", **STAYED)
    events = ((event, NOON_S), (event, NOON_S), (back, NOON_S), (no, NOON_S + DAY_S), *NO_SWAPS)
    given = ((NOON_S, "job_gpu_s", 30.0), (NOON_S, "lease_gpu_s", 5.0))
    await on_file.save(Batch(requests=requests, events=events, given=given))
    await on_file.save(Batch(given=((NOON_S, "job_gpu_s", 12.0),)))
    first, second = await reader.days(90)
    assert first == DayRow(
        day="2023-11-15", job_gpu_s=42.0, lease_gpu_s=5.0, requests=3.0, waited=1.0, waited_s=3.0, put_aside=2.0,
        brought_back=1.0,
    )  # fmt: skip
    assert second == DayRow(day="2023-11-16", requests=1.0, waited=1.0, waited_s=1.5, failed_moves=1.0)
    assert await reader.days(1) == [second]


async def test_a_line_that_is_read_twice_is_counted_once(on_file: SqliteStore, reader: SqliteReader) -> None:
    one, other = a_line(0, asked_at(NOON_S, 2.0)), a_line(300, asked_at(NOON_S))
    await on_file.save(Batch(requests=(one, one)))
    await on_file.save(Batch(requests=(one, other)))
    assert [(day.requests, day.waited_s) for day in await reader.days(9)] == [(2.0, 2.0)]


async def test_what_is_pruned_stays_in_its_day(on_file: SqliteStore, reader: SqliteReader) -> None:
    on_file.requests_kept = 10
    await on_file.save(Batch(requests=tuple(a_line(n, asked_at(NOON_S)) for n in range(200))))
    assert len(await reader.requests(Slice(limit=1000))) == 10
    assert [day.requests for day in await reader.days(9)] == [200.0]
