"""A damaged row of history: the others are shown, page by page."""

import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headway.core.model import Event
from headway.core.past import NEWEST, Slice
from headway.ports import Batch, RequestLine
from headway.store.reader import SqliteReader
from headway.store.store import SqliteStore
from tests.parts.false_api import Served, serving

pytestmark = pytest.mark.contract

WALL_S = 1_700_049_600.0
MOVED = {"form": "asleep", "source": "awake", "took_s": 1.0}


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """Six moves, six requests and three days."""
    store = SqliteStore(tmp_path / "headway.db")
    events = [
        Event(code="release.verified", holder="chat", at_s=1.5, facts={**MOVED, "n": n}) for n in range(6)
    ]
    lines = [json.dumps({"service": "chat", "wall_s": WALL_S, "status": 200, "n": n}) for n in range(6)]
    await store.save(
        Batch(
            events=tuple((event, WALL_S) for event in events),
            requests=tuple(RequestLine(source="a", offset=n, doc=line) for n, line in enumerate(lines)),
            given=tuple((WALL_S + 86400.0 * n, "job_gpu_s", 1.0) for n in range(3)),
        )
    )
    await store.close()
    return tmp_path / "headway.db"


@pytest.fixture
async def api(file: Path, short_dir: Path) -> AsyncIterator[Served]:
    async with serving(short_dir) as served:
        reader = SqliteReader(file)
        for name in ("events", "requests", "swaps", "days"):
            setattr(served.reader, name, getattr(reader, name))
        yield served
        await reader.close()


def damage(file: Path, statement: str) -> None:
    with sqlite3.connect(file) as db:
        assert db.execute(statement).rowcount > 0


EVENT = (
    "facts='{bad'", "facts='[1]'", "facts=x'ff'", "facts=cast(x'ff' as text)", "facts='{\"took_s\":\"x\",\"form\":[1]}'",
    "wall_s=1e300", "wall_s=9e999", "wall_s='abc'", "wall_s=x'ff'", "at_s='abc'",
    "code=x'ff'", "code=cast(x'ff' as text)", "holder=x'ff'",
)  # fmt: skip
REQUEST = (
    "doc='{bad'", "doc=x'ff'", "started='abc'", "started=1e300", "status='abc'", "waited_s=x'ff'", "service=x'ff'",
    "\"class\"=cast(x'ff' as text)", "source=x'ff'", "\"offset\"='abc'",
)  # fmt: skip


@pytest.mark.parametrize("change", EVENT)
async def test_the_other_lines_of_the_audit_are_shown(api: Served, file: Path, change: str) -> None:
    damage(file, f"UPDATE event SET {change} WHERE id = 3")
    lines = await api.get("/api/v1/history")
    assert {line["id"] for line in lines} - {3} == {1, 2, 4, 5, 6}
    assert (3 in {line["id"] for line in lines}) == change.startswith("facts"), (
        "its time and its code are known"
    )
    assert {move["id"] for move in await api.get("/api/v1/swaps")} - {3} == {1, 2, 4, 5, 6}


@pytest.mark.parametrize("change", REQUEST)
async def test_the_other_requests_are_shown(api: Served, file: Path, change: str) -> None:
    damage(file, f"UPDATE request SET {change} WHERE id = 3")
    found = {row["id"]: row for row in await api.get("/api/v1/requests")}
    assert found.keys() - {3} == {1, 2, 4, 5, 6}
    assert (3 in found) == change.startswith("doc") and found.get(3, {"doc": {}})["doc"] == {}


@pytest.mark.parametrize("table", ["events", "requests", "swaps"])
async def test_a_page_is_as_full_as_without_it(file: Path, table: str) -> None:
    damage(file, "UPDATE event SET wall_s = 'abc' WHERE id IN (2, 3, 6)")
    damage(file, "UPDATE request SET started = 'abc' WHERE id IN (2, 3, 6)")
    reader = SqliteReader(file)

    async def ids(**asked: Any) -> list[int]:
        return [row["id"] for row in await getattr(reader, table)(Slice(**asked))]

    assert await ids(limit=2) == [1, 4]
    assert await ids(limit=2, after=4) == [5]
    assert await ids(limit=2, before=NEWEST) == [4, 5]
    assert await ids(limit=2, before=4) == [1]
    await reader.close()


@pytest.mark.parametrize(
    "row",
    ["'x-y','job_gpu_s',1", "'2026-19-39','job_gpu_s',1", "x'ff','job_gpu_s',1", "'2030-01-01','odd',1",
     "'2030-01-01','waited','abc'", "'2030-01-01','waited',9e999", "'2030-01-01',x'ff',1"],
)  # fmt: skip
async def test_the_other_days_are_shown(api: Served, file: Path, row: str) -> None:
    whole = await api.get("/api/v1/days")
    damage(file, f"INSERT INTO day (day, name, n) VALUES ({row})")
    assert len(whole) == 3 and await api.get("/api/v1/days") == whole
