"""Which turn of a window is open, by the wall clock, and what of that the loop is told."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest

from headway.config.calendar import Calendar, WindowPlan, cron_error
from headway.core.model import Snapshot, Window
from headway.daemon.calendar import news
from tests.core.make import Scene

pytestmark = pytest.mark.core

NIGHT = WindowPlan(name="night", kind="no_model", services=(), cron="0 22 * * *", until=(6, 30))
TWO_HOURS = WindowPlan(
    name="late", kind="slow_wake", services=("chat",), cron="30 23 * * 1-5", duration_s=7200.0
)
BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, zone: tzinfo = UTC) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


TURNS = {
    # name: (plan, zone, now, begin, end)
    "in the evening before it": (NIGHT, UTC, "2026-11-30 21:59", "2026-11-30 22:00", "2026-12-01 06:30"),
    "at its very begin": (NIGHT, UTC, "2026-11-30 22:00", "2026-11-30 22:00", "2026-12-01 06:30"),
    "past midnight": (NIGHT, UTC, "2026-12-01 06:29", "2026-11-30 22:00", "2026-12-01 06:30"),
    "at its very end the next one": (NIGHT, UTC, "2026-12-01 06:30", "2026-12-01 22:00", "2026-12-02 06:30"),
    "a duration past midnight": (TWO_HOURS, UTC, "2026-12-01 01:00", "2026-11-30 23:30", "2026-12-01 01:30"),
    "over the weekend": (TWO_HOURS, UTC, "2026-12-05 02:00", "2026-12-07 23:30", "2026-12-08 01:30"),
    "local time in winter": (NIGHT, BERLIN, "2026-12-01 23:00", "2026-12-01 22:00", "2026-12-02 06:30"),
    "local time in summer": (NIGHT, BERLIN, "2026-07-01 23:00", "2026-07-01 22:00", "2026-07-02 06:30"),
    "over the end of summer time": (NIGHT, BERLIN, "2026-10-25 03:00", "2026-10-24 22:00", "2026-10-25 06:30"),
}  # fmt: skip


@pytest.mark.parametrize("name", TURNS)
def test_turn(name: str) -> None:
    plan, zone, now, begin, end = TURNS[name]
    (found,) = Calendar((plan,), zone).due(at(now, zone))
    assert (found.begin_wall_s, found.end_wall_s) == (at(begin, zone), at(end, zone))
    assert (found.id, found.kind, found.services) == (plan.name, plan.kind, plan.services)


def test_a_clock_that_is_set_finds_the_turn_of_then_forwards_and_backwards() -> None:
    calendar = Calendar((NIGHT,), UTC)
    for now, begin in (("2026-11-30 12:00", "2026-11-30 22:00"), ("2026-12-02 12:00", "2026-12-02 22:00"),
                       ("2026-11-20 23:00", "2026-11-20 22:00")):  # fmt: skip
        assert calendar.due(at(now))[0].begin_wall_s == at(begin)


def test_without_a_zone_it_is_the_time_of_this_machine() -> None:
    now_s = datetime(2026, 12, 1, 23, 0).timestamp()
    (found,) = Calendar((NIGHT,)).due(now_s)
    assert datetime.fromtimestamp(found.begin_wall_s) == datetime(2026, 12, 1, 22, 0)
    assert datetime.fromtimestamp(found.end_wall_s) == datetime(2026, 12, 2, 6, 30)


CRON = {
    "every evening": ("0 22 * * *", True),
    "on working days": ("*/15 8-18 * * MON-FRI", True),
    "no words": ("", False),
    "a time of day": ("22:00", False),
    "hour 25": ("0 25 * * *", False),
    "a day that never comes": ("0 0 30 2 *", False),
}


@pytest.mark.parametrize(("words", "fine"), CRON.values(), ids=CRON.keys())
def test_cron_words(words: str, fine: bool) -> None:
    assert (cron_error(words) is None) is fine


# ---------------------------------------------------------------- what the loop is told

WALL_S = at("2026-11-30 23:00")


def after_news(s: Snapshot, now_s: float, wall_s: float) -> tuple[Snapshot, bool]:
    fact = news(Calendar((NIGHT,), UTC).due, s, now_s, wall_s)
    if fact is None:
        return s, False
    scene = Scene(24)
    scene.s = s
    return scene.fold(fact).s, True


def test_it_is_told_once_and_again_only_when_a_clock_was_set() -> None:
    s, told = after_news(Scene(24).s, 1000.0, WALL_S)
    assert told and [(w.begin_s, w.end_s) for w in s.windows] == [(1000.0 - 3600.0, 1000.0 + 7.5 * 3600.0)]
    assert after_news(s, 1100.0, WALL_S + 100.2)[1] is False
    s, told = after_news(s, 1100.0, WALL_S + 1900.0)  # half an hour forward
    assert told and s.windows[0].end_s == 1100.0 + 7.5 * 3600.0 - 1900.0
    s, told = after_news(s, 1200.0, at("2026-12-01 07:00"))
    assert told and s.windows[0].begin_s > 1200.0


def test_the_end_of_a_window_by_hand_is_told_anew_when_the_clock_was_set() -> None:
    by_hand = Window(id="w1", kind="no_model", begin_s=900.0, end_s=2000.0, end_wall_s=WALL_S + 1000.0)
    s = Scene(24).s.__class__(now_s=1000.0, windows=(by_hand,))
    assert news(lambda wall_s: (), s, 1000.0, WALL_S) is None
    fact = news(lambda wall_s: (), s, 1000.0, WALL_S - 500.0)
    assert fact is not None and fact.wall_s == WALL_S - 500.0
