"""What `headway why` says to type next: it helps the one who asks, and names whom it takes."""

import pytest

from headway.core import view
from headway.core.decide import decide
from headway.core.model import Window
from headway.core.rows import Why
from tests.core.make import T0_S, Scene, job_spec

pytestmark = pytest.mark.core


def why(scene: Scene, hid: str) -> Why:
    return view.explain(hid, scene.s, decide(scene.s).verdicts)


def runs(scene: Scene, *ids: str) -> Scene:
    """Small jobs that run, each a minute later in line than the one before."""
    for number, hid in enumerate(ids):
        scene.job(job_spec(hid, 1), id=hid, key=60.0 * number)
    return scene


def waits(scene: Scene, *ids: str) -> Scene:
    for number, hid in enumerate(ids):
        scene.job(job_spec(hid, 1), "stopped", id=hid, key=10_000.0 + number)
    return scene


def full(limit: int, *ids: str) -> Scene:
    return waits(runs(Scene(24).ruled(max_active_jobs=limit), *ids), "first", "second")


COMES = Window(id="w1", kind="slow_wake", begin_s=T0_S + 60.0, end_s=T0_S + 120.0, by="config")
IN_WINDOWS = job_spec(placement="window")
HELPS = {
    # name: (scene, who asks, code, what helps)
    "too large for any device: out of the line": (
        Scene(24).job(job_spec(running=100), "stopped"), "train", "never_fits", "headway cancel train"),
    "no window is known to come: one is opened": (
        Scene(24).job(IN_WINDOWS, "stopped"), "train", "outside_window",
        "headway window start slow_wake --for 2h"),
    "first in line, and one runs: that one": (full(1, "j1"), "first", "slots", "headway stop j1"),
    "second in line, and one runs: further up": (full(1, "j1"), "second", "slots", "headway move second --top"),
    "first in line, and several run: the last of them": (
        full(2, "j1", "j2"), "first", "slots", "headway stop j2"),
}  # fmt: skip


@pytest.mark.parametrize("name", HELPS)
def test_what_helps(name: str) -> None:
    scene, hid, code, typed = HELPS[name]
    found = why(scene, hid)
    assert (found.code, found.help) == (code, typed)


def test_a_window_that_comes_is_listed() -> None:
    scene = Scene(24).job(IN_WINDOWS, "stopped")
    draft = scene.draft()
    draft.set(windows=(COMES,))
    scene.s = draft.done()
    assert why(scene, "train").help == "headway window ls"


NAMED = {
    # running jobs: those who are named
    ("j1",): ("j1",),
    ("j1", "j2"): ("j2", "j1"),
    ("j1", "j2", "j3"): ("j3", "j2", "j1"),
    ("j1", "j2", "j3", "j4", "j5"): ("j5", "j4", "j3"),
}


@pytest.mark.parametrize("ids", NAMED)
def test_a_few_of_those_who_run_are_named(ids: tuple[str, ...]) -> None:
    found = why(full(len(ids), *ids), "first")
    assert found.facts["others"] == NAMED[ids]
    assert all(hid in found.sentence for hid in NAMED[ids]), found.sentence
    assert ("among them" in found.sentence) is (len(ids) > 3)


def test_one_with_a_name_is_told_by_name_and_id() -> None:
    scene = waits(Scene(24).ruled(max_active_jobs=1).job(job_spec("train", 1), id="j7"), "first")
    assert "train (j7)" in why(scene, "first").sentence
