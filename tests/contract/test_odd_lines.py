"""A line of the request log that a disk or a hand made odd is stored as it is, and stops nothing."""

import json
import sqlite3
from pathlib import Path

import pytest

from headway.ports import Batch, RequestLine
from headway.store.store import SqliteStore

pytestmark = pytest.mark.contract

GOOD = {
    "service": "chat", "class": "attended", "demand": True, "boot": "b", "at_s": 5.0, "wall_s": 1.7e9, "took_s": 1.0,
    "status": 200, "sent_after_s": 0.0, "waited_s": 0.0,
}  # fmt: skip
ODD = [
    *(json.dumps(GOOD | {key: 10**400}) for key in ("status", "at_s", "wall_s", "waited_s", "took_s")),
    *(json.dumps(GOOD | {key: 2**63}) for key in ("status", "wall_s", "waited_s")),
    json.dumps(GOOD)[:-1] + ', "output_tokens": 1e999}',
    "[" * 100_000,
    "{bad",
    "[1]",
]


@pytest.mark.parametrize("text", ODD, ids=lambda text: text[:60])
async def test_it_is_stored_and_so_are_those_around_it(tmp_path: Path, text: str) -> None:
    store = SqliteStore(tmp_path / "headway.db")
    docs = [json.dumps(GOOD), text, json.dumps(GOOD)]
    await store.save(
        Batch(requests=tuple(RequestLine(source="a", offset=n, doc=doc) for n, doc in enumerate(docs)))
    )
    await store.close()
    with sqlite3.connect(tmp_path / "headway.db") as db:
        assert [row for (row,) in db.execute("SELECT doc FROM request ORDER BY id")] == docs
        (requests,) = db.execute("SELECT n FROM day WHERE name = 'requests'").fetchone()
    assert requests in (2, 3)
