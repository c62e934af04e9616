"""kill -9 of the daemon at any moment: nobody who is served notices, and whoever waits, runs or moves goes on."""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from demo.jobs.train import saved_step
from tests.e2e.kills import Load, Witness, line, linked, moment, process_of, rendering, talk
from tests.e2e.stack import LIMIT_S, Stack
from tests.e2e.tables import Entry, Table, config, render, sleeper, tiny, train
from tests.processes import alive
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

Stacks = Callable[[Table], Stack]
STARTING_S = 1.5  # about what a daemon needs until it answers


def lively(*entries: Entry, **settings: Any) -> Table:
    """A config with five jobs in the line that never get their turn, two of them held."""
    waiting = [sleeper(f"late{number}", size="23GiB", hold=number in (1, 3)) for number in range(5)]
    return config(*entries, *waiting, max_active_jobs=2, crash_starts=0, **settings)


def up(stack: Stack) -> None:
    """Gate and daemon without a supervisor, whose back-off would only slow the kills down."""
    stack.start_gate()
    stack.start_daemon()


def killed_and_back(stack: Stack, chance: random.Random, away_s: float = 0.3, starting: bool = False) -> int:
    """Kill the daemon, let a random time pass, start it; `starting`: kill that one too while it starts.

    Returns the number of kills.
    """
    stack.kill("daemon")
    moment(chance, away_s)
    if starting:
        stack.start_daemon(wait=False)
        moment(chance, STARTING_S)
        stack.kill("daemon")
    stack.start_daemon()
    return 1 + starting


def frame(stack: Stack) -> int:
    path = stack.home / "render" / "frame"
    return int(path.read_text()) if path.exists() else 0


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_while_all_is_calm_an_open_service_and_the_jobs_never_notice(
    stacks: Stacks, seed: int
) -> None:
    chance = random.Random(seed)
    stack = stacks(lively(tiny("chat", idle_ttl="1h"), train("train", "5GiB", placement="share")))
    up(stack)
    stack.wait_job("train", "running")
    with Witness(stack, "chat") as witness:
        with Load(stack) as load:
            stack.wait(lambda: load.whole > 5, "the first answers")
            before, order = process_of(stack, "train"), line(stack)
            server = process_of(stack, "chat")
            assert len(order) == 5
            kills = 0
            while kills < 6:
                moment(chance, 0.5)
                answered = load.whole
                kills += killed_and_back(stack, chance, starting=kills % 3 == 1)
                assert load.whole > answered, "answers went on while it was away"
                assert (process_of(stack, "train"), process_of(stack, "chat")) == (before, server)
                assert line(stack) == order
        step = saved_step(stack.home / "train")
        stack.wait(lambda: saved_step(stack.home / "train") > step, "the job goes on")
        assert [one for one in load.talks if not one.right] == []
        witness.check(load.talks, jobs=("train",))
    assert [event["facts"]["form"] for event in stack.events("move.asked", holder="chat")] == ["awake"]
    assert not stack.events("gate.closed", "service.died", "move.failed", "job.lost", "memory.not_released")


@pytest.mark.parametrize("seed", [3, 4])
def test_killed_while_a_model_wakes_its_requests_are_held_and_answered(stacks: Stacks, seed: int) -> None:
    chance = random.Random(seed)
    stack = stacks(lively(tiny("chat", "16GiB", "--start-delay", 1), render()))
    up(stack)
    before, order = rendering(stack), line(stack)
    talks = []
    with Witness(stack, "chat") as witness:
        kills = 0
        while kills < 4:
            stack.wait_job("render", "running")
            asked = [talk(stack) for _ in range(3)]
            stack.wait_service("chat", "starting")
            moment(chance, 1.5)
            kills += killed_and_back(stack, chance, starting=kills == 2)
            for _, answer in asked:
                said = answer.result(LIMIT_S)
                assert said.right, said
                talks.append(said)
            assert line(stack) == order
        stack.wait_job("render", "running")
        assert process_of(stack, "render") == before
        witness.check(talks, jobs=("render",))
    assert not stack.events("move.failed", "job.lost", "memory.not_released")


@pytest.mark.parametrize("seed", [5, 6])
def test_killed_while_a_job_parks_or_resumes_the_chain_goes_on(stacks: Stacks, seed: int) -> None:
    chance = random.Random(seed)
    slow = ("--park-s", 1, "--resume-s", 1)
    stack = stacks(lively(tiny("chat"), render("render", "12GiB", *slow)))
    up(stack)
    before, order = rendering(stack), line(stack)
    talks = []
    with Witness(stack, "chat") as witness:
        kills = 0
        while kills < 4:
            asked = [talk(stack) for _ in range(2)]
            stack.wait_job("render", "parking")
            moment(chance, 1.2)
            kills += killed_and_back(stack, chance)
            for _, answer in asked:
                said = answer.result(LIMIT_S)
                assert said.right, said
                talks.append(said)
            assert line(stack) == order
            stood_at = frame(stack)
            stack.wait_job("render", "resuming", "running")
            moment(chance, 1.0)
            kills += killed_and_back(stack, chance)
            stack.wait_job("render", "running")
            stack.wait(lambda: frame(stack) > stood_at, "further frames")  # noqa: B023
            assert process_of(stack, "render") == before
        witness.check(talks, jobs=("render",))
    assert not stack.events("move.failed", "job.lost", "memory.not_released")


@pytest.mark.parametrize("seed", [7, 8])
def test_killed_while_answers_stream_they_go_on_and_the_job_waits_for_their_end(
    stacks: Stacks, seed: int
) -> None:
    chance = random.Random(seed)
    stack = stacks(lively(tiny("chat"), render()))
    up(stack)
    before, order = rendering(stack), line(stack)
    talks = []
    with Witness(stack, "chat") as witness:
        kills = 0
        while kills < 4:
            asked = [talk(stack, chunks=40, pace_s=0.1) for _ in range(3)]
            stack.wait(lambda: all(one.began for one, _ in asked), "the first words")  # noqa: B023
            server = process_of(stack, "chat")
            moment(chance, 1.5)
            kills += killed_and_back(stack, chance, starting=kills == 1)
            more = talk(stack)
            assert more[1].result(LIMIT_S).right, "a new request to the open service"
            assert process_of(stack, "chat") == server
            assert line(stack) == order
            for _, answer in [*asked, more]:
                said = answer.result(LIMIT_S)
                assert said.right, said
                talks.append(said)
            stack.wait_job("render", "running")
        assert process_of(stack, "render") == before
        witness.check(talks, jobs=("render",))
    assert not stack.events("move.failed", "service.died", "job.lost", "memory.not_released")


@pytest.mark.parametrize("seed", [11, 12])
def test_killed_while_a_close_waits_for_a_stream_it_ends_and_the_other_model_comes(
    stacks: Stacks, seed: int
) -> None:
    chance = random.Random(seed)
    switch_after = {"attended": 0.3, "background": 600}
    stack = stacks(config(tiny("red"), tiny("blue"), switch_after=switch_after, min_residency=0.2))
    up(stack)
    linked(stack, "red")
    talks = []
    with Witness(stack, "red", "blue") as witness:
        for here, other in (("red", "blue"), ("blue", "red"), ("red", "blue")):
            stream = talk(stack, here, chunks=40, pace_s=0.1)
            stack.wait(lambda: stream[0].began, "the first word")  # noqa: B023
            server = process_of(stack, here)
            waits = talk(stack, other)
            stack.wait_service(here, "draining")
            late = talk(stack, here)  # comes after the close, so it waits for its model's next turn
            moment(chance, 1.0)
            killed_and_back(stack, chance)
            assert process_of(stack, here) == server
            said = [future.result(LIMIT_S) for _, future in (stream, waits, late)]
            assert [one for one in said if not one.right] == []
            talks += said
            assert held(stack, late[0].id), "sent to a server that was about to leave"
        witness.check(talks)
    assert not stack.events("move.failed", "service.died", "memory.not_released")


def held(stack: Stack, request: str) -> bool:
    """Whether the gate's log says that a request had to wait."""
    (row,) = stack.wait(lambda: [r for r in stack.requests() if r["id"] == request], "the request in the log")
    return bool(row["held"])


@pytest.mark.parametrize("seed", [9, 10])
def test_killed_while_a_model_leaves_who_comes_in_that_moment_is_held(stacks: Stacks, seed: int) -> None:
    chance = random.Random(seed)
    stack = stacks(lively(tiny("chat", "16GiB", "--lie", "late:0.2"), render(), gap_min=0.3))
    up(stack)
    before, order = rendering(stack), line(stack)
    talks = []
    left = partial(stack.events, "release.verified", holder="chat")
    with Witness(stack, "chat") as witness:
        assert talk(stack)[1].result(LIMIT_S).right
        for number in range(8):
            asked = []
            until_s = (
                time.monotonic() + 0.5
            )  # requests in a row over the moment in which the job's turn begins
            while time.monotonic() < until_s:
                moment(chance, 0.05)
                asked.append(talk(stack))
                stack.wait(lambda: asked[-1][0].whole or asked_aside(stack), "an answer, or the close")  # noqa: B023
            if number % 3 == 0:
                killed_and_back(stack, chance)
            for _, answer in asked:
                said = answer.result(LIMIT_S)
                assert said.right, said
                talks.append(said)
            moment(chance, 0.4)
            if number in (2, 5):  # however the moments fell, it leaves between some of the rounds
                stack.wait(lambda: len(left()) > number // 3, "the model leaves")  # noqa: B023
        assert line(stack) == order
        stack.wait_job("render", "running")
        assert process_of(stack, "render") == before
        witness.check(talks, jobs=("render",))
    assert len(left()) > 1, "it left more than once"
    assert not stack.events("move.failed", "service.died", "job.lost", "memory.not_released")


def asked_aside(stack: Stack) -> bool:
    return bool(stack.service("chat")["gate"] == "closed")


def test_what_ended_while_nobody_looked_is_known_afterwards(stacks: Stacks) -> None:
    def short(name: str, steps: int, code: int) -> Entry:
        return train(name, "1GiB", "--steps", steps, "--exit-code", code, placement="share")

    jobs = (short("well", 60, 0), short("badly", 60, 7), short("shot", 6000, 0), short("lost", 6000, 0))
    stack = stacks(config(*jobs, max_active_jobs=9))
    up(stack)
    names = ("well", "badly", "shot", "lost")
    pids = {name: stack.wait_job(name, "running")["pid"] for name in names}
    stack.wait(lambda: all(saved_step(stack.home / name) for name in names), "the first saved points")
    runs = {name: process_of(stack, name)[0] for name in names}
    stack.kill("daemon")
    os.kill(pids["shot"], signal.SIGKILL)
    shim = shim_of(stack, runs["lost"])
    os.kill(shim, signal.SIGKILL)
    wait_for(lambda: not alive(shim), LIMIT_S, "the end of a shim")
    wait_for(
        lambda: not any(alive(pids[name]) for name in ("well", "badly", "shot")), LIMIT_S, "the jobs' ends"
    )
    stack.start_daemon()
    for name, state, code in (("well", "done", 0), ("badly", "failed", 7), ("shot", "failed", -9)):
        row = stack.wait_job(name, state)
        assert (row["exit_code"], row["run"]) == (code, runs[name])
    # nobody knows how that one would have ended, so what is left of it is ended and it goes on from its saved point
    again = stack.wait_job("lost", "running")
    wait_for(lambda: not alive(pids["lost"]), LIMIT_S, "the end of what a killed shim left")
    stack.wait(lambda: process_of(stack, "lost")[0] != runs["lost"], "another run")
    assert again["exit_code"] is None
    (told,) = stack.events("job.lost")
    assert (told["holder"], told["facts"]["run"]) == (again["id"], runs["lost"])
    for name in names:
        assert not (stack.home / name / "copies").exists(), f"a second copy of {name} was started"


def shim_of(stack: Stack, run: str) -> int:
    document = json.loads((stack.home / "runs" / run / "started").read_text())
    return int(document["shim"])
