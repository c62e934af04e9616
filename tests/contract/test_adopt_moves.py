"""What a new daemon makes of the moves an earlier one had begun."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from headway.core import fold, steps
from headway.core.decide import decide
from headway.core.draft import Draft
from headway.core.model import (
    Exit,
    Job,
    Move,
)
from headway.daemon.act import hook_id
from headway.daemon.adopt import OUTCOME_S
from tests.core.make import dev, reading, service_spec
from tests.parts.adopting import (
    CHAT,
    NAPPER,
    NOW_S,
    Before,
    dropped,
    job,
    pending,
    run_of,
    service,
    start,
)

pytestmark = pytest.mark.contract


def test_a_start_that_never_ran_is_dropped_and_its_id_not_used_again() -> None:
    j1 = job("stopped")
    before = Before([j1], [start(j1, "running", 4)])
    adopted = before.adopt()
    assert dropped(adopted) == ["never_ran"] and not adopted.redo and not adopted.snapshot.pending
    found = adopted.snapshot.holders["j1"]
    assert found.devices == () and steps.run_id(found, creates=True) == "j1.5"
    assert adopted.draft.intents == {"j1"}  # its row goes with the first turn


def test_what_a_killed_launcher_left_is_removed() -> None:
    j1 = job("stopped")
    before = Before([j1], [start(j1, "running", 1)])
    before.runs.put("j1.1", "j1", lock_held=False, pid=None)
    assert dropped(before.adopt()) == ["never_ran"]
    assert before.runs.forgotten == ["j1.1"]


STARTING = {"it runs": {}, "its shim is about to execute it": {"pid": None}}


@pytest.mark.parametrize("state", STARTING.values(), ids=STARTING.keys())
def test_a_start_under_way_is_kept_and_ensured(state: Mapping[str, Any]) -> None:
    chat = service("stopped")
    before = Before([chat], [start(chat, "awake", 1)])
    before.runs.put("chat.1", "chat", **state)
    adopted = before.adopt()
    ((move, kept),) = adopted.redo
    assert (move.run_id, move.form, move.creates) == ("chat.1", "awake", True)
    assert adopted.snapshot.pending["chat"] == kept and kept.started_s == 4990.0
    assert adopted.snapshot.holders["chat"].devices == (dev("gpu0"),)
    assert adopted.watch == [("chat", "chat.1")] and not adopted.orphans
    assert not [a for a in decide(adopted.snapshot).actions if isinstance(a, Move)]


def test_a_job_that_ended_before_its_start_was_noted_has_its_exit_code() -> None:
    j1 = job("stopped")
    before = Before([j1], [start(j1, "running", 1)])
    before.runs.put("j1.1", "j1", lock_held=False, exit=Exit(code=0), gone=True)
    adopted = before.adopt()
    found = adopted.snapshot.holders["j1"]
    assert isinstance(found, Job) and (found.ended, found.exit_code) == ("done", 0)
    assert not adopted.snapshot.pending and not adopted.redo


def parking(state: Mapping[str, Any] | None, **more: Any) -> Before:
    j1 = job()
    move = pending(j1, "parked", **more)
    before = Before([j1], [move])
    before.runs.put("j1.1", "j1")
    if state is not None:
        before.runs.put(hook_id("j1.1", move), "j1", kind="hook", **state)
    return before


PARKING = {
    # name: (the hook's run, reason it is dropped for)
    "under way": ({}, None),
    "ended well": ({"lock_held": False, "exit": Exit(code=0), "gone": True}, None),
    "ended badly": ({"lock_held": False, "exit": Exit(code=1), "gone": True}, None),
    "never asked": (None, "no_trace"),
    "its launcher was killed": ({"lock_held": False, "pid": None}, "no_trace"),
}


@pytest.mark.parametrize(("state", "reason"), PARKING.values(), ids=PARKING.keys())
def test_a_park_is_found_by_its_hook(state: Mapping[str, Any] | None, reason: str | None) -> None:
    before = parking(state)
    adopted = before.adopt()
    assert dropped(adopted) == ([reason] if reason else [])
    assert [hook_id("j1.1", p) for _, p in adopted.redo] == ([] if reason else ["j1.1.parked.4990000"])
    if reason:
        assert [r for r in before.runs.states if r != "j1.1"] == []


def test_a_park_that_was_answered_waits_for_the_meter() -> None:
    adopted = parking(None, step="answered", answered_s=4995.0).adopt()
    assert adopted.snapshot.pending["j1"].step == "answered" and not adopted.redo


LATE = {"asked, and its hook ended": ("asked", {"lock_held": False, "exit": Exit(code=0), "gone": True}),
        "answered": ("answered", None)}  # fmt: skip


@pytest.mark.parametrize(("step", "state"), LATE.values(), ids=LATE.keys())
def test_a_move_whose_limit_passed_meanwhile_is_not_punished_for_it(
    step: str, state: Mapping[str, Any] | None
) -> None:
    """Nobody looked: its outcome is read before the next rung is taken."""
    adopted = parking(state, step=step, answered_s=4000.0, limit_at_s=4100.0, started_s=4990.0).adopt()
    assert adopted.snapshot.pending["j1"].limit_at_s == NOW_S + OUTCOME_S
    assert not [a for a in decide(adopted.snapshot).actions if isinstance(a, Move)]
    assert all(move.limit_s == OUTCOME_S for move, _ in adopted.redo)


def test_a_stop_goes_on() -> None:
    j1 = job()
    before = Before([j1], [pending(j1, "stopped", kill=True, rung=2)])
    before.runs.put("j1.1", "j1")
    ((move, _),) = before.adopt().redo
    assert (move.form, move.kill, move.rung, move.run_id) == ("stopped", True, 2, "j1.1")


def test_a_job_that_ended_while_it_was_told_to_leave_waits_for_the_meter() -> None:
    j1 = job(wish="cancel")
    before = Before([j1], [pending(j1, "stopped")])
    before.runs.put("j1.1", "j1", lock_held=False, exit=Exit(code=-15, at_s=4995.0), gone=True)
    adopted = before.adopt()
    assert adopted.snapshot.pending["j1"].step == "answered"


SLEEPING = {
    # name: (form, to, frees)
    "sleep": ("awake", "asleep", True),
    "wake": ("asleep", "awake", False),
}


@pytest.mark.parametrize(("form", "to", "frees"), SLEEPING.values(), ids=SLEEPING.keys())
def test_a_sleep_or_wake_under_way_is_ensured_and_nothing_goes_beside_it(
    form: str, to: str, frees: bool
) -> None:
    chat = service(form, NAPPER)
    before = Before([chat], [pending(chat, to, frees=frees)], services=(NAPPER,))
    before.runs.put("chat.1", "chat")
    adopted = before.adopt()
    assert [move.form for move, _ in adopted.redo] == [to]
    assert not [a for a in decide(adopted.snapshot).actions if isinstance(a, Move)]


@pytest.mark.parametrize("to", ["asleep", "stopped"])
def test_an_old_intent_never_touches_a_service_whose_gate_was_opened_since(to: str) -> None:
    """The store was silent, so the end of that move was never saved."""
    chat = service("awake", NAPPER)
    before = Before([chat], [pending(chat, to)], open={"chat": "http://u"}, services=(NAPPER,))
    before.runs.put("chat.1", "chat")
    adopted = before.adopt()
    assert dropped(adopted) == ["gate_open"] and not adopted.redo


def test_a_journal_entry_wins_over_the_row() -> None:
    chat = service("stopped", runs=1)
    before = Before([chat], [pending(chat, "stopped")], [start(chat, "awake", 2)])
    before.runs.put("chat.2", "chat")
    adopted = before.adopt()
    assert [move.run_id for move, _ in adopted.redo] == ["chat.2"] and not adopted.orphans
    assert adopted.snapshot.holders["chat"].runs == 2


def test_the_end_of_an_older_run_is_not_that_of_the_start_under_way() -> None:
    """The store was silent since before the older one died."""
    chat = service("awake")
    before = Before([chat], journal=[start(chat, "awake", 2)])
    before.runs.put("chat.1", "chat", lock_held=False, exit=Exit(code=-9), gone=True)
    before.runs.put("chat.2", "chat")
    adopted = before.adopt()
    assert [move.run_id for move, _ in adopted.redo] == ["chat.2"]
    found = adopted.snapshot.holders["chat"]
    assert found.run is not None and found.run.id == "chat.2" and not adopted.orphans


def test_a_journaled_start_of_a_service_without_a_row_is_found() -> None:
    """The store was silent since the first start of all."""
    before = Before(journal=[start(service("stopped"), "awake", 1)], open={"chat": "http://u"})
    before.runs.put("chat.1", "chat")
    adopted = before.adopt()
    assert [move.run_id for move, _ in adopted.redo] == ["chat.1"] and not adopted.orphans


@pytest.mark.parametrize("code", [-15, 143, 0])
def test_a_job_that_we_were_stopping_is_queued_again_whatever_code_our_term_gave_it(code: int) -> None:
    """The daemon was killed between the TERM and the commit: only the journal knows."""
    train = job("running")
    leaving = pending(train, "stopped")
    before = Before([train], journal=[leaving])
    exit_ = Exit(code=code, at_s=leaving.started_s + 0.1)
    before.runs.put("j1.1", "j1", lock_held=False, exit=exit_, gone=True)
    found = before.adopt().snapshot
    assert found.holders["j1"].ended is None  # type: ignore[attr-defined]
    assert (found.pending["j1"].to, found.pending["j1"].step) == ("stopped", "answered")


STALE = {"an earlier run": (3, "awake"), "this run, and it is awake": (2, "awake")}


@pytest.mark.parametrize(("runs", "form"), STALE.values(), ids=STALE.keys())
def test_a_journal_entry_the_rows_have_overtaken_is_of_the_past(runs: int, form: str) -> None:
    chat = service(form, run=run_of("chat", runs), runs=runs)
    before = Before([chat], journal=[start(chat, "awake", 2)], open={"chat": "http://u"})
    before.runs.put("chat.2", "chat", lock_held=False, exit=Exit(code=1), gone=True)
    before.runs.put(f"chat.{runs}", "chat")
    adopted = before.adopt()
    found = adopted.snapshot.holders["chat"]
    assert found.run is not None and found.run.id == f"chat.{runs}" and found.form == "awake"
    assert dropped(adopted) == ["done"] and not adopted.snapshot.pending and not adopted.orphans


def test_an_intent_without_its_holder_is_nothing() -> None:
    before = Before([], [pending(job(), "stopped")])
    assert before.adopt().snapshot.pending == {}


def test_folding_a_reading_after_adoption_ends_an_answered_release() -> None:
    adopted = parking(None, step="answered", answered_s=4995.0).adopt()
    draft = Draft(adopted.snapshot, NOW_S + 1)
    fold.fold(draft, reading("gpu0", 24, NOW_S + 1, {"j1": 100}))
    assert draft.holders["j1"].form == "parked" and not draft.pending


def test_no_run_gets_the_number_of_one_whose_files_are_there_although_no_row_knows_it() -> None:
    """The database was put aside, or a service was forgotten before the daemon ended. What is there ended long ago."""
    known = service("stopped", service_spec("known"), runs=1)
    before = Before([known], services=(CHAT, service_spec("known"), service_spec("qwen2.5")))
    for run_id in ("chat.2", "known.4", "qwen2.5.7", "j7.1", "j12.3", "gone.1"):
        holder = run_id.rpartition(".")[0]
        before.runs.put(run_id, holder, lock_held=False, exit=Exit(code=0), gone=True)
    before.runs.put("chat.1.asleep.17000", "chat", lock_held=False, exit=Exit(code=0), gone=True, kind="hook")
    s = before.adopt().snapshot
    assert {hid: s.holders[hid].runs for hid in s.holders} == {"chat": 2, "known": 4, "qwen2.5": 7}
    assert s.next_job == 13
    assert Before([known], meta={"next_job": "40"}, runs=before.runs).adopt().snapshot.next_job == 40
