"""Main memory and disks: who may park, sleep or start, and what becomes of one who may not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core import floors, host_fit, view
from headway.core.decide import decide
from headway.core.draft import Draft
from headway.core.facts import HostRead
from headway.core.fold import decided
from headway.core.model import GIB, DiskRoom, HostRoom, JobSpec, Move, Policy, ServiceSpec, Waiting
from tests.core.make import COMMAND, PARK, SLEEP, SLEEPER, Scene, dev, gib, job_spec, moving, service_spec
from tests.core.test_rules import NOW_S, stays, verdict, with_mode

pytestmark = pytest.mark.core
BYTE = 1 / GIB
FLOOR = 6.4  # GiB, of the 64 there are
DISK_FLOOR = 10.0


def room(memory: float | None = 60, disk: float | None = 900) -> HostRoom:
    """So much is free of 64 GiB, and of the disk with 1000 GiB that jobs write to; None: unknown."""
    disks = {} if disk is None else {".": DiskRoom(free_bytes=gib(disk), total_bytes=1000 * GIB)}
    free = None if memory is None else gib(memory)
    return HostRoom(memory_free_bytes=free, memory_total_bytes=64 * GIB, disks=disks)


def parks(
    running: float | None = None, parked: float | None = None, disk: float | None = None, **given: Any
) -> JobSpec:
    """A job with a park command, and what was said that it takes beside its device."""
    spec = job_spec(parked=1, **given)
    host = {"running": running, "parked": parked}
    forms = tuple(
        replace(
            form,
            host_bytes=None if host.get(form.name) is None else gib(host[form.name] or 0),
            disk_bytes=gib(disk) if disk is not None and form.name == "parked" else None,
        )
        for form in spec.forms
    )
    moves = tuple(replace(move, to_host=True) if move == PARK else move for move in COMMAND)
    return replace(spec, forms=forms, moves=moves)


def sleeps(asleep: float | None = None, awake: float | None = None, **given: Any) -> ServiceSpec:
    """A server whose sleep copies its weights to main memory."""
    spec = service_spec(asleep=1, **given)
    host = {"awake": awake, "asleep": asleep}
    forms = tuple(
        replace(form, host_bytes=None if host.get(form.name) is None else gib(host[form.name] or 0))
        for form in spec.forms
    )
    return replace(
        spec, forms=forms, moves=tuple(replace(m, to_host=True) if m == SLEEP else m for m in SLEEPER)
    )


ASIDE = {
    # name: (what it says, what is free, where it goes when somebody needs its device)
    "there is room for what it says": (parks(parked=20), room(20 + FLOOR), "parked"),
    "a byte too little": (parks(parked=20), room(20 + FLOOR - 2 * BYTE), "stopped"),
    "what it has already is no more": (parks(running=15, parked=20), room(5 + FLOOR), "parked"),
    "a byte too little for what is more": (parks(running=15, parked=20), room(5 + FLOOR - 2 * BYTE), "stopped"),
    "parking takes less than running": (parks(running=15, parked=5), room(0), "parked"),
    "it says that it takes none": (parks(parked=0), room(0), "parked"),
    "it says nothing, above the floor": (parks(), room(FLOOR), "parked"),
    "it says nothing, below the floor": (parks(), room(FLOOR - 2 * BYTE), "stopped"),
    "main memory is not known": (parks(parked=900), room(None), "parked"),
    "there is room on its disk": (parks(disk=20), room(disk=20 + DISK_FLOOR), "parked"),
    "a byte too little on its disk": (parks(disk=20), room(disk=20 + DISK_FLOOR - BYTE), "stopped"),
    "its disk cannot be read": (parks(disk=20), room(disk=None), "parked"),
    "a move that takes none, below the floor": (job_spec(parked=1), room(0), "parked"),
}  # fmt: skip


@pytest.mark.parametrize("name", ASIDE)
def test_a_request_comes_and_the_job_goes_as_high_as_there_is_room_for(name: str) -> None:
    spec, free, expected = ASIDE[name]
    asked = {"attended": Waiting(n=1, since_s=NOW_S - 1)}
    scene = with_mode(Scene(24).job(spec).service(form="stopped", demand=asked), host=free)
    move = next(a for a in decide(scene.s).actions if isinstance(a, Move) and a.holder == "train")
    assert move.form == expected


COPIES = {
    # name: (what was measured on its devices in GiB, how many, what is free, where it goes)
    "as much as was measured on its device": ((14,), 14 + FLOOR, "parked"),
    "a byte too little for that": ((14,), 14 + FLOOR - 2 * BYTE, "stopped"),
    "of two devices the sum": ((14, 14), 28 + FLOOR - 2 * BYTE, "stopped"),
    "where nothing tells its bytes, what it needs": ((), 14 + FLOOR - 2 * BYTE, "stopped"),
    "and that is enough": ((), 14 + FLOOR, "parked"),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_move_that_copies_takes_what_is_measured_on_the_devices(name: str) -> None:
    seen, free, expected = COPIES[name]
    moves = tuple(replace(move, to_host=True, copies=True) if move == PARK else move for move in COMMAND)
    on = [f"gpu{n}" for n in range(max(1, len(seen)))]
    spec = replace(parks(), moves=moves, count=len(on), forms=parks(running=None).forms)
    held = {dev(name): gib(size) for name, size in zip(on, seen, strict=False)}
    scene = with_mode(Scene(24, 24).service(on=on[:1]).job(spec, on=on, seen_bytes=held), host=room(free))
    assert stays(scene, "train") == ("gap_over", expected)


SLEEPS = {
    # name: (what it says, has it slept before, what is free, where it goes)
    "there is room for its sleep": (sleeps(28), False, room(28 + FLOOR), "asleep"),
    "a byte too little": (sleeps(28), False, room(28 + FLOOR - 2 * BYTE), "stopped"),
    "it slept before, and kept that when it woke": (sleeps(28), True, room(1), "asleep"),
    "it says nothing, below the floor": (sleeps(), False, room(1), "stopped"),
    "it says nothing and slept before": (sleeps(), True, room(1), "asleep"),
    "one whose sleep only drops its weights": (service_spec(asleep=1), False, room(1), "asleep"),
}


@pytest.mark.parametrize("name", SLEEPS)
def test_an_idle_model_is_put_aside_as_high_as_there_is_room_for(name: str) -> None:
    spec, slept, free, expected = SLEEPS[name]
    spec = replace(spec, idle_ttl_s=1.0)
    scene = with_mode(Scene(24).service(spec, slept=slept), host=free)
    assert stays(scene, "chat") == ("idle_ttl", expected)


def test_a_server_that_is_not_ours_stays_awake_and_who_waits_is_told_what_it_would_take() -> None:
    spec = sleeps(28, argv=())
    scene = with_mode(Scene(24).service(spec).job(form="stopped"), host=room(20))
    found = verdict(scene, "train")
    assert (found.code, found.facts["holder"], found.facts["need_bytes"]) == ("host_short", "chat", gib(28))


STARTS = {
    # name: (what it says, what is free, code)
    "a job starts where what it says is free": (parks(running=20), room(20 + FLOOR), "goes"),
    "not with a byte too little": (parks(running=20), room(20 + FLOOR - 2 * BYTE), "host_short"),
    "nor one without a device": (replace(parks(running=20), count=0), room(20), "host_short"),
    "below the floor the floor is told": (parks(running=20), room(1), "host_floor"),
    "one that says nothing starts above the floor": (parks(), room(FLOOR), "goes"),
}


@pytest.mark.parametrize("name", STARTS)
def test_who_starts(name: str) -> None:
    spec, free, expected = STARTS[name]
    assert verdict(with_mode(Scene(24).job(spec, "stopped"), host=free), "train").code == expected


def test_a_model_is_woken_and_a_parked_job_goes_on_whatever_is_free() -> None:
    asked = {"attended": Waiting(n=1, since_s=NOW_S - 1)}
    waking = with_mode(Scene(24).service(sleeps(28, awake=60), "asleep", demand=asked), host=room(0))
    assert verdict(waking, "chat").code == "goes"
    parked = with_mode(Scene(24).job(parks(running=5, parked=20), "parked"), host=room(0))
    assert verdict(parked, "train").code == "goes"


def test_jobs_that_have_not_taken_it_yet_are_counted_so_that_many_never_start_at_once() -> None:
    scene = Scene(24, 24, 24, 24)
    for n in range(4):
        scene.job(parks(running=20, name=f"job{n}"), "stopped", key=float(n))
    scene = with_mode(scene, host=room(60))
    decision = decide(scene.s)
    assert [a.holder for a in decision.actions if isinstance(a, Move)] == ["job0", "job1"]
    assert decision.verdicts["job2"].code == "host_short"
    assert decision.verdicts["job2"].facts["promised_bytes"] == gib(40)


def test_one_that_has_just_started_counts_for_a_minute() -> None:
    spec = parks(running=20)
    scene = Scene(24, 24).job(replace(spec, name="first"), since_s=NOW_S - 50).job(spec, "stopped")
    found = verdict(with_mode(scene, host=room(30)), "train")
    assert (found.code, found.until_s) == ("host_short", NOW_S + 10)
    later = with_mode(scene, host=room(30)).at(NOW_S + 10).read()
    assert verdict(later, "train").code == "goes"


def test_what_is_being_parked_counts_until_it_is_parked() -> None:
    spec, gone = parks(parked=20), ("gpu1",)
    scene = Scene(24, 24).job(replace(spec, name="first"), on=gone).job(spec, wish="pause")
    scene = with_mode(
        scene.put(scene.s.holders["first"], moving("first", "running", "parked")), host=room(40)
    )
    assert host_fit.lacks(scene.s.holders["train"], "parked", scene.s).facts["promised_bytes"] == gib(20)  # type: ignore[union-attr]


def test_a_pause_that_people_ask_for_waits_for_room_and_is_no_stop() -> None:
    scene = with_mode(Scene(24).job(parks(parked=20), wish="pause", wish_by="ann"), host=room(20))
    assert verdict(scene, "train").code == "host_short"
    assert not [a for a in decide(scene.s).actions if isinstance(a, Move)]
    enough = with_mode(scene, host=room(40))
    assert [a.form for a in decide(enough.s).actions if isinstance(a, Move)] == ["parked"]


def test_a_job_that_ran_too_long_is_stopped_where_there_is_no_room_to_park() -> None:
    scene = with_mode(Scene(24).job(parks(parked=20), wish="pause", wish_by="headway"), host=room(20))
    assert [a.form for a in decide(scene.s).actions if isinstance(a, Move)] == ["stopped"]


def test_no_job_pushes_one_that_could_only_be_stopped_for_it() -> None:
    policy = Policy(max_active_jobs=1)
    scene = Scene(24, policy=policy).job(parks(parked=20), key=9.0)
    scene.job(job_spec("first"), "stopped", key=1.0)
    for free, expected in ((room(20), []), (room(40), [("train", "parked")])):
        actions = decide(with_mode(scene, host=free).s).actions
        assert [(a.holder, a.form) for a in actions if isinstance(a, Move)] == expected


def test_what_is_done_instead_is_told_with_what_was_measured() -> None:
    scene = with_mode(Scene(24).service().job(parks(parked=20)), host=room(20))
    draft = Draft(scene.s, NOW_S)
    decided(draft, decide(scene.s))
    told = next(event for event in draft.events if event.code == "move.no_memory")
    assert (told.facts["form"], told.facts["instead"]) == ("stopped", "parked")
    assert (told.facts["need_bytes"], told.facts["free_bytes"]) == (gib(20), gib(20))


def test_a_stop_that_people_ask_for_is_no_shortage() -> None:
    scene = with_mode(Scene(24).job(parks(parked=20), wish="stop"), host=room(20))
    draft = Draft(scene.s, NOW_S)
    decided(draft, decide(scene.s))
    assert [event.code for event in draft.events] == ["move.asked"]


def test_people_see_why() -> None:
    scene = with_mode(Scene(24).job(parks(running=20), "stopped"), host=room(20))
    why = view.explain("train", scene.s, decide(scene.s).verdicts)
    assert why.code == "host_short" and "20 GiB" in why.sentence and "6.4 GiB" in why.sentence


def test_a_disk_that_filled_is_news() -> None:
    assert floors.is_news(room(disk=100), room(disk=101), Policy())
    assert not floors.is_news(room(disk=100), room(disk=100.01), Policy())
    assert floors.is_news(room(disk=None), room(disk=100), Policy())


def test_a_server_has_slept_from_its_first_sleep_until_it_ends() -> None:
    scene = Scene(24).service(sleeps(28), "asleep").under_way("chat", "awake", "asleep", step="answered")
    scene.at(NOW_S + 1).read()
    assert scene.s.holders["chat"].slept  # type: ignore[attr-defined]
    scene.under_way("chat", "asleep", "stopped", step="answered", started_s=NOW_S, answered_s=NOW_S)
    chat = scene.s.holders["chat"]
    scene.put(replace(chat, run=None, seen_bytes={})).at(NOW_S + 2).read()
    assert (scene.s.holders["chat"].form, scene.s.holders["chat"].slept) == ("stopped", False)  # type: ignore[attr-defined]


def test_only_the_disks_of_those_who_are_there_are_read() -> None:
    spec = replace(parks(disk=20), cwd="/srv/a")
    there = Scene(24).job(spec).job(replace(spec, name="waits", cwd="/srv/b"), "stopped")
    assert list(host_fit.directories(there.s)) == ["/srv/a"]


def test_reading_it_changes_what_is_decided() -> None:
    scene = with_mode(Scene(24).job(parks(running=20), "stopped"), host=room(20))
    assert verdict(scene.fold(HostRead(room=room(40))), "train").code == "goes"
