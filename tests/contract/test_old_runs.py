"""What is kept of runs that ended, and what a restart says of before."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from headway.core import codec
from headway.core.model import Exit, Job, QueueHold, Run, Snapshot, Window
from headway.daemon import adopt as adopting
from headway.daemon.adopt import outdated
from tests.core.make import job_spec, service_spec
from tests.parts.adopting import NOW_S, WALL_S, Before, job, service
from tests.parts.fake_runs import FakeRuns

pytestmark = pytest.mark.contract

OVER = {"lock_held": False, "gone": True, "exit": Exit(code=0, at_s=1.0)}


class DatedRuns(FakeRuns):
    """Its runs have directories, each newer than the one before."""

    def __init__(self, top: Path) -> None:
        super().__init__()
        self.top = top

    def directory(self, run_id: str) -> Path:
        return self.top / run_id

    def add(self, run_id: str, **fields: object) -> None:
        self.put(run_id, run_id.partition(".")[0], **fields)
        self.directory(run_id).mkdir()
        at_s = 1e9 + len(self.states)
        os.utime(self.directory(run_id), (at_s, at_s))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DatedRuns:
    monkeypatch.setattr(adopting, "RUNS_KEPT", 3)
    return DatedRuns(tmp_path)


def ended(name: str, at_s: float) -> Job:
    run = Run(id=f"{name}.1", lock_held=False, gone=True)
    return replace(job("stopped"), id=name, ended="done", ended_s=at_s, run=run)


def snapshot(*holders: Job) -> Snapshot:
    return Snapshot(now_s=100.0, holders={h.id: h for h in holders})


def test_the_newest_runs_stay(runs: DatedRuns) -> None:
    for number in range(6):
        runs.add(f"a.{number}", **OVER)
    assert sorted(outdated(runs, snapshot())) == ["a.0", "a.1", "a.2"]


def test_what_lives_is_never_counted_nor_forgotten(runs: DatedRuns) -> None:
    runs.add("living.1")
    runs.add("orphan.1", lock_held=False)
    runs.survivors.add("orphan.1")
    for number in range(3):
        runs.add(f"a.{number}", **OVER)
    assert outdated(runs, snapshot()) == []


def test_the_present_run_of_a_job_that_is_not_over_stays_with_its_hooks(runs: DatedRuns) -> None:
    runs.add("j1.1", **OVER)
    runs.add("j1.1.parked.5", **OVER)
    runs.add("j1.11", **OVER)
    for number in range(3):
        runs.add(f"a.{number}", **OVER)
    parked = replace(job("parked"), id="j1", run=Run(id="j1.1", lock_held=False, gone=True))
    assert outdated(runs, snapshot(parked)) == ["j1.11"]


def test_the_last_run_of_a_job_that_ended_lately_stays(runs: DatedRuns) -> None:
    over = [ended(f"j{number}", 10.0 + number) for number in range(5)]
    for one in over:
        runs.add(f"{one.id}.1", **OVER)
    for number in range(3):
        runs.add(f"z.{number}", **OVER)
    assert sorted(outdated(runs, snapshot(*over))) == ["j0.1", "j1.1"]


def test_a_first_start_knows_nobody_from_before() -> None:
    first = Before(services=(service_spec(),), recipes=((job_spec(), False),)).adopt()
    assert [e.facts["holders"] for e in first.draft.events if e.code == "daemon.started"] == [0]
    second = Before(holders=[service()]).adopt()
    assert [e.facts["holders"] for e in second.draft.events if e.code == "daemon.started"] == [1]


MODES = {
    # name: (meta, config, who set it)
    "first start": ({}, "shadow", None),
    "by hand": ({"mode": "live", "config_mode": "shadow", "mode_by": "ada"}, "shadow", "ada"),
    "by hand, before names were kept": ({"mode": "live", "config_mode": "shadow"}, "shadow", "hand"),
    "by hand, and as the config says": ({"mode": "live", "config_mode": "live", "mode_by": "ada"}, "live", None),
    "the config says something new": ({"mode": "live", "config_mode": "live", "mode_by": "ada"}, "shadow", None),
}  # fmt: skip


@pytest.mark.parametrize(("meta", "config", "by"), MODES.values(), ids=MODES.keys())
def test_who_set_the_mode_outlives_a_restart(meta: dict[str, str], config: str, by: str | None) -> None:
    assert Before(meta=meta).adopt(mode=config).snapshot.mode_by == by


def test_that_only_models_run_outlives_a_restart() -> None:
    assert Before(meta={"prod_only_by": "ada"}).adopt().snapshot.prod_only_by == "ada"
    assert Before(meta={"prod_only_by": ""}).adopt().snapshot.prod_only_by is None


def test_that_the_whole_queue_is_held_outlives_a_restart_and_a_reboot() -> None:
    held = QueueHold(by="headway", since_s=4000.0, crashes=5)
    meta = {"queue_hold": codec.dumps(held), "boot_id": "boot-1"}
    assert Before(meta=meta).adopt().snapshot.queue_hold == held
    away = {"boot_id": "another", "saved_s": "4500", "saved_wall_s": repr(WALL_S - 600.0)}
    again = Before(meta={**meta, **away}).adopt().snapshot.queue_hold
    assert again is not None and NOW_S - again.since_s == 1100.0
    assert Before(meta={"queue_hold": ""}).adopt().snapshot.queue_hold is None


STARTS = {
    # name: (meta, starts after a crash that are known then, is the queue held?)
    "the first of all": ({}, 0, False),
    "after a database from before this was kept": ({"next_job": "7"}, 0, False),
    "after one that was told to end": ({"ended": "told", "crashes": "[4990.0]"}, 0, False),
    "after one that was not": ({"ended": "", "crashes": "[4990.0]"}, 2, False),
    "the fifth after one that was not": ({"ended": "", "crashes": "[4960, 4970, 4980, 4990]"}, 5, True),
    "after a reboot, its pause counted": (
        {"ended": "", "crashes": "[90, 91, 92, 93]", "boot_id": "another", "saved_s": "100",
         "saved_wall_s": repr(WALL_S - 500.0)},
        5, True,
    ),
    "after a reboot a long time ago": (
        {"ended": "", "crashes": "[90, 91, 92, 93]", "boot_id": "another", "saved_s": "100",
         "saved_wall_s": repr(WALL_S - 900.0)},
        1, False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STARTS)
def test_a_start_is_a_crash_more_when_the_daemon_before_was_not_told_to_end(name: str) -> None:
    meta, crashes, held = STARTS[name]
    s = Before(meta=meta).adopt().snapshot
    assert (len(s.crashes), s.queue_hold is not None) == (crashes, held)


def test_windows_outlive_a_restart_and_a_reboot_by_their_instants() -> None:
    night = Window(id="w1", kind="no_model", begin_s=4000.0, end_s=9000.0, by="ada")
    meta = {"windows": json.dumps([codec.to_doc(night)]), "next_window": "2", "boot_id": "boot-1"}
    s = Before(meta=meta).adopt().snapshot
    assert (s.windows, s.next_window) == ((night,), 2)
    away = {"boot_id": "another", "saved_s": "4500", "saved_wall_s": repr(WALL_S - 600.0)}
    (again,) = Before(meta={**meta, **away}).adopt().snapshot.windows
    assert (NOW_S - again.begin_s, again.end_s - NOW_S) == (1100.0, 3900.0)
