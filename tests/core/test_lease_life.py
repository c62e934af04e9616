"""The life of a lease: granted, given back, too late, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core import leases, rank, view, words
from headway.core.codec import dumps, loads
from headway.core.commands import EndLease, RenewLease, SetMode
from headway.core.decide import decide
from headway.core.facts import LeaseGone
from headway.core.model import Lease
from headway.core.rows import LeaseRow
from tests.core.lease_scene import (
    ASKED,
    GPU,
    asked,
    held,
    of,
    preemptible,
    told,
    turn,
    verdict,
)
from tests.core.lease_world import LeaseWorld
from tests.core.make import T0_S, Scene, gib, job_spec, moving, reading, service_spec
from tests.core.programs import Habit

pytestmark = pytest.mark.core

# ---------------------------------------------------------------- asked, granted, over


def test_a_lease_is_granted_by_a_move_and_its_time_begins_then() -> None:
    world = LeaseWorld({"gpu0": gib(24)})
    lid = world.lease(12, ttl_s=60.0)
    assert words.state(world.of(lid), world.s) == "waiting"
    assert world.run(5.0, lambda: world.form(lid) == "granted")
    lease = world.of(lid)
    assert (lease.devices, lease.fencing, lease.granted_s) == ((GPU,), 1, lease.since_s)
    assert lease.expires_s == lease.since_s + 60.0
    assert [move.form for _, move in world.moves] == ["granted"]


def test_what_was_granted_counts_before_it_is_taken() -> None:
    world = LeaseWorld({"gpu0": gib(24)})
    first = world.lease(16)
    second = world.lease(16, pid=5001)
    assert world.run(5.0, lambda: world.form(first) == "granted")
    assert not world.run(60.0, lambda: world.form(second) == "granted")
    world.takes(first, 16)
    world.releases(first)
    assert world.run(5.0, lambda: world.form(second) == "granted")
    assert world.of(second).fencing == 2 and not world.wrong


def test_memory_is_handed_on_only_when_it_is_measured_free() -> None:
    world = LeaseWorld({"gpu0": gib(24)})
    first, second = world.lease(16), world.lease(16, pid=5001)
    world.run(2.0)
    world.takes(first, 16)
    assert world.command(EndLease(target=first)).facts["done"] is False  # and keeps it all
    assert not world.run(20.0, lambda: world.form(second) == "granted")
    assert words.state(world.of(first), world.s) == "returning"
    world.exits(first, falls_s=3.0)
    since_s = world.now_s
    assert world.run(10.0, lambda: world.form(second) == "granted")
    assert world.now_s - since_s >= 3.0 and world.of(first).ended == "released" and not world.wrong


def test_what_its_processes_keep_for_long_after_it_was_given_back_is_counted_as_not_ours() -> None:
    world = LeaseWorld({"gpu0": gib(24)})
    first = world.lease(16)
    world.run(2.0)
    world.takes(first, 4)
    world.command(EndLease(target=first))
    small, large = world.lease(12, pid=5001), world.lease(18, pid=5002)
    assert not world.run(29.0, lambda: world.form(small) == "granted")
    assert world.run(
        5.0, lambda: world.form(small) == "granted"
    )  # 16 GiB count no more, what is measured does
    assert words.state(world.of(first), world.s) == "released" and first not in world.s.present
    assert world.s.devices[GPU].foreign_bytes == gib(4)
    world.releases(small)
    assert world.run(10.0, lambda: world.form(large) == "granted") and not world.wrong


def test_a_release_that_cannot_be_read_is_not_over() -> None:
    world = LeaseWorld({"gpu0": gib(24)})
    lid = world.lease(16)
    world.run(2.0)
    world.takes(lid, 16)
    world.silence_meter()
    world.releases(lid)
    world.run(200.0)
    moving = world.s.pending[lid]
    assert moving.limit_at_s > world.now_s and moving.source == "granted"


def test_the_end_of_its_processes_gives_it_back_within_two_seconds() -> None:
    world = LeaseWorld({"gpu0": gib(24)})
    lid = world.lease(16)
    world.run(2.0)
    world.takes(lid, 16)
    world.exits(lid, falls_s=0.5)
    assert world.run(2.0, lambda: world.form(lid) == "revoked" and lid not in world.s.present)
    assert world.of(lid).ended == "gone"


def test_one_that_waits_and_whose_process_is_gone_loses_its_place() -> None:
    scene = Scene(24)
    held(scene, 20)
    lid = asked(scene, 12)
    scene.fold(LeaseGone(lease=lid))
    assert (
        of(scene, lid).ended == "gone"
        and scene.s.queue["lease"] == ()
        and lid not in decide(scene.s).verdicts
    )


def test_a_model_takes_the_place_of_a_preemptible_lease_that_lets_go() -> None:
    world = LeaseWorld({"gpu0": gib(24)})
    world.service(service_spec(awake=16), Habit(bytes_=gib(16)))
    lid = world.lease(16, preemptible=True)
    world.run(15.0)
    world.takes(lid, 16)
    request = world.ask("chat")
    assert world.run(5.0, lambda: words.state(world.of(lid), world.s) == "leaving")
    assert world.run(1.0, lambda: world.verdicts[lid].code == "asked_to_leave")
    world.exits(lid)
    assert world.run(10.0, lambda: request.how == "answered")
    assert world.of(lid).ended == "revoked" and not world.wrong


def test_one_that_was_only_asked_to_leave_holds_what_it_has_not_taken_yet() -> None:
    world = LeaseWorld({"gpu0": gib(24)})
    world.service(service_spec(awake=16), Habit(bytes_=gib(16)))
    lid = world.lease(16, preemptible=True)
    world.run(15.0)
    request = world.ask("chat")  # its program lives, and has taken nothing so far
    assert not world.run(50.0, lambda: request.how == "answered")
    world.takes(lid, 16)
    assert not world.run(10.0, lambda: request.how == "answered") and not world.wrong


def test_one_that_does_not_leave_in_time_has_its_lease_back_and_is_asked_again_later() -> None:
    world = LeaseWorld({"gpu0": gib(24)})
    world.service(service_spec(awake=16), Habit(bytes_=gib(16)))
    lid = world.lease(16, preemptible=True)
    world.run(15.0)
    world.takes(lid, 16)
    granted_s = world.of(lid).granted_s
    world.ask("chat")
    assert world.run(70.0, lambda: "lease.kept" in world.codes(lid))
    lease = world.of(lid)
    assert (words.state(lease, world.s), lease.granted_s, lease.fencing) == ("granted", granted_s, 1)
    kept_s = world.now_s
    assert world.run(2.0, lambda: world.verdicts["chat"].code == "kept_its_place")
    assert world.run(100.0, lambda: words.state(world.of(lid), world.s) == "leaving")
    assert world.now_s - kept_s == pytest.approx(leases.ASK_AGAIN_S, abs=1.0)
    assert not world.wrong


# ---------------------------------------------------------------- time


WAITS = {
    # name: (wait limit, seconds later, still in line)
    "for ever": (None, 1e6, True),
    "not at all": (0.0, 0.0, False),
    "until just before its limit": (90.0, 89.9, True),
    "until its limit": (90.0, 90.0, False),
}


@pytest.mark.parametrize(("limit_s", "later_s", "waits"), WAITS.values(), ids=WAITS.keys())
def test_how_long_it_waits(limit_s: float | None, later_s: float, waits: bool) -> None:
    scene = Scene(24)
    first = held(scene, 20)
    lid = asked(scene, 12, wait_limit_s=limit_s)
    scene.at(T0_S + later_s).read()
    recheck_at_s = decide(scene.s).recheck_at_s
    assert not waits or limit_s is None or recheck_at_s == T0_S + limit_s
    assert turn(scene) == ()
    assert of(scene, lid).ended == (None if waits else "waited_out")
    if not waits:
        why = view.explain(lid, scene.s, {})
        assert why.code == "waited_out" and first in why.sentence


def test_now_is_enough_where_there_is_room() -> None:
    scene = Scene(24)
    lid = asked(scene, 12, wait_limit_s=0.0)
    assert [move.holder for move in turn(scene)] == [lid] and of(scene, lid).ended is None


def test_it_waits_on_while_room_is_made_for_it_but_not_for_ever() -> None:
    scene = Scene(24).job(job_spec(running=20))
    scene.under_way("train", "running", "stopped", step="answered", answered_s=T0_S, limit_at_s=T0_S + 1e6)
    lid = asked(scene, 12, wait_limit_s=0.0)
    turn(scene)
    assert of(scene, lid).ended is None
    scene.at(T0_S + leases.GRACE_S - 0.1).read()
    turn(scene)
    assert of(scene, lid).ended is None
    scene.at(T0_S + leases.GRACE_S).read()
    turn(scene)
    assert of(scene, lid).ended == "waited_out"


def test_one_that_can_never_fit_is_told_so_at_once() -> None:
    scene = Scene(24)
    lid = asked(scene, 25)
    turn(scene)
    assert of(scene, lid).ended == "waited_out" and of(scene, lid).note_facts["because"] == "never_fits"


def test_the_audit_says_of_one_that_it_could_never_fit_and_not_that_it_waited() -> None:
    scene = Scene(24)
    d, lease = scene.draft(), of(scene, asked(scene, 25))
    leases.end(d, lease, "waited_out", {"because": "never_fits", "position": 1})
    leases.end(d, replace(lease, id="L9"), "waited_out", {"because": "model_busy", "position": 1})
    assert [(e.facts["how"], e.facts.get("because")) for e in d.events] == [
        ("waited_out", "never_fits"), ("waited_out", None)
    ]  # fmt: skip


EXPIRES = {
    # name: (pid, seconds after its time, state)
    "a local one just before": (5000, -0.1, "granted"),
    "a local one is overdue": (5000, 0.0, "overdue"),
    "a remote one just before": (None, -0.1, "granted"),
    "a remote one lapses": (None, 0.0, "returning"),
}


@pytest.mark.parametrize(("pid", "late_s", "state"), EXPIRES.values(), ids=EXPIRES.keys())
def test_what_its_time_means(pid: int | None, late_s: float, state: str) -> None:
    scene = Scene(24)
    lid = held(scene, 12, pid=pid, expires_s=T0_S + 60.0)
    scene.at(T0_S + 60.0 + late_s).read()
    assert turn(scene) == ()
    lease = of(scene, lid)
    assert words.state(lease, scene.s) == state
    troubles = [trouble.code for trouble in view.troubles(scene.s)]
    assert troubles == (["overdue"] if state == "overdue" else [])
    assert GPU in lease.devices and lid in scene.s.present  # counted all the same


def test_a_remote_one_that_waits_lapses_too() -> None:
    scene = Scene(24)
    held(scene, 20)
    lid = asked(scene, 12, pid=None, ttl_s=30.0)
    scene.at(T0_S + 29.9)
    assert told(scene, RenewLease(target=lid)).accepted
    scene.at(T0_S + 59.8)
    turn(scene)
    assert of(scene, lid).ended is None
    scene.at(T0_S + 59.9)
    turn(scene)
    assert of(scene, lid).ended == "lapsed"


@pytest.mark.parametrize("late_s", [0.0, 5.0])
def test_one_that_lapses_in_the_very_moment_in_which_there_is_room_is_not_let_in(late_s: float) -> None:
    scene = Scene(24)
    lid = asked(scene, 12, pid=None, ttl_s=30.0)  # and no turn until then: the database did not answer
    scene.at(T0_S + 30.0 + late_s).read()
    assert [action for action in turn(scene) if action.holder == lid] == []
    assert of(scene, lid).ended == "lapsed" and lid not in scene.s.pending


RENEWED = {
    # name: (pid, seconds after its time, accepted)
    "a remote one in time": (None, -0.1, True),
    "a remote one too late": (None, 0.0, False),
    "a local one that is overdue": (5000, 10.0, True),
}


@pytest.mark.parametrize(("pid", "late_s", "accepted"), RENEWED.values(), ids=RENEWED.keys())
def test_renewing(pid: int | None, late_s: float, accepted: bool) -> None:
    scene = Scene(24)
    lid = held(scene, 12, pid=pid, ttl_s=60.0, expires_s=T0_S + 60.0)
    scene.at(T0_S + 60.0 + late_s)
    before = of(scene, lid)
    reply = told(scene, RenewLease(target=lid))
    assert (reply.accepted, reply.code) == (accepted, "accepted" if accepted else "lease_over")
    assert of(scene, lid) == (replace(before, expires_s=scene.s.now_s + 60.0) if accepted else before)


# ---------------------------------------------------------------- what is said


STATES = {
    # name: (fields, move under way, state)
    "in line": ({"form": "revoked"}, None, "waiting"),
    "on its way in": ({"form": "revoked"}, ("revoked", "granted"), "granting"),
    "in": ({}, None, "granted"),
    "past its time": ({"expires_s": T0_S}, None, "overdue"),
    "asked to leave": ({}, ("granted", "revoked"), "leaving"),
    "over, its memory not yet measured": ({"ended": "released"}, ("granted", "revoked"), "returning"),
    "over": ({"form": "revoked", "ended": "lapsed", "devices": (), "seen_bytes": {}}, None, "lapsed"),
}


@pytest.mark.parametrize(("fields", "move", "state"), STATES.values(), ids=STATES.keys())
def test_states_rows_and_reasons(fields: dict[str, Any], move: tuple[str, str] | None, state: str) -> None:
    scene = Scene(24)
    lid = held(scene, 12, by="kim", **fields)
    if move:
        scene.put(of(scene, lid), moving(lid, *move, frees=move[1] == "revoked"))
    decision = decide(scene.s)
    row = view.row(lid, scene.s, decision.verdicts)
    assert isinstance(row, LeaseRow) and (row.state, row.by, row.name) == (state, "kim", "render")
    assert row.state in words.LEASE_STATES
    why = view.explain(lid, scene.s, decision.verdicts)
    assert why.state == state and why.sentence and "{" not in why.sentence
    shown = {lease.id for lease in view.overview(scene.s, decision.verdicts).leases}
    assert shown == (set() if state == "lapsed" else {lid})
    assert view.counts(scene.s) == {}


def test_who_waits_reads_who_has_it_and_for_how_long() -> None:
    scene = Scene(24)
    lid = held(scene, 16, by="kim", expires_s=T0_S + 600.0)
    scene.service(service_spec(awake=16), "stopped", demand={"attended": ASKED})
    why = view.explain("chat", scene.s, decide(scene.s).verdicts)
    assert why.code == "not_preemptible" and why.until_s == 600.0
    assert all(word in why.sentence for word in (lid, "kim", "10 min", "6 min"))


def test_a_name_means_the_one_that_is_not_over() -> None:
    scene = Scene(24)
    first, second = asked(scene, 1), asked(scene, 1)
    assert words.matching(scene.s, "render", None) == (first, second)
    told(scene, EndLease(target=first))
    assert words.matching(scene.s, "render", "lease") == (second,)
    told(scene, EndLease(target=second))
    assert words.matching(scene.s, "render", None) == (second,) and words.matching(scene.s, first, None) == (
        first,
    )
    assert told(scene, EndLease(target=first)).accepted


def test_what_is_saved_comes_back() -> None:
    scene = Scene(24)
    lid = held(scene, 12, purpose="a film", pid=1, start_ticks=2, boot_id="b", ttl_s=5.0)
    told(scene, EndLease(target=lid))
    assert loads(Lease, dumps(of(scene, lid))) == of(scene, lid)


def test_a_switch_to_shadow_keeps_what_was_granted_and_lets_it_end() -> None:
    world = LeaseWorld({"gpu0": gib(24)})
    lid = world.lease(12)
    world.run(2.0)
    world.command(SetMode(mode="shadow"))
    late = world.lease(2, pid=5001)
    assert not world.run(30.0, lambda: world.form(late) == "granted") and world.form(lid) == "granted"
    world.exits(lid)
    assert world.run(5.0, lambda: world.form(lid) == "revoked" and lid not in world.s.pending)


def test_one_that_had_its_device_alone_has_it_alone_when_it_keeps_its_place() -> None:
    scene = Scene(24)
    lid = held(scene, None, **preemptible())
    scene.service(service_spec(awake=16), "stopped", demand={"attended": ASKED})
    assert [move.form for move in turn(scene)] == ["revoked"]
    assert of(scene, lid).need_bytes("granted") is None


def test_what_was_given_back_during_its_grant_counts_until_a_reading_after_that() -> None:
    scene = Scene(24)
    lid = asked(scene, 16)
    turn(scene)
    assert told(scene, EndLease(target=lid)).facts["done"] is False
    assert scene.s.pending[lid].source == "granted"  # it may have heard of its grant
    other = asked(scene, 16)
    assert turn(scene) == () and verdict(scene, other).code == "reading_too_old"
    scene.at(T0_S + 1.0).read()
    assert [move.holder for move in turn(scene)] == [other]


def test_one_whose_process_holds_memory_before_its_grant_wants_one_place() -> None:
    scene = Scene(24)
    lid = asked(scene, 12)
    scene.fold(reading("gpu0", 24, T0_S, {lid: gib(2)}))
    assert [want.holder.id for want in rank.wants(scene.s)] == [lid]
    assert lid in scene.s.present and words.state(of(scene, lid), scene.s) == "waiting"
