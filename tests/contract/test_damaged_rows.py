"""One damaged row of the database: it is named, or left out, and takes no other with it."""

import asyncio
import json
import shlex
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headway.core import codec
from headway.core.commands import Configure
from headway.core.model import Job, Policy, Service
from headway.daemon.adopt import adopt
from headway.errors import LineUnreadable, RowUnreadable
from headway.ports import Batch, Journal
from headway.store.journal import FileJournal
from headway.store.store import SqliteStore
from tests.parts.adopting import CHAT, NOW_S, WALL_S, job, pending, service
from tests.parts.fake_runs import FakeRuns
from tests.parts.fake_store import FakeJournal
from tests.parts.false_api import Served, serving

pytestmark = pytest.mark.contract

PIN = "correct horse"
DAMAGE = ("'{bad'", "'[1]'", "'null'", "'{}'", "x'ff00'", "cast(x'ff' as text)", "5")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a home").mkdir()
    return tmp_path / "a home" / "headway.db"


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(file)
    yield made
    await made.close()


def damage(file: Path, statement: str) -> None:
    db = sqlite3.connect(file)
    with db:
        assert db.execute(statement).rowcount > 0
    db.close()


async def a_daemon_was_here(store: SqliteStore) -> None:
    one, other = service(), job("parked")
    await store.save(
        Batch(
            holders=tuple((h.id, h.kind, codec.dumps(h)) for h in (one, other)),
            pending=((other.id, codec.dumps(pending(other, "running"))),),
            offsets={"2026-01.g.ndjson": 10},
            meta={
                "boot_id": "other",
                "saved_s": "5.0",
                "saved_wall_s": "6.0",
                "mode": "live",
                "config_mode": "live",
            },
        )
    )


def adopted(store: SqliteStore, journal: Journal | None = None) -> dict[str, Any]:
    configure = Configure(services=(CHAT,), recipes=())
    found = adopt(
        store.load(), journal or FakeJournal(), FakeRuns(), configure, Policy(), "live", {}, NOW_S, WALL_S
    )
    return dict(found.snapshot.holders)


@pytest.mark.parametrize("value", DAMAGE)
@pytest.mark.parametrize(
    ("table", "column", "key"), [("holder", "id", "j1"), ("holder", "id", "chat"), ("intent", "holder", "j1")]
)
async def test_a_damaged_row_that_is_needed_ends_the_start_by_its_name(
    store: SqliteStore, file: Path, table: str, column: str, key: str, value: str
) -> None:
    await a_daemon_was_here(store)
    assert {hid: type(h) for hid, h in adopted(store).items()} == {"chat": Service, "j1": Job}
    damage(file, f"UPDATE {table} SET doc = {value} WHERE {column} = '{key}'")
    with pytest.raises(RowUnreadable) as raised:
        adopted(store)
    assert raised.value.facts == {"table": table, "key": key, "file": str(file)}
    assert len(store.load().holders) == 2 and len(store.load().pending) == 1, "nothing is deleted"
    program, database, statement = shlex.split(str(raised.value).split("`")[-2])
    assert (program, database) == ("sqlite3", str(file))
    damage(file, statement)
    assert adopted(store)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("windows", "'{bad'"),
        ("next_job", "'abc'"),
        ("saved_s", "'abc'"),
        ("mode", "'odd'"),
        ("recipes", "'[1]'"),
        ("queue_hold", "'{'"),
        ("crashes", "'{'"),
        ("salt", "x'ff'"),
    ],
)
async def test_so_does_a_damaged_small_fact(store: SqliteStore, file: Path, key: str, value: str) -> None:
    await a_daemon_was_here(store)
    damage(file, f"INSERT OR REPLACE INTO meta (key, value) VALUES ('{key}', {value})")
    with pytest.raises(RowUnreadable) as raised:
        adopted(store)
    assert raised.value.facts == {"table": "meta", "key": key, "file": str(file)}


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"holder": "j1"},
        {"holder": "j1", "pending": None},
        {"holder": "j1", "pending": {"holder": "j1"}},
        {"holder": "j1", "pending": [1]},
        {"holder": "chat", "pending": codec.to_doc(pending(job("parked"), "running"))},
    ],
)
async def test_so_does_a_whole_line_of_the_journal_that_says_nothing(
    store: SqliteStore, tmp_path: Path, entry: dict[str, Any]
) -> None:
    """The way out that is named is one: what it is given is a start without what the journal says."""
    await a_daemon_was_here(store)
    path = tmp_path / "a home" / "journal.ndjson"
    journal = FileJournal(path)
    journal.append({"holder": "j1", "pending": codec.to_doc(pending(job("parked"), "running"))})
    assert adopted(store, journal)
    journal.append(entry)
    with pytest.raises(LineUnreadable) as raised:
        adopted(store, journal)
    assert raised.value.facts == {"line": 2, "file": str(path)}
    assert len(journal.read()) == 2, "nothing is deleted"
    subprocess.run(shlex.split(str(raised.value).split("`")[-2]), check=True)
    assert adopted(store, journal)


async def test_so_does_a_damaged_offset(store: SqliteStore, file: Path) -> None:
    await a_daemon_was_here(store)
    damage(file, "UPDATE log_offset SET offset = 'abc'")
    with pytest.raises(RowUnreadable) as raised:
        adopted(store)
    assert raised.value.facts["table"] == "log_offset"


# ---------------------------------------------------------------- small documents of the API


async def asked(
    api: Served, verb: str, path: str, payload: Any = None, **headers: str
) -> tuple[int, str | None]:
    status, _, body = await api.raw(verb, path, payload, **headers)
    found = json.loads(body) if body else {}
    return status, found.get("code") if isinstance(found, dict) else None


@pytest.mark.parametrize("value", DAMAGE[::2])
async def test_a_damaged_answer_is_dropped_and_the_others_stay(
    store: SqliteStore, file: Path, short_dir: Path, value: str
) -> None:
    train = {"recipe": "train"}
    async with serving(short_dir, keeper=store) as api:
        secret, _ = await api.access.tokens.create("all", ["admin"])
        who = f"Bearer {secret}"
        await asked(api, "POST", "/api/v1/jobs", train, Authorization=who, Idempotency_Key="k1")
        await asked(api, "POST", "/api/v1/jobs", train, Authorization=who, Idempotency_Key="k2")
        assert len(api.inbox.given) == 2
    first, second = (one.key for one in sorted(store.kept(), key=lambda one: one.doc) if one.kind == "answer")
    damage(file, f"UPDATE kept SET doc = {value} WHERE key = '{first}'")
    damage(file, f"UPDATE kept SET wall_s = 'abc' WHERE key = '{second}'")
    async with serving(short_dir, keeper=store) as api:
        for key in ("k1", "k2"):
            await asked(api, "POST", "/api/v1/jobs", train, Authorization=who, Idempotency_Key=key)
        assert len(api.inbox.given) == 1, "the one that is known is not done again"
        await asked(api, "POST", "/api/v1/jobs", train, Authorization=who, Idempotency_Key="k3")
    for one in store.kept():
        if one.kind == "answer":
            assert json.loads(one.doc)["status"] == 202


@pytest.mark.parametrize("value", DAMAGE[::2])
async def test_a_damaged_pin_has_to_be_set_anew(
    store: SqliteStore, file: Path, short_dir: Path, value: str
) -> None:
    async with serving(short_dir, keeper=store) as api:
        await asyncio.to_thread(api.local.put, "/api/v1/pin", {"pin": PIN})
    damage(file, f"UPDATE kept SET doc = {value} WHERE kind = 'pin'")
    async with serving(short_dir, keeper=store) as api:
        assert await asked(api, "POST", "/api/v1/session", {"pin": PIN}) == (409, "pin_unreadable")
        assert [one.kind for one in store.kept()] == ["pin"]
        await asyncio.to_thread(api.local.put, "/api/v1/pin", {"pin": PIN})
        assert await asked(api, "POST", "/api/v1/session", {"pin": PIN}) == (201, None)


@pytest.mark.parametrize("value", DAMAGE[::2])
async def test_a_damaged_token_lets_nobody_in_and_the_others_work(
    store: SqliteStore, file: Path, short_dir: Path, value: str
) -> None:
    async with serving(short_dir, keeper=store) as api:
        bad, row = await api.access.tokens.create("bad", ["read"])
        good, _ = await api.access.tokens.create("good", ["read"])
    damage(file, f"UPDATE kept SET doc = {value} WHERE key = '{row.id}'")
    async with serving(short_dir, keeper=store) as api:
        assert await asked(api, "GET", "/api/v1/status", Authorization=f"Bearer {good}") == (200, None)
        assert (await asked(api, "GET", "/api/v1/status", Authorization=f"Bearer {bad}"))[0] == 401
    assert len(store.kept()) == 2, "nothing is deleted"
