"""The recorder over a store that commits, is late, fails and recovers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from headway.core import codec, wishes
from headway.core.commands import AddJob
from headway.core.draft import Draft
from headway.core.facts import MoveAnswered, StoreState
from headway.core.model import Event, Move, Pending
from headway.daemon.record import SILENT_S, Recorder
from headway.ports import RequestLine
from tests.core.make import Scene, dev, job_spec, service_spec
from tests.parts.fake_store import FakeClock, FakeJournal, FakeStore

pytestmark = pytest.mark.contract


class Desk:
    """A recorder, and turns by hand: each `turn` is one draft that is saved."""

    def __init__(self, mode: str = "ok", journal: FakeJournal | None = None) -> None:
        self.store, self.journal = FakeStore(mode), journal or FakeJournal()
        self.told: list[Event] = []
        self.recorder = Recorder(self.store, self.journal, FakeClock(), self.told.append)
        self.scene = (
            Scene(24).service(service_spec("chat"), form="stopped").job(job_spec("train"), form="stopped")
        )
        self.number = 0

    async def turn(self, *holders: str, event: bool = True) -> bool:
        """Change these holders in one turn and save it."""
        draft = self.scene.draft()
        self.number += 1
        for hid in holders:
            draft.put(_noted(draft, hid, f"n{self.number}"))
        if event:
            draft.event(f"turn.{self.number}", None)
        return await self.save(draft)

    async def add(self, name: str) -> bool:
        draft = self.scene.draft()
        wishes.apply(draft, AddJob(spec=job_spec(name)))
        return await self.save(draft)

    async def intend(self, hid: str, number: int) -> tuple[bool, Move, Pending]:
        """A turn that begins a creating move."""
        draft, run_id = self.scene.draft(), f"{hid}.{number}"
        to = draft.holders[hid].top
        made: dict[str, Any] = {"holder": hid, "devices": (dev("gpu0"),), "run_id": run_id, "creates": True}
        move = Move(form=to, limit_s=30.0, **made)
        pending = Pending(
            to=to, source="stopped", exclusive=False, frees=False, started_s=1.0, limit_at_s=31.0, **made
        )
        draft.move(pending)
        return await self.save(draft), move, pending

    async def save(self, draft: Draft) -> bool:
        self.scene.s = draft.done()
        return await self.recorder.save(draft, self.scene.s)

    def facts(self) -> list[bool]:
        """What the loop would hear of the store at its next turn."""
        return [fact.ok for fact in self.recorder.facts() if isinstance(fact, StoreState)]


def _noted(draft: Draft, hid: str, note: str) -> Any:
    return replace(draft.holders[hid], note=note)


async def test_a_turn_is_one_batch_with_all_that_changed() -> None:
    desk = Desk()
    assert await desk.turn("chat", "train")
    (batch,) = desk.store.committed
    assert [hid for hid, _, _ in batch.holders] == ["chat", "train"]
    assert {"boot_id", "saved_s", "saved_wall_s"} <= set(batch.meta)
    assert [event.code for event in desk.told] == ["turn.1"] == desk.store.codes()
    assert desk.recorder.ok and desk.facts() == []


async def test_a_turn_without_changes_writes_nothing() -> None:
    desk = Desk()
    assert await desk.turn(event=False)
    assert desk.store.attempts == 0


async def test_a_late_store_is_silent_after_250_ms_and_costs_only_one_turn_its_time() -> None:
    desk = Desk("hangs")
    began_s = time.monotonic()
    assert not await desk.turn("chat")
    assert time.monotonic() - began_s >= SILENT_S * 0.9
    assert not desk.recorder.ok and desk.facts() == [False]
    began_s = time.monotonic()
    for _ in range(20):
        assert not await desk.turn("chat")
    assert time.monotonic() - began_s < SILENT_S  # nobody waits for it again
    assert desk.store.attempts == 1 and desk.facts() == []


async def test_rows_follow_in_order_when_a_late_store_speaks() -> None:
    desk = Desk("hangs")
    for hid in ("chat", "train", "chat"):
        assert not await desk.turn(hid)
    desk.store.speak()
    assert desk.facts() == [False, True] and desk.recorder.ok
    assert await desk.turn("train")
    assert desk.store.codes() == ["turn.1", "turn.2", "turn.3", "turn.4"]
    saved = {
        hid: codec.loads(type(desk.scene.s.holders[hid]), desk.store.holders[hid][1])
        for hid in ("chat", "train")
    }
    assert {hid: holder.note for hid, holder in saved.items()} == {"chat": "n3", "train": "n4"}


@pytest.mark.parametrize("how", ["fails", "hangs, then fails"])
async def test_what_was_in_a_failed_commit_is_written_again(how: str) -> None:
    desk = Desk("fails" if how == "fails" else "hangs")
    desk.recorder.tailed([RequestLine(source="f", offset=0, doc="{}")], {"f": 3})
    desk.recorder.meta(salt="s")
    assert not await desk.turn("chat")
    if how != "fails":
        desk.store.speak(well=False)
        assert desk.facts()[-1] is False
    else:
        assert not await desk.turn("train")
    desk.store.mode = "ok"
    assert await desk.turn("train")
    assert set(desk.store.holders) == {"chat", "train"}
    assert desk.store.codes()[0] == "turn.1" and desk.store.offsets == {"f": 3}
    assert [line.offset for batch in desk.store.committed for line in batch.requests] == [0]
    assert desk.store.meta["salt"] == "s"
    assert desk.facts()[-1] is True


async def test_any_error_of_a_commit_is_a_failure() -> None:
    desk = Desk()

    def save(batch: object) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_exception(RuntimeError("cannot schedule new futures"))
        return future

    desk.store.save = save  # type: ignore[method-assign]
    assert not await desk.turn("chat")
    assert not desk.recorder.ok
    del desk.store.save
    assert await desk.turn(event=False) and "chat" in desk.store.holders


async def test_a_dropped_holder_that_came_back_is_kept() -> None:
    desk = Desk("hangs")
    await desk.add("first")
    draft = desk.scene.draft()
    draft.drop("j1")
    await desk.save(draft)
    desk.store.speak()
    await desk.turn()
    assert "j1" not in desk.store.holders


async def test_only_the_way_back_of_a_model_goes_ahead_without_a_row() -> None:
    desk = Desk("hangs")
    saved, move, pending = await desk.intend("train", 1)
    assert (
        not saved
        and not desk.recorder.allows(move, pending, desk.scene.s, saved=False)
        and not desk.journal.entries
    )
    saved, move, pending = await desk.intend("chat", 1)
    assert not saved and desk.recorder.allows(move, pending, desk.scene.s, saved=False)
    assert [e["holder"] for e in desk.journal.entries] == ["chat"]
    assert codec.from_doc(Pending, desk.journal.entries[0]["pending"]) == pending
    refusal = desk.recorder.refusal(move)
    assert isinstance(refusal, MoveAnswered) and (refusal.refused, refusal.error) == (True, "store_silent")


async def test_what_gives_memory_back_is_on_file_before_it_is_done() -> None:
    """Else the next daemon takes our own TERM for the end of the job."""
    desk = Desk()
    _, move, pending = await desk.intend("train", 1)
    leaves = replace(move, creates=False, frees=True)
    assert desk.recorder.allows(leaves, pending, desk.scene.s, saved=True)
    assert [entry["holder"] for entry in desk.journal.entries] == ["train"]
    desk.journal.broken = True
    assert desk.recorder.allows(leaves, pending, desk.scene.s, saved=False), "it never waits"


async def test_without_a_journal_it_does_not_go_ahead_either() -> None:
    desk = Desk("hangs")
    desk.journal.broken = True
    _, move, pending = await desk.intend("chat", 1)
    assert desk.recorder.allows(move, pending, desk.scene.s, saved=False) is False


async def test_the_journal_is_cleared_only_when_its_rows_are_in() -> None:
    """The commit under way when something is journaled has nothing of it."""
    desk = Desk("hangs")
    await desk.turn("train")
    _, move, pending = await desk.intend("chat", 1)
    assert desk.recorder.allows(move, pending, desk.scene.s, saved=False)
    desk.store.speak()
    assert desk.facts() == [False, True]
    assert desk.journal.entries and "chat" not in desk.store.pending
    assert await desk.turn()
    assert "chat" in desk.store.pending and not desk.journal.entries


async def test_a_second_entry_keeps_the_journal_until_its_own_row_is_in() -> None:
    desk = Desk("hangs")
    await desk.turn("train")
    _, move, pending = await desk.intend("chat", 1)
    desk.recorder.allows(move, pending, desk.scene.s, saved=False)
    desk.store.speak()
    desk.store.mode = "hangs"
    await desk.turn()  # has the first intent, and hangs
    _, move, pending = await desk.intend("chat", 2)
    desk.recorder.allows(move, pending, desk.scene.s, saved=False)
    desk.store.speak()
    desk.facts()
    assert len(desk.journal.entries) == 2
    assert await desk.turn()
    assert not desk.journal.entries


async def test_a_failed_commit_does_not_clear_the_journal() -> None:
    desk = Desk("fails")
    _, move, pending = await desk.intend("chat", 1)
    assert desk.recorder.allows(move, pending, desk.scene.s, saved=False)
    assert not await desk.turn()
    assert desk.journal.entries
    desk.store.mode = "ok"
    assert await desk.turn()
    assert not desk.journal.entries


async def test_what_an_earlier_daemon_journaled_is_cleared_after_the_first_commit() -> None:
    desk = Desk(journal=FakeJournal({"holder": "chat", "pending": {}}))
    assert await desk.turn("chat")
    assert not desk.journal.entries


async def test_a_journal_that_cannot_be_cleared_is_tried_again() -> None:
    desk = Desk(journal=FakeJournal({"holder": "chat", "pending": {}}))
    desk.journal.broken = True
    assert await desk.turn("chat")
    desk.journal.broken = False
    assert await desk.turn("chat")
    assert not desk.journal.entries


@pytest.mark.parametrize("mode", ["ok", "hangs"])
async def test_flush_writes_what_is_left(mode: str) -> None:
    desk = Desk(mode)
    await desk.turn("chat")
    draft = desk.scene.draft()
    draft.put(_noted(draft, "train", "last"))
    desk.scene.s = draft.done()
    desk.recorder.collect(draft, desk.scene.s)
    asyncio.get_running_loop().call_later(0.02, desk.store.speak)
    await desk.recorder.flush(desk.scene.s)
    assert set(desk.store.holders) == {"chat", "train"}
