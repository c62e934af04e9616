"""The history when a clock is wrong, a line is odd, or hours pass in which nobody asks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.core.answers import logged, read_line
from headway.core.history import Histories
from headway.core.ledger import DAY_S, HOUR_S, Knobs, price
from headway.core.pauses import Table
from tests.core.make import T0_S
from tests.core.test_history import DAY, WALL_S, chat, histories, looked, quiet_scene, row

pytestmark = pytest.mark.core

YEAR_S = 365 * DAY_S
ODD_NUMBERS = [10**400, -(10**400), 1e999, float("nan"), 1e30, "x", [], {}, True]


def test_a_line_of_a_boot_whose_wall_clock_ran_ahead_stops_no_clock() -> None:
    """The caps look at the last 24 hours: they would be frozen until that date."""
    found, now_s = histories(), T0_S + WALL_S
    for n in range(3):
        found.learn(row(50.0 + n, waited_s=4.0, boot="b0", wall_s=now_s + 10 * YEAR_S + n), T0_S)
    for n in range(200):
        found.learn(row(800.0 + n, waited_s=4.0), T0_S)
    assert chat(found).ledger.newest_s <= now_s
    assert price(Knobs(), chat(found).ledger, now_s + 2 * DAY_S) == pytest.approx(Knobs().wait_price)


@pytest.mark.parametrize("ahead_s", [2 * HOUR_S, 10 * YEAR_S])
def test_a_boot_that_follows_one_whose_wall_clock_ran_ahead_goes_on_from_there(ahead_s: float) -> None:
    before = Histories(Table({}), "b1", T0_S, T0_S + WALL_S + ahead_s)
    for one in DAY:
        before.learn(one)
    doc = json.loads(json.dumps(before.to_doc()))
    after = Histories(Table({}), "b2", 10.0, T0_S + WALL_S + 60.0, doc)
    after.learn(row(12.0, boot="b2", wall_s=T0_S + WALL_S + 62.0))
    newest_s = chat(after).ledger.newest_s
    assert newest_s >= chat(before).ledger.newest_s
    now_s = 12.0 + after.boots["b2"]
    assert now_s == pytest.approx(newest_s), "its own clock and that of the requests are the same"
    assert chat(after).ledger.over(now_s + 30 * HOUR_S, 24).requests == 0


def test_who_waited_is_longer_ago_by_the_hour_though_nobody_asks() -> None:
    found, scene = histories([row(T0_S - 60.0, waited_s=3.0)]), quiet_scene()
    first = looked(found, scene)
    assert [one.waited for one in first.waits] == [1.0, 1.0, 1.0]
    later = looked(found, scene.at(T0_S + 3 * HOUR_S))
    assert [one.waited for one in later.waits] == [0.0, 1.0, 1.0]
    assert later.quiet is first.quiet and later.at_s == first.at_s, "what is expected stays"
    last = looked(found, scene.at(T0_S + 30 * HOUR_S))
    assert [one.waited for one in last.waits] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("value", ODD_NUMBERS, ids=repr)
@pytest.mark.parametrize("key", ["at_s", "wall_s", "took_s", "sent_after_s", "waited_s", "output_tokens"])
def test_a_line_with_an_odd_number_is_no_request_or_one_that_can_be_learned(key: str, value: Any) -> None:
    """Whatever a disk or a hand put there: no line ends the daemon that reads it."""
    line = row(900.0, waited_s=3.0) | {key: value}
    found = histories([*DAY, line, row(960.0)])
    assert chat(found).lines in (len(DAY) + 1, len(DAY) + 2)
    json.dumps(found.to_doc(), allow_nan=False)
    one = logged(line)
    assert one is None or abs(one.at_s) < 1e12


@pytest.mark.parametrize(
    "text", ["", "[", "[1]", "null", "5", '"x"', "{bad", "[" * 100_000, '{"a":' * 100_000, b"\xff", "\x00"]
)
def test_what_is_no_document_is_none(text: str | bytes) -> None:
    assert read_line(text) is None
