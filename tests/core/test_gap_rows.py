"""What people see of the gap policy: the curve, the price, who waited, and why a model is aside."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from headway.core import gaps, view
from headway.core.engines import Engine, EngineRead
from headway.core.gap_rows import gap_row
from headway.core.ledger import Waits
from headway.core.rows import BudgetRow, GapRow, TimesRow
from tests.core.make import T0_S, Scene, job_spec, outlook, service_spec
from tests.core.test_gaps import regular

pytestmark = pytest.mark.core

WAITS = (
    Waits(requests=10.0, waited=1.0, waited_s=2.0),
    Waits(requests=100.0, waited=5.0, waited_s=9.0),
    Waits(),
)


def shown(scene: Scene) -> GapRow:
    chat = scene.s.service("chat")
    assert chat is not None
    found = gap_row(chat, scene.s)
    assert found is not None
    return found


def seen(**given: Any) -> Scene:
    scene = Scene(24).service(service_spec(asleep=1), **given)
    return scene.expecting("chat", outlook(regular(8.0), at_s=T0_S - 3.0, waits=WAITS, price=7.0))


def test_the_curve_falls_and_says_how_long_it_is_likely_quiet() -> None:
    row = shown(seen())
    assert (row.talks, row.age_s, row.price, row.wait_price) == (1, 3.0, 7.0, 4.0)
    assert all(0 <= later <= share <= 1 for (_, share), (_, later) in pairwise(row.curve))
    assert row.likely_s is not None and 5.0 <= row.likely_s <= 9.0


def test_who_waited_over_an_hour_a_day_and_all_time() -> None:
    row = shown(seen())
    assert [(one.over, one.requests, one.share, one.mean_s) for one in row.waits] == [
        ("1 h", 10.0, 0.1, 0.2),
        ("24 h", 100.0, 0.05, 0.09),
        ("all", 0.0, 0.0, 0.0),
        ("slow_wake", 0.0, 0.0, 0.0),
    ]


def test_nothing_is_expected_while_it_answers() -> None:
    row = shown(seen(active=1))
    assert (row.talks, row.likely_s, row.curve) == (None, None, ())


def test_one_that_is_not_awake_is_not_said_to_answer() -> None:
    answers, down = shown(seen(active=1)), shown(seen(form="stopped"))
    assert answers.sentence != down.sentence and (down.talks, down.curve) == (None, ())


def test_before_it_was_looked_at_there_is_nothing_to_show() -> None:
    scene = Scene(24).service()
    chat = scene.s.service("chat")
    assert chat is not None and gap_row(chat, replace(scene.s, outlooks={})) is None


def test_a_model_that_is_aside_for_a_job_says_why_that_was_worth_it_until_it_is_back() -> None:
    scene = seen().job(job_spec(parked=1), "stopped")
    draft = scene.draft()
    gaps.taken(draft, "chat", "train")
    scene.s = draft.done()
    scene.put(replace(scene.s.holders["chat"], form="asleep", since_s=T0_S))
    assert view.explain("chat", scene.s, {}).code == "gap_taken"
    aside = shown(scene).sentence
    assert "train" in aside
    scene.put(replace(scene.s.holders["chat"], form="awake"))
    assert view.explain("chat", scene.s, {}).code == "idle" and shown(scene).sentence != aside


def test_one_that_is_asked_about_has_it_and_one_of_a_list_has_not() -> None:
    scene = seen()
    detail = view.detail("chat", scene.s, {})
    assert getattr(detail, "gap", None) == shown(scene)
    assert not hasattr(view.row("chat", scene.s, {}), "gap")


def test_the_card_shows_what_was_waited_in_a_day_against_what_was_promised() -> None:
    scene = seen()
    row = view.services(scene.s, {})[0]
    assert row.budget == BudgetRow(requests=100.0, share=0.05, max_share=0.15, mean_s=0.09, max_mean_s=1.0)
    assert view.services(Scene(24).service(service_spec(asleep=1)).s, {})[0].budget is None, (
        "nobody asked yet"
    )


def test_the_card_shows_the_moves_that_were_measured_and_no_others() -> None:
    scene = seen()
    chat = scene.s.service("chat")
    assert chat is not None
    awake, asleep, stopped = chat.forms
    timed = replace(chat, forms=(awake, replace(asleep, enter_s=1.5, leave_s=0.5), stopped))
    (row,) = view.services(scene.put(timed).s, {})
    assert row.times == (TimesRow(form="asleep", down_s=1.5, back_s=0.5),)


def test_what_a_server_says_of_itself_is_shown_while_it_is_awake() -> None:
    engine = Engine(read=EngineRead(cache_share=0.25), read_s=T0_S, tokens_per_s=40.0)
    for form, shown in (("awake", True), ("asleep", False), ("stopped", False)):
        (row,) = view.services(Scene(24).service(service_spec(asleep=1), form, engine=engine).s, {})
        assert (row.engine is not None) is shown, form
