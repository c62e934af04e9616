"""Memory over time, in the database and on its way there."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from headway.core.model import Snapshot
from headway.core.samples import DAY_S, DEVICE, STEPS, Rollup, Series, rolled, span
from headway.daemon import sampling
from headway.daemon.sampling import Sampling
from headway.errors import StoreFailed
from headway.ports import Batch, Saved
from headway.store.migrate import MIGRATIONS
from headway.store.reader import SqliteReader
from headway.store.store import SqliteStore
from tests.core.make import Scene, dev, gib, job_spec

pytestmark = pytest.mark.contract

GPU = dev("gpu0")
NOON_S = 1_700_000_000 - 1_700_000_000 % DAY_S + DAY_S // 2
ITSELF, CHAT = Series(GPU, DEVICE), Series(GPU, "service", "chat")


def looks(from_s: int, to_s: int, bytes_: int = 8, busy: int = 1, device: str = GPU) -> list[Rollup]:
    """One a second of a device, and of a model on it that has half of what is used."""
    pairs = ((Series(device, DEVICE), bytes_, 0), (Series(device, "service", "chat"), bytes_ // 2, busy))
    return [
        Rollup(series=s, name="chat", step_s=1, at_s=at, looks=1, bytes=b, peak_bytes=b, busy=busy_)
        for at in range(from_s, to_s)
        for s, b, busy_ in pairs
    ]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(tmp_path / "headway.db")
    yield made
    await made.close()


@pytest.fixture
async def reader(store: SqliteStore, tmp_path: Path) -> AsyncIterator[SqliteReader]:
    made = SqliteReader(tmp_path / "headway.db")
    yield made
    await made.close()


async def save(store: SqliteStore, rows: list[Rollup]) -> None:
    await store.save(Batch(rollups=rolled(rows)))


def steps(path: Path) -> dict[int, int]:
    """How many rows there are of each step."""
    with closing(sqlite3.connect(path / "headway.db")) as db:
        return dict(db.execute("SELECT step_s, count(*) FROM sample GROUP BY 1"))


# ---------------------------------------------------------------- the store


async def test_what_comes_later_is_added_to_what_is_there(store: SqliteStore, reader: SqliteReader) -> None:
    await save(store, looks(NOON_S, NOON_S + 7, bytes_=16))
    await save(store, looks(NOON_S + 7, NOON_S + 20, bytes_=8, busy=0))
    asked = replace(span(NOON_S, NOON_S + 600, NOON_S + 600), width_s=600, step_s=600)
    found = {row.series: row for row in await reader.memory(GPU, asked)}
    assert set(found) == {ITSELF, CHAT}
    one = found[ITSELF]
    assert (one.at_s, one.looks, one.bytes, one.peak_bytes) == (NOON_S, 20, 7 * 16 + 13 * 8, 16)
    assert (found[CHAT].bytes, found[CHAT].busy) == (7 * 8 + 13 * 4, 7)


@pytest.mark.parametrize("step_s", STEPS)
async def test_every_step_can_be_read_at_every_width(
    store: SqliteStore, reader: SqliteReader, step_s: int
) -> None:
    await save(store, looks(NOON_S, NOON_S + 1300))
    asked = replace(span(NOON_S, NOON_S + 1800, NOON_S + 1800), width_s=600, step_s=step_s)
    found = [row for row in await reader.memory(GPU, asked) if row.series == ITSELF]
    assert [(row.at_s - NOON_S, row.looks, row.bytes) for row in found] == [
        (0, 600, 4800), (600, 600, 4800), (1200, 100, 800),
    ]  # fmt: skip


async def test_devices_are_apart_and_one_that_nobody_knows_has_nothing(
    store: SqliteStore, reader: SqliteReader
) -> None:
    await save(store, [*looks(NOON_S, NOON_S + 5), *looks(NOON_S, NOON_S + 5, 100, device="here/gpu1")])
    asked = span(NOON_S, NOON_S + 60, NOON_S)
    assert {row.bytes for row in await reader.memory("here/gpu1", asked)} == {100, 50}
    assert await reader.memory("here/gpu2", asked) == []


async def test_a_name_is_the_last_one(store: SqliteStore, reader: SqliteReader) -> None:
    await save(store, looks(NOON_S, NOON_S + 1))
    await save(store, [replace(row, name="other") for row in looks(NOON_S + 1, NOON_S + 2)])
    assert {row.name for row in await reader.memory(GPU, span(NOON_S, NOON_S + 60, NOON_S))} == {"other"}


async def test_old_rows_go_and_the_coarsest_stay(store: SqliteStore, tmp_path: Path) -> None:
    await save(store, looks(NOON_S - 40 * DAY_S, NOON_S - 40 * DAY_S + 20))
    for at_s in range(NOON_S, NOON_S + 40, 10):
        await save(store, looks(at_s, at_s + 10))
    assert steps(tmp_path) == {1: 2 * 40, 10: 2 * 4, 60: 2, 600: 2 * 2}


async def test_what_is_young_enough_stays(store: SqliteStore, tmp_path: Path) -> None:
    for step_s, kept_s in STEPS.items():
        await save(store, looks(at := NOON_S - (kept_s or DAY_S) + step_s, at + 1))
    await save(store, looks(NOON_S, NOON_S + 1))
    assert steps(tmp_path) == {1: 2 * 3, 10: 2 * 4, 60: 2 * 5, 600: 2 * 5}  # a day back is told of twice


async def test_a_clock_that_is_wrong_for_a_moment_costs_little(store: SqliteStore, tmp_path: Path) -> None:
    await save(store, looks(NOON_S, NOON_S + 1300))
    await save(store, looks(NOON_S + 9000 * DAY_S, NOON_S + 9000 * DAY_S + 1))
    left = steps(tmp_path)
    assert left[1] == 2 * (1300 - 60 + 1), "a minute of seconds"
    await save(store, looks(NOON_S + 1300, NOON_S + 1310))
    assert steps(tmp_path)[1] == left[1] + 2 * 10, "and nothing more once it is right again"


async def test_a_clock_that_is_set_back_counts_that_time_twice(
    store: SqliteStore, reader: SqliteReader
) -> None:
    for bytes_ in (8, 24):
        await save(store, looks(NOON_S, NOON_S + 10, bytes_))
    rows = await reader.memory(GPU, span(NOON_S, NOON_S + 60, NOON_S))
    device = [row for row in rows if row.series == ITSELF]
    assert {(row.looks, row.bytes // row.looks, row.peak_bytes) for row in device} == {(2, 16, 24)}


# ---------------------------------------------------------------- on its way there


class Clock:
    def __init__(self, wall_s: float) -> None:
        self.at_s = wall_s

    def wall_s(self) -> float:
        return self.at_s

    def now_s(self) -> float:
        return self.at_s


class Kept:
    """A store that says when it is done."""

    def __init__(self) -> None:
        self.batches: list[tuple[Batch, asyncio.Future[None]]] = []

    def load(self) -> Saved:
        raise AssertionError

    def save(self, batch: Batch) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.batches.append((batch, done))
        return done

    async def close(self) -> None:
        raise AssertionError


class World:
    """A device with a job on it, and looks at it. It is looked at beside everything else, so all time is wall time."""

    def __init__(self, at_s: float = NOON_S) -> None:
        self.clock, self.store = Clock(at_s), Kept()
        self.scene = Scene(24).job(job_spec(running=4)).read()
        self.sampling = Sampling(self.store, self.clock, self.snapshot)

    def snapshot(self) -> Snapshot:
        return self.scene.s

    def look(self, *at_s: float) -> None:
        for one in at_s:
            self.clock.at_s = NOON_S + one
            self.sampling.look()

    def saved(self) -> list[list[int]]:
        """Of each batch: the seconds of looks at the device."""
        return [
            [r.at_s - NOON_S for r in batch.rollups if r.step_s == 1 and r.series == ITSELF]
            for batch, _ in self.store.batches
        ]

    async def answer(self, error: Exception | None = None) -> None:
        _, done = self.store.batches[-1]
        done.set_exception(error) if error else done.set_result(None)
        await asyncio.sleep(0)


async def test_ten_seconds_are_saved_as_soon_as_they_are_over() -> None:
    world = World()
    world.look(*range(10))
    assert world.saved() == []
    world.look(10.2)
    assert world.saved() == [list(range(10))]
    assert {r.step_s for r in world.store.batches[0][0].rollups} == set(STEPS)
    assert {r.bytes for r in world.store.batches[0][0].rollups if r.step_s == 10} == {10 * gib(4)}


async def test_a_clock_that_jumps_closes_what_was_open() -> None:
    world = World()
    world.look(0, 1, -500)
    assert world.saved() == [[0, 1]]
    await world.answer()
    world.look(-499, 90_000)
    assert world.saved() == [[0, 1], [-500, -499]]


FAILED = StoreFailed("the disk is full.", reason="full")


async def test_what_could_not_be_saved_goes_with_the_next() -> None:
    world = World()
    world.look(8, 9, 10)
    await world.answer(FAILED)
    world.look(11, 20)
    assert world.saved()[1] == [8, 9, 10, 11]


async def test_a_silent_disk_is_asked_once_and_what_waits_for_it_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampling, "UNSAVED_MAX", 2 * 30)
    world = World()
    world.look(*range(50))
    assert len(world.store.batches) == 1
    await world.answer(FAILED)
    world.look(50)
    assert world.saved()[1] == list(range(20, 50)), "the oldest went"


async def test_the_last_looks_are_saved_when_it_ends() -> None:
    world = World()
    task = asyncio.create_task(world.sampling.run())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert world.saved() == [[0]]


async def test_a_killed_daemon_has_lost_the_open_ten_seconds_and_nothing_else(
    store: SqliteStore, reader: SqliteReader
) -> None:
    asked = replace(span(NOON_S, NOON_S + 600, NOON_S + 600), width_s=600, step_s=600)
    for begin_s in (0, 37):
        world = World()  # a new daemon each time: the one before was never told to end
        world.sampling = Sampling(store, world.clock, world.snapshot)
        for at_s in range(begin_s, begin_s + 36):
            world.look(at_s)
            await store.save(Batch())  # whatever was on its way is there
    row = next(row for row in await reader.memory(GPU, asked) if row.series == ITSELF)
    assert (row.looks, row.bytes) == (30 + 33, (30 + 33) * gib(4))


async def test_a_device_that_cannot_be_read_costs_no_row() -> None:
    world = World()
    world.scene.read(trouble="lost")
    world.look(*range(25))
    assert world.store.batches == []


async def test_a_database_without_them_is_brought_up_and_goes_on(tmp_path: Path) -> None:
    old = SqliteStore(tmp_path / "headway.db", migrations=MIGRATIONS[:2])
    await old.save(Batch(meta={"mode": "live"}))
    await old.close()
    new = SqliteStore(tmp_path / "headway.db")
    await save(new, looks(NOON_S, NOON_S + 1))
    assert new.load().meta["mode"] == "live"
    await new.close()
    assert steps(tmp_path) == dict.fromkeys(STEPS, 2)
