"""What says that somebody's memory is free, and what is said of it where nothing measures that."""

from typing import Any

import pytest

from headway.core import phrases, view
from headway.core.decide import decide
from headway.core.facts import MoveAnswered
from headway.core.model import Run
from tests.core.make import T0_S, Scene, gib, job_spec, reading, service_spec

pytestmark = pytest.mark.core

GPU: dict[str, Any] = {"per_process": False, "used_bytes": None, "free_bytes": None, "confidence": "declared"}
SLEEPER = service_spec(awake=16, asleep=1)
CPU = job_spec(running=0, count=0)


def declared() -> Scene:
    scene = Scene(24)
    scene.happens(reading("gpu0", 24, T0_S, **GPU))
    return scene


def slept(scene: Scene, **given: Any) -> Scene:
    return scene.service(SLEEPER, **given).under_way("chat", "awake", "asleep")


def cpu_job(**given: Any) -> Scene:
    return Scene().job(CPU, on=(), **given).under_way("train", "running", "stopped", devices=())


PROOFS = {
    # name: (scene, who, to, what proves it)
    "a device that is measured": (slept(Scene(24)), "chat", "asleep", "measured"),
    "a device that nothing measures": (slept(declared(), seen_bytes={}), "chat", "asleep", "declared"),
    "no device at all": (cpu_job(run=None), "train", "stopped", "none"),
}


@pytest.mark.parametrize("name", PROOFS)
def test_a_release_says_what_proves_it(name: str) -> None:
    scene, hid, to, proof = PROOFS[name]
    events = scene.happens(MoveAnswered(holder=hid, to=to, run_id=f"{hid}.1"))
    if proof == "measured":
        scene.at(T0_S + 0.5)
        events = scene.happens(reading("gpu0", 24, T0_S + 0.5, {hid: gib(1)}))
    (event,) = [event for event in events if event.code == "release.verified"]
    assert event.facts["proof"] == proof
    words = phrases.told(event.code, hid, event.facts, scene.s)
    assert (" measured " in words) is (proof == "measured"), words
    assert ("memory" in words) is (proof != "none"), words


def test_one_that_was_written_down_before_was_measured() -> None:
    assert "measured" in phrases.told("release.verified", "chat", {"form": "asleep", "took_s": 1.0})


def test_one_of_which_something_lives_says_so_and_measures_nothing() -> None:
    scene = cpu_job(run=Run(id="train.1", lock_held=True, pid=4711))
    scene.happens(MoveAnswered(holder="train", to="stopped", run_id="train.1"))
    why = view.explain("train", scene.s, decide(scene.s).verdicts)
    assert (why.code, why.facts["pid"]) == ("verifying", 4711)
    assert "measured" not in why.sentence


COUNTED = {
    # name: (scene, measured, counted)
    "measured where that is possible": (Scene(24).service(SLEEPER), gib(16), gib(16)),
    "awake, as declared": (declared().service(SLEEPER, seen_bytes={}), None, gib(16)),
    "asleep, as declared": (declared().service(SLEEPER, "asleep", seen_bytes={}), None, gib(1)),
    "stopped is nowhere": (declared().service(SLEEPER, "stopped"), 0, 0),
    "nobody said how much": (declared().service(service_spec(awake=None), seen_bytes={}), None, None),
}


@pytest.mark.parametrize("name", COUNTED)
def test_a_service_counts_as_its_share_of_its_devices(name: str) -> None:
    scene, measured, counted = COUNTED[name]
    row = view.service_row(scene.s.holders["chat"], scene.s, {})  # type: ignore[arg-type]
    assert (row.bytes, row.counted_bytes) == (measured, counted)
