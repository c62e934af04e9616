"""What the log tells is learned once, whatever is killed: the history is saved with the offsets that it is made up to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.core.history import Histories
from headway.core.model import Snapshot
from headway.core.pauses import Table
from headway.daemon.learning import KEEP_EVERY_S, KEPT, Learning
from headway.daemon.record import Recorder
from headway.host.gate_files import RequestFiles
from tests.core.test_history import Row, row
from tests.parts.fake_store import FakeClock, FakeJournal, FakeStore
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

LOG = "2026-05.g1.ndjson"
S = Snapshot(now_s=1.0, boot_id="b1")


class Life:
    """One life of what reads the log, over a store that stays."""

    def __init__(self, directory: Path, store: FakeStore, pauses: Callable[[], Snapshot] = lambda: S) -> None:
        self.store, self.clock, self.told = store, FakeClock(), 0
        self.recorder = Recorder(store, FakeJournal(), self.clock, lambda event: None)
        self.learning = Learning(
            RequestFiles(directory),
            store.load(),
            Table({}),
            "b1",
            self.clock,
            self.recorder,
            self._tell,
            pauses,
        )

    def _tell(self) -> None:
        self.told += 1

    @property
    def histories(self) -> Histories:
        return self.learning.histories

    async def save(self) -> None:
        await self.recorder.flush(S)


def write(directory: Path, *rows: Row) -> None:
    with (directory / LOG).open("a") as log:
        log.writelines(json.dumps(one) + "\n" for one in rows)


def rows(count: int, start: int = 0) -> list[Row]:
    return [row(30.0 * n, waited_s=2.0 if n % 7 == 0 else 0.0) for n in range(start, start + count)]


def alike(one: Histories, other: Histories) -> bool:
    a, b = one.of["chat"], other.of["chat"]
    now_s = a.heard_s or 0.0
    curve = pytest.approx(b.forecast.quiet(now_s).shares, rel=1e-3)
    return a.ledger.to_doc() == b.ledger.to_doc() and a.forecast.quiet(now_s).shares == curve


async def test_after_a_kill_it_is_what_the_whole_log_makes(tmp_path: Path) -> None:
    """Killed before anything was saved, after a save, and long after the last one."""
    store = FakeStore()
    write(tmp_path, *rows(40))
    Life(tmp_path, store).learning.read()
    second = Life(tmp_path, store)
    assert second.learning.read() and not second.learning.read()
    second.learning.keep()
    await second.save()
    write(tmp_path, *rows(30, 40))
    second.learning.read()
    await second.save()  # its rows and their offsets; the history is saved less often
    write(tmp_path, *rows(30, 70))
    third = Life(tmp_path, store)
    while third.learning.read():
        pass
    await third.save()
    whole = Life(tmp_path, FakeStore())
    whole.learning.read()
    assert alike(third.histories, whole.histories) and third.histories.of["chat"].lines == 100
    stored = [line.offset for batch in store.committed for line in batch.requests]
    assert len(stored) == len(set(stored)) == 100


async def test_what_was_saved_in_words_that_are_not_known_is_made_of_the_log_again(tmp_path: Path) -> None:
    store = FakeStore()
    write(tmp_path, *rows(20))
    first = Life(tmp_path, store)
    first.learning.read()
    first.learning.keep()
    await first.save()
    for text in (
        "{",
        "[]",
        '{"services":{"chat":{}}}',
        '{"boots":{},"services":{},"offsets":3}',
        '{"boots":{},"services":[],"offsets":{}}',
        '{"boots":{},"services":{"chat":{"forecast":[]}},"offsets":{}}',
    ):
        store.meta[KEPT] = text
        again = Life(tmp_path, store)
        again.learning.read()
        assert alike(again.histories, first.histories)
        await again.save()
    assert sum(len(batch.requests) for batch in store.committed) == 20


async def test_lines_that_are_none_are_rows_and_nothing_more(tmp_path: Path) -> None:
    store = FakeStore()
    write(tmp_path, *rows(3))
    with (tmp_path / LOG).open("a") as log:
        log.write('{"cut\n[1]\n"text"\n')
    life = Life(tmp_path, store)
    life.learning.read()
    await life.save()
    assert life.histories.of["chat"].lines == 3
    assert sum(len(batch.requests) for batch in store.committed) == 6


async def test_it_is_saved_now_and_then_and_only_when_something_was_learned(tmp_path: Path) -> None:
    store = FakeStore()
    life = Life(tmp_path, store)
    write(tmp_path, *rows(3))
    running = asyncio.create_task(life.learning.run())
    try:
        await wait_until(lambda: life.told == 1, 10.0, "the lines to be read")
        await life.save()
        assert KEPT not in store.meta
        life.clock.offset_s += KEEP_EVERY_S
        life.learning.stir()
        await wait_until(lambda: bool(life.recorder._meta), 10.0, "the history to be saved")
        await life.save()
        assert len(json.loads(store.meta[KEPT])["services"]["chat"]["ledger"]["hours"]) == 1
        life.clock.offset_s += KEEP_EVERY_S
        life.learning.stir()
        await wait_until(lambda: not life.learning._stirred.is_set(), 10.0, "another look")
        assert not life.recorder._meta
    finally:
        running.cancel()


async def test_while_the_store_is_silent_nothing_is_read(tmp_path: Path) -> None:
    life = Life(tmp_path, FakeStore())
    life.recorder.ok = False
    write(tmp_path, *rows(3))
    running = asyncio.create_task(life.learning.run())
    try:
        life.learning.stir()
        await wait_until(lambda: not life.learning._stirred.is_set(), 10.0, "a look")
        assert life.told == 0
        life.recorder.ok = True
        life.learning.stir()
        await wait_until(lambda: life.told == 1, 10.0, "the lines to be read")
    finally:
        running.cancel()
