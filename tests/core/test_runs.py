"""Whole stories in virtual time: a toy world around the core, and what must hold at the end of each."""

from __future__ import annotations

from itertools import pairwise

import pytest

from headway.core.model import Policy
from tests.core.make import gib, job_spec, service_spec
from tests.core.world import Habit, World

pytestmark = pytest.mark.core

CHAT = Habit(bytes_=gib(16))
TRAIN = Habit(bytes_=gib(14), runs_s=20.0)


def test_a_request_while_the_job_runs_is_held_and_answered_and_the_job_goes_on() -> None:
    world = World({"gpu0": gib(24)})
    world.service(service_spec(), CHAT)
    job = world.job(job_spec(), TRAIN)
    assert world.run(30, lambda: world.form(job) == "running")
    request = world.ask("chat", 5.0)
    assert world.run(30, lambda: request.how == "answered")
    assert world.form(job) == "stopped"
    assert world.run(120, lambda: world.ended(job) == "done")
    assert world.wrong == []


def test_memory_that_falls_6_s_late_is_waited_for() -> None:
    world = World({"gpu0": gib(24)})
    world.service(service_spec(), Habit(bytes_=gib(16), falls_s=6.0))
    world.ask("chat")
    world.run(5)
    job = world.job(job_spec(), TRAIN)
    assert world.run(60, lambda: world.form(job) == "running")
    assert world.first("move.asked", job) >= world.first("release.verified", "chat")
    assert world.first("release.verified", "chat") - world.first("move.asked", "chat") >= 6.0
    assert world.run(120, lambda: world.ended(job) == "done")
    assert world.wrong == []


def test_forty_jobs_of_a_fifth_that_take_their_memory_late_run_four_together() -> None:
    world = World({"gpu0": gib(20)}, Policy(max_active_jobs=40))
    habit = Habit(bytes_=gib(4), runs_s=10.0, alloc_s=3.0)
    jobs = [world.job(job_spec(f"job{n}", 4), habit) for n in range(40)]
    most = 0

    def all_over() -> bool:
        nonlocal most
        most = max(most, sum(world.programs[j].alive for j in jobs if j in world.programs))
        return all(world.ended(j) == "done" for j in jobs)

    assert world.run(600, all_over)
    assert most == 4
    assert world.wrong == []


@pytest.mark.parametrize("asleep", [None, 1.0])
def test_a_server_that_keeps_its_memory_starts_no_job_until_it_is_killed(asleep: float | None) -> None:
    world = World({"gpu0": gib(24)})
    habit = Habit(bytes_=gib(16), residue=gib(1), keeps=True, survives_stop=True)
    world.service(service_spec(asleep=asleep), habit)
    world.ask("chat")
    world.run(5)
    job = world.job(job_spec(), TRAIN)
    assert world.run(200, lambda: world.form(job) == "running")
    assert [move.form for _, move in world.moves if move.holder == "chat"][-1] == "stopped"
    assert [move.kill for _, move in world.moves if move.holder == "chat"][-1]
    assert world.codes("chat").count("memory.not_released") == 1
    assert world.wrong == []


def test_two_services_that_cannot_be_together_alternate_with_bounded_swaps() -> None:
    world = World({"gpu0": gib(24)}, Policy(switch_after_s={"attended": 1.0, "background": 600.0}))
    for name in ("chat", "code"):
        world.service(service_spec(name, min_residency_s=0.2), Habit(bytes_=gib(16), start_s=0.5))
    for n in range(400):
        world.ask(("chat", "code")[n % 2], n * 0.05, takes_s=0.3)
    assert world.run(120, lambda: all(r.how == "answered" for r in world.requests))
    swaps = [move for _, move in world.moves if move.form == "awake"]
    assert len(swaps) <= 80
    assert world.wrong == []


def test_a_gap_job_runs_only_in_gaps_and_is_parked_at_the_next_request() -> None:
    world = World({"gpu0": gib(40)})
    world.service(service_spec(), CHAT)
    job = world.job(job_spec(parked=0.5), Habit(bytes_=gib(14), residue=gib(0.5), runs_s=60.0))
    for burst in range(5):
        for n in range(5):
            world.ask("chat", 30.0 * burst + n, takes_s=1.5)

    def over() -> bool:
        beside = {p.form for h, p in world.programs.items() if p.alive and p.held}
        assert not {"awake", "running"} <= beside
        return world.ended(job) == "done" and all(r.how == "answered" for r in world.requests)

    assert world.run(600, over)
    assert world.codes(job).count("release.verified") >= 3
    assert world.starts[job] == 1  # parked, never restarted
    assert world.wrong == []


def test_a_15_7_gib_model_on_a_16_gib_card_wakes() -> None:
    world = World({"gpu0": gib(16)})
    world.service(service_spec(awake=15.7), Habit(bytes_=gib(15.7)))
    job = world.job(job_spec(), TRAIN)
    assert world.run(60, lambda: world.form(job) == "running")
    request = world.ask("chat")
    assert world.run(60, lambda: request.how == "answered")
    assert world.wrong == []


def test_a_server_that_dies_while_it_answers_is_started_again_for_those_who_wait() -> None:
    world = World({"gpu0": gib(24)})
    world.service(service_spec(), CHAT)
    first = world.ask("chat", takes_s=5.0)
    assert world.run(30, lambda: first.how == "sent")
    world.dies("chat")
    second = world.ask("chat", 0.1)
    assert world.run(30, lambda: second.how == "answered")
    assert first.how == "broken"
    assert world.starts["chat"] == 2
    assert world.wrong == []


def test_a_start_that_hangs_is_given_up_and_tried_again_with_growing_pauses() -> None:
    world = World({"gpu0": gib(24)})
    world.service(service_spec(wake_limit_s=20.0), Habit(bytes_=gib(16), start_s=1e9))
    world.ask("chat")
    world.run(400)
    starts = [at for at, move in world.moves if move.form == "awake"]
    pauses = [b - a for a, b in pairwise(starts)]
    assert 3 <= len(starts) <= 8
    assert all(a <= b + 1.0 for a, b in pairwise(pauses))
    assert world.wrong == []


def test_a_job_that_fails_to_start_three_times_is_held() -> None:
    world = World({"gpu0": gib(24)})
    job = world.job(job_spec(retries=5), Habit(bytes_=gib(14), start_s=1e9))
    world.run(300)
    assert world.s.holders[job].wish == "hold"
    assert world.starts[job] == 3


def test_without_a_meter_no_job_starts_and_the_model_still_comes_back() -> None:
    world = World({"gpu0": gib(24)})
    world.service(service_spec(), CHAT)
    world.run(5)
    world.silence_meter()
    job = world.job(job_spec(), TRAIN)
    request = world.ask("chat", 20.0)
    assert world.run(60, lambda: request.how == "answered")
    world.run(60)
    assert world.starts.get(job) is None
    assert world.verdicts[job].code in ("meter_silent", "beside_model")


def test_a_model_over_two_devices_takes_both_or_none() -> None:
    world = World({"gpu0": gib(24), "gpu1": gib(24)})
    world.service(service_spec(count=2), CHAT)
    jobs = [
        world.job(job_spec(f"job{n}", parked=0.5), Habit(bytes_=gib(14), residue=gib(0.5), runs_s=30.0))
        for n in range(2)
    ]
    assert world.run(30, lambda: all(world.form(job) == "running" for job in jobs))
    request = world.ask("chat", takes_s=2.0)
    assert world.run(30, lambda: request.how == "answered")
    assert [len(move.devices) for _, move in world.moves if move.form == "awake"] == [2]
    assert world.run(300, lambda: all(world.ended(job) == "done" for job in jobs))
    assert world.wrong == []


def test_a_stronger_job_takes_the_place_of_a_parkable_one_and_not_back_and_forth() -> None:
    world = World({"gpu0": gib(40)})
    low = world.job(job_spec("low", parked=0.5), Habit(bytes_=gib(14), residue=gib(0.5), runs_s=200.0))
    world.run(70)
    high = world.job(job_spec("high", priority=80), Habit(bytes_=gib(14), runs_s=30.0))
    assert world.run(30, lambda: world.form(high) == "running")
    assert world.form(low) == "parked"
    assert world.run(400, lambda: world.ended(low) == "done")
    assert world.codes(low).count("release.verified") == 1
    assert world.wrong == []
