"""Leases and claims: who is let in, who is asked to leave for whom, and what a claim keeps off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headway.core import words
from headway.core.commands import Claim, Command, EndLease, RenewLease, SetWish
from headway.core.decide import target
from headway.core.model import Policy, Waiting
from tests.core.lease_scene import (
    ASKED,
    GPU,
    asked,
    held,
    made,
    of,
    preemptible,
    put,
    settled,
    told,
    turn,
    verdict,
)
from tests.core.lease_world import LeaseWorld
from tests.core.make import T0_S, Scene, dev, gib, job_spec, service_spec
from tests.core.programs import Habit, Program

pytestmark = pytest.mark.core

# ---------------------------------------------------------------- who is let in


def chat(**given: Any) -> Callable[[Scene], object]:
    return lambda scene: scene.service(service_spec(awake=16), **given)


def nobody(scene: Scene) -> object:
    return scene


LET_IN = {
    # name: (who is there, GiB asked for, code, victims)
    "an empty device": (nobody, 12, "goes", []),
    "all of an empty device": (nobody, 24, "goes", []),
    "one MiB more than there is": (nobody, 24 + 1 / 1024, "never_fits", None),
    "beside a model that leaves room": (chat(), 24 - 16 - 1.2, "goes", []),
    "beside a model, one MiB into the reserve": (chat(), 24 - 16 - 1.2 + 1 / 1024, "goes", ["chat"]),
    "in the place of a model that was idle for a moment": (chat(last_end_s=T0_S - 0.1), 20, "goes", ["chat"]),
    "not of a model in its residency": (chat(since_s=T0_S - 9.9), 20, "residency", None),
    "of a model whose residency is over": (chat(since_s=T0_S - 10.0), 20, "goes", ["chat"]),
    "not of a model that answers": (chat(active=1, active_since_s=T0_S - 1.0), 20, "memory", None),
    "not of a model that answers nobody in a hurry": (chat(active=1), 20, "model_busy", None),
    "not of a model that is asked for": (chat(demand={"attended": ASKED}), 20, "memory", None),
    "not before a model that is woken": (
        chat(form="stopped", demand={"attended": ASKED}),
        20,
        "memory",
        None,
    ),
    "in the place of a job, at once": (lambda s: s.job(since_s=T0_S - 1.0), 20, "goes", ["train"]),
    "beside a job that leaves room": (lambda s: s.job(), 8, "goes", []),
    "alone where a job is": (lambda s: s.job(), None, "goes", ["train"]),
    "not beside one that has the device alone": (lambda s: held(s, None), 1, "not_preemptible", None),
    "not in the place of a lease": (lambda s: held(s, 16), 12, "not_preemptible", None),
    "beside a lease that leaves room": (lambda s: held(s, 8), 12, "goes", []),
    "with strangers on the device": (lambda s: s.read(foreign=gib(13)), 12, "memory", None),
    "not with no reading": (lambda s: s.read(used_bytes=None, trouble="N/A"), 12, "device_trouble", None),
}


@pytest.mark.parametrize("name", LET_IN)
def test_who_is_let_in(name: str) -> None:
    there, size, code, victims = LET_IN[name]
    scene = Scene(24)
    there(scene)
    said = settled(scene, asked(scene, size))
    assert (said.code, said.facts.get("victims")) == (code, victims)


ADMITTED = {
    # name: (what the scene is like, code)
    "in shadow mode nothing is granted": ({"mode": "shadow"}, "shadow"),
    "while the store is silent nothing is granted": ({"store_ok": False}, "store_silent"),
    "before the gate has spoken nothing is granted": ({"booted_s": T0_S - 4.9}, "demand_unknown"),
    "long after the start a silent gate is no reason": ({"booted_s": T0_S - 5.0}, "goes"),
    "with a silent meter nothing is granted": ({"meter_trouble": "hangs"}, "meter_silent"),
}


@pytest.mark.parametrize(("fields", "code"), ADMITTED.values(), ids=ADMITTED.keys())
def test_what_keeps_every_lease_out(fields: dict[str, Any], code: str) -> None:
    scene = Scene(24).service(service_spec(awake=4), "stopped", active=None)
    lid = asked(scene, 12)
    scene.s = replace(scene.s, **fields)
    assert settled(scene, lid).code == code


def test_a_full_line_of_jobs_takes_no_place_from_a_lease() -> None:
    scene = Scene(24, policy=Policy(max_active_jobs=1)).job(job_spec(running=8))
    assert settled(scene, asked(scene, 12)).code == "goes"


def test_leases_do_not_count_against_the_jobs() -> None:
    scene = Scene(24, policy=Policy(max_active_jobs=1))
    held(scene, 8)
    jid = scene.queue(job_spec(running=8))
    assert settled(scene, jid).code == "goes"


def test_several_devices_are_granted_together_or_not_at_all() -> None:
    scene = Scene(24, 24)
    held(scene, 20, on=("gpu1",))
    both = asked(scene, 12, count=2)
    one = asked(scene, 8)
    verdicts = target(scene.s)[1]
    assert (verdicts[both].code, verdicts[one].code) == ("not_preemptible", "goes")
    told(scene, EndLease(target=both))
    scene.put(replace(of(scene, "L1"), seen_bytes={}, devices=(), form="revoked", ended="gone")).read()
    both = asked(scene, 12, count=2)
    assert target(scene.s)[0].placed[both] == ("granted", (dev("gpu0"), dev("gpu1")))


def test_a_pinned_device_is_kept_to() -> None:
    scene = Scene(24, 24)
    lid = asked(scene, 12, pinned_devices=("gpu1",))
    assert target(scene.s)[0].placed[lid] == ("granted", (dev("gpu1"),))


ORDER = {
    # name: (seconds ago and priority of two, which is first)
    "who asked first": ((10.0, 50), (5.0, 50), 1),
    "who has the higher priority": ((10.0, 50), (5.0, 51), 2),
    "a minute of waiting is one point": ((60.0, 50), (0.0, 51), 1),
    "a second less is not": ((59.0, 50), (0.0, 51), 2),
}


@pytest.mark.parametrize(("one", "two", "first"), ORDER.values(), ids=ORDER.keys())
def test_the_line_of_leases(one: tuple[float, int], two: tuple[float, int], first: int) -> None:
    scene = Scene(24).at(T0_S - 100.0)
    for ago_s, priority in sorted((one, two), reverse=True):
        scene.at(T0_S - ago_s)
        asked(scene, 20, priority=priority)
    scene.at(T0_S).read()
    places = [words.position(of(scene, lid), scene.s) for lid in ("L1", "L2")]
    assert places == ([1, 2] if first == 1 else [2, 1])
    grants = [move.holder for move in turn(scene)]
    assert grants == [f"L{first}"]


# ---------------------------------------------------------------- who is asked to leave


LEAVES = {
    # name: (the lease, priority of the request, code)
    "not if it did not say so": ({}, 100, "not_preemptible"),
    "for an equal": (preemptible(50), 50, "goes"),
    "not for one below": (preemptible(51), 50, "outranked"),
    "not in its residency": (preemptible(since_s=T0_S - 9.9), 50, "residency"),
    "at the end of its residency": (preemptible(since_s=T0_S - 10.0), 50, "goes"),
    "overdue, for anybody": ({"expires_s": T0_S, "priority": 99}, 0, "goes"),
    "a moment before it is overdue, for nobody": ({"expires_s": T0_S + 0.1, "priority": 99}, 0, "not_preemptible"),
    "not a minute after it kept its place": (
        preemptible(pushed_s=T0_S - 70.0, since_s=T0_S - 59.9), 50, "kept_its_place",
    ),
    "again after that minute": (preemptible(pushed_s=T0_S - 70.0, since_s=T0_S - 60.0), 50, "goes"),
}  # fmt: skip


@pytest.mark.parametrize("who", ["a request", "a lease"])
@pytest.mark.parametrize(("fields", "priority", "code"), LEAVES.values(), ids=LEAVES.keys())
def test_whom_a_lease_leaves_for(fields: dict[str, Any], priority: int, code: str, who: str) -> None:
    scene = Scene(24)
    lid = held(scene, 16, **fields)
    hid = "chat"
    if who == "a request":
        waiting = Waiting(n=1, since_s=T0_S - 1.0, priority_max=priority)
        scene.service(service_spec(awake=16), "stopped", demand={"attended": waiting})
    else:
        hid = asked(scene, 16, priority=priority)
    said = settled(scene, hid)
    assert (said.code, said.facts.get("victims")) == (code, [lid] if code == "goes" else None)
    if code == "not_preemptible":
        assert said.until_s == fields.get("expires_s")


@pytest.mark.parametrize("fields", [{}, preemptible()], ids=["not preemptible", "preemptible"])
def test_a_job_never_asks_a_lease_to_leave(fields: dict[str, Any]) -> None:
    scene = Scene(24)
    held(scene, 16, **fields)
    jid = scene.queue(job_spec(running=16, priority=100))
    assert settled(scene, jid).code == "memory"


def test_an_overdue_lease_leaves_for_a_job() -> None:
    scene = Scene(24)
    lid = held(scene, 16, expires_s=T0_S - 1.0)
    jid = scene.queue(job_spec(running=16))
    assert settled(scene, jid).facts["victims"] == [lid]


def test_a_job_is_pushed_rather_than_a_lease() -> None:
    scene = Scene(48)
    held(scene, 20, **preemptible())
    scene.job(job_spec(running=20), saved_age_s=0.0)
    assert settled(scene, asked(scene, 20)).facts["victims"] == ["train"]


def test_the_way_back_of_a_model_does_not_go_over_a_lease_with_a_silent_meter() -> None:
    scene = Scene(24)
    held(scene, 4)
    scene.service(service_spec(awake=16), "stopped", demand={"attended": ASKED})
    scene.s = replace(scene.s, meter_trouble="hangs")
    assert turn(scene) == () and verdict(scene, "chat").code == "meter_silent"


def test_nor_over_one_that_holds_memory_before_it_was_granted() -> None:
    scene = Scene(24)
    put(scene, asked(scene, 20), seen_bytes={dev("gpu0"): gib(20)})
    scene.service(service_spec(awake=16), "stopped", demand={"attended": ASKED})
    scene.s = replace(scene.s, meter_trouble="hangs")
    assert turn(scene) == () and verdict(scene, "chat").code == "meter_silent"


# ---------------------------------------------------------------- claims


def test_a_claim_counts_what_its_process_will_take_and_ends_with_it() -> None:
    world = LeaseWorld({"gpu0": gib(24)})
    world.run(1.0)
    cid = world.claim(16)
    jid = world.job(job_spec(running=12), Habit(bytes_=gib(12), runs_s=5.0))
    assert not world.run(30.0, lambda: world.form(jid) == "running")
    world.takes(cid, 16)
    assert not world.run(30.0, lambda: world.form(jid) == "running")
    assert words.state(world.of(cid), world.s) == "counted" and world.moves == []
    world.exits(cid)
    assert world.run(10.0, lambda: world.ended(jid) == "done")
    assert world.of(cid).ended == "gone" and not world.wrong


def test_one_without_a_size_counts_what_is_measured() -> None:
    world = LeaseWorld({"gpu0": gib(24), "gpu1": gib(24)})
    cid = world.claim(None, pid=6001)
    assert world.of(cid).devices == ()
    world.habits[cid] = Habit()
    world.programs[cid] = Program(run_id=f"{cid}.1", devices=(dev("gpu1"),), form="granted", held=gib(20))
    world.run(3.0)
    assert world.of(cid).devices == (dev("gpu1"),)
    jobs = [world.job(job_spec(running=12), Habit(bytes_=gib(12))) for _ in range(2)]
    world.run(10.0)
    assert [world.form(jid) for jid in jobs] == ["running", "stopped"]
    assert world.s.holders[jobs[0]].devices == (GPU,) and not world.wrong


BLOCKED = {
    # name: (who comes, blocked, code)
    "a job beside a claim": ("job", False, "goes"),
    "a job beside one that blocks": ("job", True, "blocked"),
    "a lease beside a claim": ("lease", False, "goes"),
    "a lease beside one that blocks": ("lease", True, "blocked"),
    "a model is woken beside one that blocks": ("service", True, "goes"),
}


@pytest.mark.parametrize(("who", "block", "code"), BLOCKED.values(), ids=BLOCKED.keys())
def test_what_a_claim_keeps_off_its_device(who: str, block: bool, code: str) -> None:
    scene = Scene(24)
    assert told(scene, Claim(name="shell", pid=6000, need_bytes=gib(4), block=block)).accepted
    if who == "job":
        hid = scene.queue(job_spec(running=8))
    elif who == "lease":
        hid = asked(scene, 8)
    else:
        hid = "chat"
        scene.service(service_spec(awake=8), "stopped", demand={"attended": ASKED})
    assert settled(scene, hid).code == code
    assert turn(scene) == () if code != "goes" else [move.holder for move in turn(scene)] == [hid]


def test_a_job_that_runs_beside_a_new_claim_stays() -> None:
    scene = Scene(24).job(job_spec(running=8))
    told(scene, Claim(name="shell", pid=6000, block=True))
    assert turn(scene) == () and verdict(scene, "train").code == "keeps"


def test_a_claim_is_never_asked_to_leave() -> None:
    scene = Scene(24)
    told(scene, Claim(name="shell", pid=6000, need_bytes=gib(16)))
    scene.service(service_spec(awake=16), "stopped", demand={"attended": ASKED})
    assert settled(scene, "chat").code == "claimed" and turn(scene) == ()
    assert told(scene, SetWish(target="C1", verb="stop")).accepted  # it is only not counted any more
    assert of(scene, "C1").ended == "cancelled"


# ---------------------------------------------------------------- commands


def test_ids_are_never_reused_and_fencing_numbers_rise() -> None:
    scene = Scene(24)
    assert [asked(scene, 1), asked(scene, 1)] == ["L1", "L2"]
    told(scene, EndLease(target="L1"))
    claimed = told(scene, Claim(name="shell", pid=1)).holder
    scene.at(T0_S + 1e4)
    assert (claimed, asked(scene, 1)) == ("C3", "L4")
    assert "L1" not in scene.s.holders  # long over
    assert told(scene, RenewLease(target="L1")).code == "lease_over"
    assert told(scene, RenewLease(target="L5")).code == "not_found"


def test_the_same_ask_twice_is_one_lease() -> None:
    scene = Scene(24)
    first = asked(scene, 12, ask_key="abc")
    assert asked(scene, 12, ask_key="abc") == first and asked(scene, 12, ask_key="other") != first
    told(scene, EndLease(target=first))
    assert asked(scene, 12, ask_key="abc") not in ("L1", "L2")


def test_giving_back_twice_is_giving_back() -> None:
    scene = Scene(24)
    lid = held(scene, 12)
    assert told(scene, EndLease(target=lid)).accepted
    moved = scene.s.pending[lid]
    assert told(scene, EndLease(target=lid)).accepted and scene.s.pending[lid] == moved


def test_one_that_is_given_back_during_its_grant_is_not_granted_any_more() -> None:
    world = LeaseWorld({"gpu0": gib(24)})
    lid = world.lease(12)
    assert world.run(5.0, lambda: lid in world.s.pending)
    world.releases(lid)
    world.run(5.0)
    assert world.form(lid) == "revoked" and world.of(lid).ended == "released"
    assert lid not in world.s.pending and "lease.granted" not in world.codes(lid)


REFUSED = {
    # name: (command, code)
    "a remote one without a time to live": (made(1, pid=None), "needs_ttl"),
    "the end of nothing": (EndLease(target="ghost"), "not_found"),
    "the end of a job": (EndLease(target="train"), "not_a_lease"),
    "a claim without a process": (Claim(name="x"), "needs_process"),
    "a claim on a device that is not there": (Claim(name="x", pid=1, devices=("gpu7",)), "unknown_device"),
    "a second claim on a process": (Claim(name="x", pid=6000, start_ticks=7), "already_counted"),
    "a lease is not held": (SetWish(target="L1", verb="hold"), "not_for_leases"),
    "a lease is not retried": (SetWish(target="L1", verb="retry"), "not_for_leases"),
    "one that is not preemptible is not stopped": (SetWish(target="L1", verb="stop"), "lease_stays"),
}


@pytest.mark.parametrize(("command", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_changes_nothing(command: Command, code: str) -> None:
    scene = Scene(24).job(job_spec())
    held(scene, 4)
    assert told(scene, Claim(name="shell", pid=6000, start_ticks=7)).accepted
    before = scene.s.holders
    assert (told(scene, command).code, scene.s.holders) == (code, before)


def test_the_line_has_an_end() -> None:
    scene = Scene(24)
    held(scene, 24)
    line = tuple((float(n), f"L{n}") for n in range(512))
    scene.s = replace(scene.s, queue={"lease": line})
    assert told(scene, made(1)).code == "line_full"


STOPPED = {
    # name: (the lease, what becomes of it)
    "one that waits": ({"form": "revoked", "devices": (), "seen_bytes": {}, "granted_s": None}, "cancelled"),
    "a preemptible one is asked to leave": (preemptible(), "leaving"),
    "an overdue one too": ({"expires_s": T0_S - 1.0}, "leaving"),
}


@pytest.mark.parametrize(("fields", "state"), STOPPED.values(), ids=STOPPED.keys())
@pytest.mark.parametrize("verb", ["stop", "kill", "cancel"])
def test_a_person_ends_one(fields: dict[str, Any], state: str, verb: Any) -> None:
    scene = Scene(24)
    lid = held(scene, 12, **fields)
    assert told(scene, SetWish(target=lid, verb=verb, by="kim")).accepted
    turn(scene)
    assert words.state(of(scene, lid), scene.s) == state
