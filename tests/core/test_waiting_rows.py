"""What is said of requests that wait: how much longer, by what was measured, and why."""

from dataclasses import replace
from typing import Any

import pytest

from headway.core import wire
from headway.core.model import Form, Gate, Service, Snapshot, Waiting
from headway.core.waiting_rows import LISTED, back_s, joined, waiting_page
from tests.core.test_view import job, moving, service, snapshot

pytestmark = pytest.mark.core

TIMED = (Form(name="awake"), Form(name="asleep", leave_s=3.0), Form(name="stopped", leave_s=40.0))
PARKED = Form(name="parked", enters_s=(2.0, 4.0))


def chat(**fields: Any) -> Service:
    return replace(
        service(form="asleep", demand={"attended": Waiting(n=2, since_s=990.0)}), forms=TIMED, **fields
    )


def parking(cause: str, **fields: Any) -> Snapshot:
    train = replace(job(form="running"), forms=(Form(name="running"), PARKED, Form(name="stopped")))
    return snapshot(
        chat(), train, pending=(moving("j1", "running", "parked", frees=True, cause=cause),), **fields
    )


CASES = {
    # name: (snapshot; since 5 s something moves, seconds until it answers)
    "nobody moves yet": (snapshot(chat()), None),
    "it wakes, longer than it ever took": (
        snapshot(chat(), pending=(moving("chat", "asleep", "awake"),)),
        None,
    ),
    "it starts": (snapshot(chat(form="stopped"), pending=(moving("chat", "stopped", "awake"),)), 35.0),
    "who steps aside for it takes longer than ever": (parking("chat"), None),
    "who steps aside for it, then its own way": (parking("chat", now_s=996.0), 3.0 + 3.0),
    "who steps aside does so for another": (parking("draw", now_s=996.0), None),
    "it answers": (snapshot(chat(form="awake")), None),
    "never measured": (snapshot(service(form="asleep"), pending=(moving("chat", "asleep", "awake"),)), None),
}


@pytest.mark.parametrize(("s", "likely_s"), CASES.values(), ids=CASES.keys())
def test_until_it_answers(s: Snapshot, likely_s: float | None) -> None:
    found = s.service("chat")
    assert found is not None and back_s(found, s) == likely_s


def entry(place: int, **fields: Any) -> wire.HeldEntry:
    return wire.HeldEntry(f"r{place}", "attended", "ada", 10.0 - place, place, **fields)


def test_each_says_since_when_how_much_longer_and_why() -> None:
    s = snapshot(chat(form="stopped"), pending=(moving("chat", "stopped", "awake"),))
    found = s.service("chat")
    assert found is not None
    first, second = waiting_page(found, (entry(1, model="tiny", left_s=600.0), entry(2)), s, {}).requests
    assert (first.id, first.service, first.model, first.client) == ("r1", "chat", "tiny", "ada")
    assert (first.position, first.waited_s, first.attended) == (1, 9.0, True)
    assert (first.likely_s, first.at_most_s) == (35.0, 600.0)
    assert "35 s" in first.why and "10 min" in first.why and "starting" in first.why
    assert (second.position, second.model, second.at_most_s) == (2, None, None)


def test_one_that_waits_for_a_place_says_so_and_not_how_the_model_is() -> None:
    busy = replace(
        chat(form="awake", gate=Gate(wish="open"), active=4), spec=replace(service().spec, max_active=4)
    )
    s = snapshot(busy)
    (row,) = waiting_page(busy, (entry(1),), s, {}).requests
    assert "place" in row.why and "4" in row.why and row.likely_s is None


def test_only_the_first_are_listed_and_the_others_counted() -> None:
    many = chat(demand={"attended": Waiting(n=90, since_s=990.0), "background": Waiting(n=10, since_s=990.0)})
    s = snapshot(many)
    page = waiting_page(many, [entry(place) for place in range(1, 101)], s, {})
    assert (len(page.requests), page.more) == (LISTED, 100 - LISTED)
    assert waiting_page(many, (), s, {}).more == 100, "a gate that did not answer: they wait all the same"
    both = joined((page, page))
    assert (len(both.requests), both.more) == (2 * LISTED, 2 * (100 - LISTED))
