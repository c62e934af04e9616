"""Two models that cannot be together, under a load for both; and requests that are too weak to park a job."""

import random
from collections.abc import Callable

import pytest

from demo.memory_watch import MemoryWatch
from demo.tiny_server import recorded
from tests.e2e.loads import begin_chat, chat, many_chats, up
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, render, tiny
from tests.parts.programs import GIB

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]
BACKGROUND = {"X-Headway-Class": "background"}


def frame(stack: Stack) -> int:
    path = stack.home / "render" / "frame"
    return int(path.read_text()) if path.exists() else 0


def test_400_requests_to_two_models_are_answered_by_the_right_one_with_few_swaps(stack: Up) -> None:
    switch_after = {"attended": 1.0, "background": 600}
    headway = up(stack, config(tiny("red"), tiny("blue"), min_residency=0.2, switch_after=switch_after))
    random_ = random.Random(400)
    models = [random_.choice(("red", "blue")) for _ in range(400)]
    with MemoryWatch(headway.reports) as memory:
        answers = many_chats(headway, models, at_once=20)
    assert [answer.status for answer in answers] == [200] * 400
    for model, answer in zip(models, answers, strict=True):
        assert answer.words.startswith(f"{model} {answer.id}"), "answered by the right one"
    for model in ("red", "blue"):
        sent = sorted(answer.id for name, answer in zip(models, answers, strict=True) if name == model)
        assert sorted(recorded(headway.home / f"{model}.record")) == sent, "each sent once, to the right one"
    assert memory.most_bytes() == 16 * GIB, "never both at once"
    swaps = len(headway.events("release.verified"))
    assert 1 <= swaps <= 80, f"{swaps} swaps"
    assert not headway.events("memory.not_released", "move.failed", "service.died", "service.failed")


def test_background_requests_wait_while_a_job_runs_and_are_answered_with_the_next_attended_one(
    stack: Up,
) -> None:
    headway = up(stack, config(tiny("chat"), render()))
    headway.wait_job("render", "running")
    headway.wait(lambda: frame(headway) > 2, "the first frames")
    before_it = headway.last_event()
    quiet = [begin_chat(headway, "chat", BACKGROUND) for _ in range(3)]
    headway.wait(lambda: headway.service("chat")["waiting"] == 3, "three that wait")
    why = headway.api("/api/v1/why/chat")
    assert (why["code"], why["facts"]["job"]) == ("beside_model", headway.job("render")["id"])
    stood_at = frame(headway)
    headway.wait(lambda: frame(headway) > stood_at + 40, "two more seconds of frames")
    assert not any(future.done() for future in quiet)
    assert headway.job("render")["state"] == "running"
    assert not headway.events("move.asked", after=before_it), "nobody was asked to move"
    assert chat(headway, "chat").words.startswith("chat ")
    assert [future.result(30).status for future in quiet] == [200] * 3
    headway.wait(lambda: frame(headway) > stood_at + 45, "the job went on")


def test_background_requests_wake_a_model_when_its_memory_is_free(stack: Up) -> None:
    headway = up(stack, config(tiny("chat")))
    assert chat(headway, "chat", BACKGROUND).words.startswith("chat ")


def test_background_requests_that_waited_too_long_park_the_job_after_all(stack: Up) -> None:
    headway = up(stack, config(tiny("chat"), render(), background_max_wait=2))
    headway.wait_job("render", "running")
    headway.wait(lambda: headway.held() == 12 * GIB, "the job's memory")
    answer = chat(headway, "chat", BACKGROUND)
    assert answer.words.startswith("chat ")
    assert answer.took_s >= 2
    headway.wait_job("render", "running")
