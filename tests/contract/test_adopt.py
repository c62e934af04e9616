"""What a new daemon makes of rows, journal, routes and living processes. Rows go through JSON, as in life."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core import codec, fold, steps, wishes
from headway.core.commands import AddJob, Configure, MoveJob, SetWish
from headway.core.decide import decide
from headway.core.draft import Draft
from headway.core.model import (
    CloseGate,
    Exit,
    Gate,
    Holder,
    Job,
    Move,
    Pending,
    Policy,
    Run,
    Service,
    Snapshot,
)
from headway.daemon.act import hook_id
from headway.daemon.adopt import FIRST_REV, OUTCOME_S, Adopted, adopt
from headway.ports import Saved
from tests.core.make import Scene, dev, job_spec, service_spec
from tests.parts.fake_runs import FakeRuns

pytestmark = pytest.mark.contract

NOW_S, WALL_S = 5000.0, 1_700_000_000.0
CHAT = service_spec("chat")
NAPPER = service_spec("chat", asleep=1)
TRAIN = job_spec("train", parked=0.5)


@dataclass
class Before:
    """What an earlier daemon left: rows, intents, journal, routes, and the runs."""

    holders: list[Holder] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    journal: list[Pending] = field(default_factory=list)
    open: dict[str, str | None] = field(default_factory=dict)
    runs: FakeRuns = field(default_factory=FakeRuns)
    meta: dict[str, str] = field(default_factory=dict)
    services: tuple[Any, ...] = (CHAT,)
    recipes: tuple[Any, ...] = ()

    def adopt(self, now_s: float = NOW_S, wall_s: float = WALL_S, mode: str = "live") -> Adopted:
        saved = Saved(
            holders=tuple((h.id, h.kind, codec.dumps(h)) for h in self.holders),
            pending=tuple((p.holder, codec.dumps(p)) for p in self.pending),
            offsets={},
            meta=self.meta,
        )
        journal = [{"holder": p.holder, "pending": codec.to_doc(p)} for p in self.journal]
        configure = Configure(services=self.services, recipes=self.recipes)
        return adopt(saved, journal, self.runs, configure, Policy(), mode, self.open, now_s, wall_s)


def run_of(name: str, number: int = 1, **more: Any) -> Run:
    return Run(id=f"{name}.{number}", lock_held=True, pid=4711, **more)


def service(form: str = "awake", spec: Any = CHAT, **more: Any) -> Service:
    up = form != "stopped"
    given: dict[str, Any] = {
        "devices": (dev("gpu0"),) if up else (),
        "run": run_of(spec.name) if up else None,
        "runs": 1 if up else 0,
        "since_s": 4000.0,
        "gate": Gate(wish="open" if form == "awake" else "closed", rev=17),
        "ready": up,
        "active": 3,
        "upstream": "http://127.0.0.1:1" if up else None,
    }
    return Service(id=spec.name, spec=spec, form=form, forms=spec.forms, **{**given, **more})


def job(form: str = "running", hid: str = "j1", spec: Any = TRAIN, **more: Any) -> Job:
    up = form != "stopped"
    given: dict[str, Any] = {
        "devices": (dev("gpu0"),) if up else (),
        "run": run_of(hid) if up else None,
        "runs": 1 if up else 0,
        "since_s": 4000.0,
        "key": 100.0,
        "enqueued_s": 90.0,
    }
    return Job(id=hid, spec=spec, form=form, forms=spec.forms, **{**given, **more})


def pending(holder: Holder, to: str, **more: Any) -> Pending:
    given: dict[str, Any] = {
        "source": holder.form,
        "devices": (dev("gpu0"),),
        "exclusive": False,
        "frees": True,
        "started_s": 4990.0,
        "limit_at_s": 5020.0,
        "run_id": holder.run.id if holder.run else None,
    }
    return Pending(holder=holder.id, to=to, **{**given, **more})


def start(holder: Holder, to: str, number: int, **more: Any) -> Pending:
    run_id = f"{holder.id}.{number}"
    return pending(holder, to, frees=False, creates=True, run_id=run_id, source="stopped", **more)


def event_codes(adopted: Adopted) -> list[str]:
    return [event.code for event in adopted.draft.events]


def dropped(adopted: Adopted) -> list[str]:
    return [e.facts["reason"] for e in adopted.draft.events if e.code == "intent.dropped"]


# -------------------------------------------------------------------- holders


def test_what_lives_goes_on() -> None:
    before = Before([service(), job("parked")], open={"chat": "http://127.0.0.1:9"})
    before.runs.put("chat.1", "chat", pid=4711)
    before.runs.put("j1.1", "j1", pid=4711)
    adopted = before.adopt()
    s = adopted.snapshot
    assert {hid: s.holders[hid].form for hid in s.holders} == {"chat": "awake", "j1": "parked"}
    assert sorted(adopted.watch) == [("chat", "chat.1"), ("j1", "j1.1")]
    assert not adopted.redo and not adopted.orphans and not before.runs.stopped


def test_nothing_that_was_only_true_then_is_kept() -> None:
    chat = service(demand={}, engine_active=0, seen_bytes={dev("gpu0"): 5}, drained_s=1.0)
    before = Before([chat])
    before.runs.put("chat.1", "chat")
    found = before.adopt().snapshot.service("chat")
    assert found is not None
    assert (found.active, found.engine_active, found.ready, found.drained_s) == (None, None, False, None)
    assert found.seen_bytes == {} and found.gate == Gate(wish="closed", rev=FIRST_REV)


def test_an_open_service_stays_open_at_the_address_of_the_file() -> None:
    before = Before([service()], open={"chat": "http://127.0.0.1:9"})
    before.runs.put("chat.1", "chat")
    adopted = before.adopt()
    found = adopted.snapshot.service("chat")
    assert found is not None and found.gate.wish == "open" and found.upstream == "http://127.0.0.1:9"
    assert not any(isinstance(a, CloseGate) for a in decide(adopted.snapshot).actions)


def test_a_server_that_died_meanwhile_has_its_gate_closed_in_the_first_turn() -> None:
    before = Before([service()], open={"chat": "http://127.0.0.1:9"})
    before.runs.put("chat.1", "chat")
    before.runs.ends("chat.1", -9)
    adopted = before.adopt()
    found = adopted.snapshot.service("chat")
    assert found is not None and found.form == "stopped"
    assert [a for a in decide(adopted.snapshot).actions if isinstance(a, CloseGate)]


ENDED = {
    # name: (exit of the leader, how the job ended)
    "done": (Exit(code=0), "done"),
    "failed": (Exit(code=3), "failed"),
    "killed": (Exit(code=-9), "failed"),
}


@pytest.mark.parametrize(("exit_", "ended"), ENDED.values(), ids=ENDED.keys())
def test_a_job_that_ended_meanwhile_has_its_exit_code(exit_: Exit, ended: str) -> None:
    before = Before([job()])
    before.runs.put("j1.1", "j1", lock_held=False, exit=exit_, gone=True)
    found = before.adopt().snapshot.holders["j1"]
    assert isinstance(found, Job)
    assert (found.ended, found.exit_code) == (ended, exit_.code)


def test_a_leader_that_ended_before_its_tree_is_not_over() -> None:
    before = Before([job()])
    before.runs.put("j1.1", "j1", exit=Exit(code=0))
    adopted = before.adopt()
    found = adopted.snapshot.holders["j1"]
    assert isinstance(found, Job) and found.ended is None and adopted.watch == [("j1", "j1.1")]


def test_a_run_whose_shim_was_killed_is_left_to_the_watcher() -> None:
    """What survived is ended first; only then is it lost."""
    before = Before([job()])
    before.runs.put("j1.1", "j1")
    before.runs.loses_its_shim("j1.1")
    adopted = before.adopt()
    assert adopted.watch == [("j1", "j1.1")]
    found = adopted.snapshot.holders["j1"]
    assert isinstance(found, Job) and found.ended is None


def test_a_run_with_an_exit_code_and_survivors_is_watched_too() -> None:
    before = Before([job()])
    before.runs.put("j1.1", "j1", lock_held=False, exit=Exit(code=0))
    before.runs.survivors.add("j1.1")
    adopted = before.adopt()
    assert adopted.watch == [("j1", "j1.1")]
    found = adopted.snapshot.holders["j1"]
    assert isinstance(found, Job) and found.ended == "done"


LOST = {"its directory is gone": None, "gone without an exit code": {"lock_held": False, "gone": True}}


@pytest.mark.parametrize("state", LOST.values(), ids=LOST.keys())
def test_a_run_nobody_knows_the_end_of_is_lost(state: Mapping[str, Any] | None) -> None:
    before = Before([job(), service()])
    before.runs.put("chat.1", "chat")
    if state is not None:
        before.runs.put("j1.1", "j1", **state)
    adopted = before.adopt()
    found = adopted.snapshot.holders["j1"]
    assert isinstance(found, Job) and found.ended == "lost" and found.form == "stopped"
    assert "job.lost" in event_codes(adopted)


def test_a_lost_job_that_can_resume_is_queued_again() -> None:
    before = Before([job(spec=job_spec("train", resumable=True))])
    found = before.adopt().snapshot.holders["j1"]
    assert isinstance(found, Job) and found.ended is None
    assert before.adopt().snapshot.queue["gpu"] == ((100.0, "j1"),)


def test_living_runs_nobody_knows_are_orphans_but_hooks_are_not() -> None:
    before = Before([job()])
    before.runs.put("j1.1", "j1")
    before.runs.put("j1.1.parked.1", "j1", kind="hook")
    before.runs.put("j9.1", "j9")
    before.runs.put("j8.1", "j8", lock_held=False, exit=Exit(code=0), gone=True)
    assert before.adopt().orphans == ["j9.1"]


def test_a_service_the_config_no_longer_has_is_dropped_when_it_holds_nothing() -> None:
    before = Before([service("stopped")], services=())
    adopted = before.adopt()
    assert "chat" not in adopted.snapshot.holders and adopted.draft.gone == {"chat"}


def test_one_that_still_runs_is_kept_with_what_it_was_started_by() -> None:
    before = Before([service()], services=())
    before.runs.put("chat.1", "chat")
    adopted = before.adopt()
    assert adopted.snapshot.holders["chat"].form == "awake" and not adopted.orphans


def test_a_move_of_a_service_the_config_no_longer_has_goes_on() -> None:
    chat = service()
    before = Before([chat], [pending(chat, "stopped")], services=())
    before.runs.put("chat.1", "chat")
    assert [move.form for move, _ in before.adopt().redo] == ["stopped"]


def test_a_changed_config_changes_the_spec_and_keeps_what_was_learned() -> None:
    chat = service()
    learned = tuple(replace(f, learned_bytes=99) if f.name == "awake" else f for f in chat.forms)
    before = Before([replace(chat, forms=learned)], services=(service_spec("chat", awake=20),))
    before.runs.put("chat.1", "chat")
    top = before.adopt().snapshot.holders["chat"].forms[0]
    assert top.learned_bytes == 99 and top.declared_bytes == 20 << 30


# -------------------------------------------------------------------- intents


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
    (move, kept), = adopted.redo
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
    (move, _), = before.adopt().redo
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


# -------------------------------------------------------------------- time, mode, ids


def test_after_a_boot_instants_keep_their_distance_to_now() -> None:
    away_s = 600.0
    meta = {"boot_id": "boot-0", "saved_s": "9000.0", "saved_wall_s": repr(WALL_S - away_s)}
    queued = job("stopped", key=8000.0, enqueued_s=8500.0, since_s=8500.0, retry_at_s=8990.0)
    before = Before([queued], meta=meta)
    found = before.adopt(now_s=50.0).snapshot.holders["j1"]
    assert isinstance(found, Job)
    assert found.enqueued_s == 50.0 - away_s - 500.0
    assert found.key == 50.0 - away_s - 1000.0
    assert found.retry_at_s == 50.0 - away_s - 10.0


def test_within_a_boot_instants_simply_hold() -> None:
    meta = {"boot_id": "boot-1", "saved_s": "4900.0", "saved_wall_s": "0.0"}
    found = Before([job("stopped")], meta=meta).adopt().snapshot.holders["j1"]
    assert isinstance(found, Job) and found.key == 100.0


MODES = {
    # name: (meta, config, mode)
    "first start": ({}, "shadow", "shadow"),
    "set by hand": ({"mode": "live", "config_mode": "shadow"}, "shadow", "live"),
    "the config says something new": ({"mode": "live", "config_mode": "live"}, "shadow", "shadow"),
}


@pytest.mark.parametrize(("meta", "config", "mode"), MODES.values(), ids=MODES.keys())
def test_mode(meta: dict[str, str], config: str, mode: str) -> None:
    assert Before(meta=meta).adopt(mode=config).snapshot.mode == mode


def test_ids_are_never_used_again_and_a_recipe_is_queued_once() -> None:
    first = Before(recipes=((job_spec("train"), False),)).adopt().snapshot
    assert sorted(first.holders) == ["chat", "j1"]
    meta = {"next_job": str(first.next_job), "recipes_seen": "train"}
    again = Before([], meta=meta, recipes=((job_spec("train"), False),)).adopt().snapshot
    draft = Draft(again, NOW_S)
    assert wishes.apply(draft, AddJob(spec=job_spec("other"))).holder == "j2"


# -------------------------------------------------------------------- the queue


VERBS = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 100), st.booleans()),
    st.tuples(st.sampled_from(("hold", "release", "cancel")), st.integers(0, 30), st.just(False)),
    st.tuples(st.sampled_from(("top", "bottom")), st.integers(0, 30), st.just(False)),
)


def queued(steps_: Iterable[tuple[str, int, bool]]) -> Snapshot:
    scene, ids = Scene(24), list[str]()
    for number, (verb, value, flag) in enumerate(steps_):
        scene.at(1000.0 + number * 7.3)
        if verb == "add":
            ids.append(scene.queue(job_spec(f"n{number}", priority=value), hold=flag))
        elif ids:
            draft, target = scene.draft(), ids[value % len(ids)]
            command: Any = (
                MoveJob(target=target, where=verb)  # type: ignore[arg-type]
                if verb in ("top", "bottom")
                else SetWish(target=target, verb=verb)  # type: ignore[arg-type]
            )
            wishes.apply(draft, command)
            scene.s = draft.done()
    return scene.s


def states(s: Snapshot) -> dict[str, Any]:
    return {h.id: (h.form, h.wish, h.ended, h.attempts_left) for h in s.holders.values() if isinstance(h, Job)}


@settings(max_examples=60)
@given(st.lists(VERBS, max_size=30), st.booleans())
def test_the_queue_is_the_same_after_a_restart(script: list[tuple[str, int, bool]], booted: bool) -> None:
    s = queued(script)
    meta = {"boot_id": "boot-0" if booted else "boot-1", "saved_s": "1500.0", "saved_wall_s": repr(WALL_S - 60)}
    before = Before(list(s.holders.values()), meta=meta, services=())
    again = before.adopt(now_s=77.0 if booted else 2000.0).snapshot
    order = {lane: [hid for _, hid in entries] for lane, entries in s.queue.items() if entries}
    assert {lane: [hid for _, hid in e] for lane, e in again.queue.items() if e} == order
    assert states(again) == states(s)


def test_adopting_twice_changes_nothing() -> None:
    """A daemon that is killed right after its start leaves the same to the next."""
    j1, chat = job(), service("stopped")
    before = Before([j1, chat], [start(chat, "awake", 1), pending(j1, "stopped")])
    before.runs.put("j1.1", "j1")
    before.runs.put("chat.1", "chat")
    first = before.adopt().snapshot
    second = Before(list(first.holders.values()), list(first.pending.values()), runs=before.runs).adopt().snapshot
    assert second.holders == first.holders and second.pending == first.pending


def test_folding_a_reading_after_adoption_ends_an_answered_release() -> None:
    adopted = parking(None, step="answered", answered_s=4995.0).adopt()
    draft = Draft(adopted.snapshot, NOW_S + 1)
    from tests.core.make import reading

    fold.fold(draft, reading("gpu0", 24, NOW_S + 1, {"j1": 100}))
    assert draft.holders["j1"].form == "parked" and not draft.pending
