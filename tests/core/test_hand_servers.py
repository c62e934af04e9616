"""Servers that somebody else started: their memory is counted once, and in their place. A case's name is what it proves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core.decide import target
from headway.core.facts import Observed
from headway.core.model import Gate, JobSpec
from tests.core.make import T0_S, Scene, dev, gib, job_spec, reading, service_spec

pytestmark = pytest.mark.core

SHOWN = {"seen": {"chat": gib(16)}}
HIDDEN = {"foreign": gib(16)}


def by_hand(
    shown: dict[str, Any], pins: tuple[str, ...] = (), devices: int = 1, per_process: bool = True
) -> Scene:
    """A server of 16 GiB on the first of some devices, awake and quiet. Its memory is shown as its own, or not."""
    scene = Scene(*[24.0] * devices)
    scene.configure(service_spec(asleep=1, argv=(), pinned_devices=pins))
    scene.fold(Observed(holder="chat", at_s=T0_S, form="awake", ready=True, upstream="http://x"))
    scene.put(replace(scene.s.holders["chat"], active=0, since_s=T0_S - 500, gate=Gate(wish="open", rev=1)))  # type: ignore[call-arg]
    read_again(scene, T0_S + 1, shown, devices, per_process)
    return read_again(scene, T0_S + 2, shown, devices, per_process)


def read_again(
    scene: Scene, at_s: float, shown: dict[str, Any], devices: int, per_process: bool = True
) -> Scene:
    rest = [reading(f"gpu{n}", 24, at_s, per_process=per_process) for n in range(1, devices)]
    return scene.at(at_s).fold(reading("gpu0", 24, at_s, per_process=per_process, **shown), *rest)


PLACES = {
    # name: (what the meter shows, its pins, devices, where it is, bytes of nobody)
    "a process of it holds the memory": (by_hand(SHOWN), ("gpu0",), 0),
    "the config names its device": (by_hand(SHOWN, ("gpu0",)), ("gpu0",), 0),
    "of two devices, the one where it is": (by_hand(SHOWN, devices=2), ("gpu0",), 0),
    "no process shows it, and it can be nowhere else": (by_hand(HIDDEN), ("gpu0",), 0),
    "no process shows it, and the config names its device": (by_hand(HIDDEN, ("gpu0",), 2), ("gpu0",), 0),
    "no process shows it, and it may be anywhere": (by_hand(HIDDEN, devices=2), (), 16),
    "somebody else's memory beside it": (by_hand({"foreign": gib(18)}), ("gpu0",), 2),
    "a device that shows totals only": (by_hand(HIDDEN, per_process=False), ("gpu0",), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_its_memory_is_counted_once(name: str) -> None:
    scene, where, foreign = PLACES[name]
    assert scene.s.holders["chat"].devices == tuple(dev(one) for one in where)
    assert scene.s.devices[dev("gpu0")].foreign_bytes == gib(foreign)


JOBS: dict[str, tuple[JobSpec, str]] = {
    "a gap job has its memory": (job_spec("train", 14), "goes"),
    "what fits beside it goes there": (job_spec("side", 4, placement="share"), "goes"),
    "what does not fit beside it waits": (job_spec("side", 9, placement="share"), "beside_only"),
}


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("shown", (SHOWN, HIDDEN), ids=("shown", "hidden"))
def test_it_gives_way_like_any_other(shown: dict[str, Any], job: str) -> None:
    spec, code = JOBS[job]
    scene = by_hand(shown)
    scene.queue(spec)
    assert target(scene.s)[1]["j1"].code == code


def test_when_it_is_down_it_is_nowhere_and_may_come_back_elsewhere() -> None:
    scene = by_hand(SHOWN, devices=2)
    scene.at(T0_S + 3).fold(Observed(holder="chat", at_s=T0_S + 3, form=None, down=True))
    read_again(scene, T0_S + 4, {}, 2)
    assert (scene.s.holders["chat"].form, scene.s.holders["chat"].devices) == ("stopped", ())
    scene.at(T0_S + 5).fold(
        Observed(holder="chat", at_s=T0_S + 5, form="awake", ready=True, upstream="http://x")
    )
    rest = reading("gpu0", 24, T0_S + 6)
    scene.at(T0_S + 6).fold(rest, reading("gpu1", 24, T0_S + 6, {"chat": gib(16)}))
    assert scene.s.holders["chat"].devices == (dev("gpu1"),)


def test_one_that_was_thought_elsewhere_is_not_in_both_places() -> None:
    """Only one device was known when it was first seen awake, and it is on the other one."""
    scene = by_hand(HIDDEN)
    assert scene.s.holders["chat"].devices == (dev("gpu0"),)
    scene.at(T0_S + 3).fold(reading("gpu0", 24, T0_S + 3), reading("gpu1", 24, T0_S + 3, {"chat": gib(16)}))
    assert scene.s.holders["chat"].devices == (dev("gpu1"),)


def test_one_on_more_devices_than_it_was_said_to_need_is_on_all_of_them() -> None:
    scene = by_hand(SHOWN, devices=2)
    both = (reading(f"gpu{n}", 24, T0_S + 3, {"chat": gib(8)}) for n in (0, 1))
    scene.at(T0_S + 3).fold(*both)
    assert scene.s.holders["chat"].devices == (dev("gpu0"), dev("gpu1"))
