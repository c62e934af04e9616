"""What a new daemon makes of rows, routes, time and living processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core import wishes
from headway.core.commands import AddJob, MoveJob, SetWish
from headway.core.decide import decide
from headway.core.draft import Draft
from headway.core.model import (
    CloseGate,
    Exit,
    Gate,
    Job,
    Snapshot,
)
from headway.daemon.adopt import FIRST_REV
from headway.daemon.daemon import Daemon, _end_orphans
from tests.core.make import Scene, dev, job_spec, service_spec
from tests.parts.adopting import (
    NOW_S,
    WALL_S,
    Before,
    event_codes,
    job,
    pending,
    service,
    start,
)

pytestmark = pytest.mark.contract

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
    adopted = before.adopt()
    assert [spec.id for spec in adopted.orphans] == ["j9.1"]
    (told,) = [event for event in adopted.draft.events if event.code == "run.orphaned"]
    assert told.facts == {"run": "j9.1", "of": "j9", "argv": "serve j9", "grace_s": 3.0}


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
    return {
        h.id: (h.form, h.wish, h.ended, h.attempts_left) for h in s.holders.values() if isinstance(h, Job)
    }


@settings(max_examples=60)
@given(st.lists(VERBS, max_size=30), st.booleans())
def test_the_queue_is_the_same_after_a_restart(script: list[tuple[str, int, bool]], booted: bool) -> None:
    s = queued(script)
    meta = {
        "boot_id": "boot-0" if booted else "boot-1",
        "saved_s": "1500.0",
        "saved_wall_s": repr(WALL_S - 60),
    }
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
    second = (
        Before(list(first.holders.values()), list(first.pending.values()), runs=before.runs).adopt().snapshot
    )
    assert second.holders == first.holders and second.pending == first.pending


async def test_an_orphan_is_ended_with_the_grace_it_was_started_with() -> None:
    before = Before([])
    before.runs.put("j9.1", "j9")
    ended: list[asyncio.Task[None]] = []
    tasks = SimpleNamespace(spawn=lambda name, work: ended.append(asyncio.ensure_future(work)))
    daemon = SimpleNamespace(adopted=before.adopt(), tasks=tasks, out=SimpleNamespace(runs=before.runs))
    _end_orphans(cast(Daemon, daemon))
    await asyncio.gather(*ended)
    assert before.runs.stopped == [("j9.1", 3.0)]
