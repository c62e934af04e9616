"""History for people: which moves are those of model servers, and why each was made."""

from typing import Any

import pytest

from headway.core.facts import MoveAnswered
from headway.core.model import Event, Snapshot, Waiting
from headway.core.past import SwapRow, is_swap, swap_row
from tests.core.make import T0_S, Scene, gib, job_spec, reading, service_spec

pytestmark = pytest.mark.core

SLEEPER = service_spec(asleep=1)


def row(event: Event, s: Snapshot) -> SwapRow:
    assert is_swap(event.code, event.facts), event
    wall_s = 1e9
    stored = {
        "id": 7,
        "wall_s": wall_s,
        "code": event.code,
        "holder": event.holder,
        "facts": dict(event.facts),
    }
    return swap_row(stored, s)


def slept(cause: str) -> tuple[Event, Scene]:
    scene = Scene(24).service(SLEEPER).job(job_spec(), "stopped")
    scene.under_way("chat", "awake", "asleep", cause=cause)
    scene.happens(MoveAnswered(holder="chat", to="asleep", run_id="chat.1"))
    scene.at(T0_S + 0.5)
    events = scene.happens(reading("gpu0", 24, scene.s.now_s, {"chat": gib(1)}))
    return next(event for event in events if event.code == "release.verified"), scene


def woke(source: str = "asleep", **given: Any) -> tuple[Event, Scene]:
    scene = Scene(24).service(SLEEPER, source, **given).under_way("chat", source, "awake")
    (event,) = scene.happens(MoveAnswered(holder="chat", to="awake", run_id="chat.1"))
    return event, scene


def test_one_that_went_to_sleep_says_for_whom() -> None:
    event, scene = slept("train")
    found = row(event, scene.s)
    assert (found.service, found.source, found.to, found.failed) == ("chat", "awake", "asleep", False)
    assert (found.cause, found.took_s) == ("train", event.facts["took_s"])
    assert "train" in found.why


def test_one_that_went_by_a_rule_says_which() -> None:
    event, scene = slept("asked_sleep")
    assert "sent to sleep" in row(event, scene.s).why


WAITS = {"attended": Waiting(n=2, since_s=T0_S - 3.0), "background": Waiting(n=1, since_s=T0_S - 9.0)}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"demand": WAITS}, "3 requests waited for it"),
        ({"called_by": "ada", "demand": WAITS}, "ada asked for it"),
        ({}, "nobody else had a use for its memory"),
    ],
    ids=["requests", "a person", "nobody"],
)
@pytest.mark.parametrize("source", ["asleep", "stopped"])
def test_one_that_came_back_says_for_whom(source: str, given: dict[str, Any], why: str) -> None:
    event, scene = woke(source, **given)
    found = row(event, scene.s)
    assert (found.source, found.to, found.failed, found.cause) == (source, "awake", False, None)
    assert found.why == why


def test_one_that_failed_says_what_went_wrong() -> None:
    scene = Scene(24).service(SLEEPER, "asleep").under_way("chat", "asleep", "awake")
    events = scene.happens(
        MoveAnswered(
            holder="chat", to="awake", run_id="chat.1", error="limit_passed", facts={"limit_s": 60.0}
        )
    )
    found = row(next(event for event in events if event.code == "move.failed"), scene.s)
    assert (found.source, found.to, found.failed, found.took_s) == ("asleep", "awake", True, None)
    assert "60 s" in found.why


def test_moves_of_jobs_and_leases_are_none() -> None:
    scene = (
        Scene(24).job(job_spec(), "stopped", devices=("here/gpu0",)).under_way("train", "stopped", "running")
    )
    (event,) = scene.happens(MoveAnswered(holder="train", to="running", run_id="train.1"))
    assert event.code == "move.done" and not is_swap(event.code, event.facts)
    assert not is_swap("release.verified", {"form": "revoked", "source": "granted"})
    assert not is_swap("move.asked", {"form": "asleep", "source": "awake"})


def test_one_from_before_the_reasons_were_noted_says_that_they_are_not_known() -> None:
    scene = Scene(24)
    for code, form in (("release.verified", "asleep"), ("move.done", "awake")):
        facts = {"form": form, "source": "awake" if form == "asleep" else "asleep", "took_s": 1.0}
        assert "not known" in row(Event(code=code, holder="chat", at_s=0.0, facts=facts), scene.s).why
