"""What must stay free of main memory and disk for anything new to start; models are woken all the same."""

from __future__ import annotations

import pytest

from headway.core import floors, view
from headway.core.decide import decide
from headway.core.facts import HostRead
from headway.core.model import GIB, HostRoom, Policy, Waiting
from tests.core.lease_scene import asked, settled
from tests.core.make import Scene, gib, job_spec
from tests.core.test_rules import NOW_S, PARKS, SLEEPS, verdict, with_mode

pytestmark = pytest.mark.core


def room(memory: float | None = 60, disk: float | None = 900) -> HostRoom:
    """A machine with 64 GiB and a disk of 1000 GiB, and so much of it free; None: unknown."""
    return HostRoom(
        memory_free_bytes=None if memory is None else gib(memory),
        memory_total_bytes=None if memory is None else 64 * GIB,
        disk_free_bytes=None if disk is None else gib(disk),
        disk_total_bytes=None if disk is None else 1000 * GIB,
    )


BYTE = 1 / GIB
OWN = Policy(host_floor_bytes=20 * GIB, disk_floor_bytes=100 * GIB)
LOW = {
    # name: (what is free, policy, what is below its floor)
    "a tenth of the memory is enough": (room(6.4), Policy(), []),
    "a byte less is not": (room(6.4 - 2 * BYTE), Policy(), ["memory"]),
    "of a large memory 8 GiB": (
        HostRoom(memory_free_bytes=8 * GIB, memory_total_bytes=900 * GIB),
        Policy(),
        [],
    ),
    "and a byte less is not": (
        HostRoom(memory_free_bytes=8 * GIB - 1, memory_total_bytes=900 * GIB),
        Policy(),
        ["memory"],
    ),
    "10 GiB of a large disk are enough": (room(disk=10), Policy(), []),
    "a byte less of it is not": (room(disk=10 - BYTE), Policy(), ["disk"]),
    "of a small disk a twentieth is enough": (
        HostRoom(disk_free_bytes=GIB, disk_total_bytes=20 * GIB),
        Policy(),
        [],
    ),
    "both": (room(1, 1), Policy(), ["memory", "disk"]),
    "what somebody said counts instead": (room(20, 100), OWN, []),
    "in both directions": (room(20 - BYTE, 100 - BYTE), OWN, ["memory", "disk"]),
    "0 is no floor": (room(0, 0), Policy(host_floor_bytes=0, disk_floor_bytes=0), []),
    "what is unknown is not below anything": (HostRoom(), OWN, []),
}


@pytest.mark.parametrize("name", LOW)
def test_what_is_low(name: str) -> None:
    found, policy, expected = LOW[name]
    assert [one.what for one in floors.low(found, policy)] == expected


ASKED = {"attended": Waiting(n=1, since_s=NOW_S - 1)}
COMES = {
    # name: (scene, holder, what is free, code)
    "no job starts without memory": (Scene(24).job(form="stopped"), "train", room(1), "host_floor"),
    "nor without disk": (Scene(24).job(form="stopped"), "train", room(disk=1), "disk_floor"),
    "nor does one without a device": (
        Scene(24).job(job_spec(running=0, count=0), "stopped"),
        "train",
        room(1),
        "host_floor",
    ),
    "one that is parked goes on": (Scene(24).job(PARKS, "parked"), "train", room(1, 1), "goes"),
    "one that runs goes on": (Scene(24).job(), "train", room(1, 1), "keeps"),
    "a model is woken": (Scene(24).service(SLEEPS, "asleep", demand=ASKED), "chat", room(1, 1), "goes"),
    "a model is started": (Scene(24).service(form="stopped", demand=ASKED), "chat", room(1, 1), "goes"),
    "with enough of both it starts": (Scene(24).job(form="stopped"), "train", room(), "goes"),
    "with both unknown it starts": (Scene(24).job(form="stopped"), "train", HostRoom(), "goes"),
}


@pytest.mark.parametrize("name", COMES)
def test_who_comes(name: str) -> None:
    scene, hid, free, expected = COMES[name]
    assert verdict(with_mode(scene, host=free), hid).code == expected


def test_no_lease_is_granted_without_memory() -> None:
    scene = with_mode(Scene(24), host=room(1))
    assert settled(scene, asked(scene)).code == "host_floor"


def test_a_floor_is_told_once_and_its_end_too_each_for_itself() -> None:
    scene = Scene(24)
    for free, expected in (
        (room(), []),
        (room(1), ["memory.low"]),
        (room(2), []),
        (room(2, 1), ["disk.low"]),
        (room(60, 1), ["memory.enough"]),
        (room(), ["disk.enough"]),
    ):
        assert [event.code for event in scene.happens(HostRead(room=free))] == expected
        assert scene.s.host == free


def test_people_see_it() -> None:
    scene = with_mode(Scene(24).job(form="stopped"), host=room(1, 1))
    assert [one.code for one in view.overview(scene.s, {}).troubles] == ["host_floor", "disk_floor"]
    why = view.explain("train", scene.s, decide(scene.s).verdicts)
    assert (why.code, why.help) == ("host_floor", "headway status") and "6.4 GiB" in why.sentence


NEWS = {
    # name: (what is free now, what was, is it worth a turn?)
    "the first reading": (room(), HostRoom(), True),
    "the same": (room(), room(), False),
    "a little less": (room(59.9), room(60), False),
    "much less": (room(59), room(60), True),
    "a little less, and below the floor": (room(6.39), room(6.41), True),
    "a little more, and above it again": (room(6.41), room(6.39), True),
    "much less disk": (room(disk=899), room(disk=900), True),
    "one cannot be read any more": (room(None), room(), True),
    "one that never could, the other the same": (room(None), room(None), False),
    "one that never could, the other a little less": (room(None, 899.9), room(None), False),
}


@pytest.mark.parametrize("name", NEWS)
def test_a_reading_is_told_when_it_changes_something(name: str) -> None:
    now, known, expected = NEWS[name]
    assert floors.is_news(now, known, Policy()) is expected
