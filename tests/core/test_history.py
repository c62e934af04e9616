"""What the log told of each service: each line once, in whatever order, whatever clock is set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from headway.core.answers import logged
from headway.core.history import Histories, History
from headway.core.ledger import Waits
from headway.core.model import Policy, Service, Verdict, Window
from headway.core.outlook import Outlook
from headway.core.pauses import Table
from tests.core.make import T0_S, Scene, service_spec

pytestmark = pytest.mark.core

WALL_S = 1.7e9
Row = dict[str, Any]


def row(at_s: float, waited_s: float = 0.0, took_s: float = 2.0, **changed: Any) -> Row:
    """As a gate writes it."""
    found: Row = {
        "id": "x", "service": "chat", "class": "attended", "demand": True, "status": 200, "held": waited_s > 0,
        "waited_s": waited_s, "sent_after_s": waited_s, "took_s": took_s + waited_s, "at_s": at_s,
        "wall_s": at_s + WALL_S, "boot": "b1", "conversation": "c", "finish": "tool_calls", "output_tokens": 40,
    }  # fmt: skip
    if waited_s:
        found["waited_for"] = "aside"
    return found | changed


def histories(rows: Sequence[Row] = (), doc: Any = None, **given: Any) -> Histories:
    made = Histories(Table({}), given.get("boot", "b1"), T0_S, T0_S + WALL_S, doc)
    for one in rows:
        made.learn(one)
    return made


def chat(found: Histories) -> History:
    return found.of["chat"]


DAY = [row(40.0 * n, waited_s=3.0 if n % 9 == 0 else 0.0, conversation=f"c{n % 3}") for n in range(200)]

LEFT_OUT = {
    "of another class": {"class": "background"},
    "that concerned no model": {"demand": False},
    "without a time": {"at_s": None},
    "with a time that is none": {"took_s": float("nan")},
    "that lasted less than nothing": {"took_s": -1.0},
    "of nobody": {"service": None, "boot": None, "demand": None},
    "cut in its head": {"id": None, "service": None, "class": None},
}


@pytest.mark.parametrize("changed", LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_a_line_is_left_out(changed: Row) -> None:
    assert logged(row(5.0) | changed) is None


def test_a_line_without_a_word_that_is_needed_is_left_out() -> None:
    for name in ("service", "boot", "at_s", "wall_s", "took_s"):
        assert logged({key: value for key, value in row(5.0).items() if key != name}) is None


def test_one_that_was_never_sent_tells_only_that_it_ended() -> None:
    found = chat(histories([row(5.0), row(50.0, waited_s=9.0, sent_after_s=None)]))
    assert found.ledger.total() == Waits(requests=1.0)
    assert found.heard_s == pytest.approx(50.0 + 11.0 + WALL_S)


def test_waiting_for_a_place_is_no_matter_of_sleep() -> None:
    found = chat(histories([row(5.0, waited_s=9.0, waited_for="place")]))
    assert found.ledger.total() == Waits(requests=1.0)


def test_waits_in_a_slow_wake_window_are_charged_to_nobody() -> None:
    found = chat(histories([row(5.0), row(50.0, waited_s=9.0, window="slow_wake")]))
    assert found.ledger.total() == Waits(requests=1.0)
    assert found.apart.total() == Waits(requests=1.0, waited=1.0, waited_s=9.0)


def test_those_behind_the_first_of_a_wake_are_told_apart_from_it() -> None:
    wakes = [[row(900.0 * n, 5.0), row(900.0 * n + 2.0, 3.0), row(900.0 * n + 4.0, 1.0)] for n in range(300)]
    found = chat(histories([one for wake in wakes for one in wake]))
    assert found.ledger.follower_s == pytest.approx(4.0, rel=0.05)
    backwards = chat(histories([one for wake in wakes for one in reversed(wake)]))
    assert backwards.ledger.follower_s == pytest.approx(found.ledger.follower_s)


def test_a_wake_without_anybody_behind_counts_too() -> None:
    rows = [row(900.0 * n, 5.0) for n in range(9)] + [row(9000.0, 5.0), row(9001.0, 4.0)]
    lone = chat(histories([*rows, row(19000.0, 5.0)])).ledger.follower_s
    assert 0 < lone < 4.0 / 50


def test_lines_of_a_moment_in_another_order_make_almost_the_same_history() -> None:
    swapped = [*DAY]
    for at in range(0, len(swapped) - 1, 2):
        swapped[at], swapped[at + 1] = swapped[at + 1], swapped[at]
    one, other = chat(histories(DAY)), chat(histories(swapped))
    assert one.ledger.total() == other.ledger.total() and one.heard_s == other.heard_s
    now_s = one.heard_s or 0.0
    pairs = zip(one.forecast.quiet(now_s).shares, other.forecast.quiet(now_s).shares, strict=True)
    assert max(abs(a - b) for a, b in pairs) < 0.05


def test_a_wall_clock_that_is_set_moves_nothing() -> None:
    """Neither forth nor back: of a boot the first line says where its clock stands."""
    jumps = [one | {"wall_s": one["wall_s"] + (5000.0 if n > 50 else -300.0)} for n, one in enumerate(DAY)]
    jumps[0] = DAY[0]
    assert histories(jumps).to_doc() == histories(DAY).to_doc()


def test_a_history_goes_on_over_a_boot_of_the_machine() -> None:
    """The clock of the boot begins at zero; the pause from one boot to the next is as the wall clock says."""
    before = [row(100.0), row(160.0)]
    after = [row(10.0, boot="b2") | {"wall_s": WALL_S + 1000.0}]
    found = chat(histories([*before, *after]))
    assert found.heard_s == pytest.approx(WALL_S + 1002.0)
    assert sum(map(sum, map(dict.values, found.forecast.pauses.to_doc().values()))) == pytest.approx(
        2.0, rel=0.01
    )


def test_what_is_saved_comes_back_and_goes_on_the_same() -> None:
    half = histories(DAY[:100])
    doc = json.loads(json.dumps(half.to_doc()))
    again = histories(DAY[100:], doc)
    whole = histories(DAY)
    one, other = chat(again), chat(whole)
    assert one.ledger.to_doc() == other.ledger.to_doc() and one.lines == other.lines == 200
    now_s = one.heard_s or 0.0
    assert one.forecast.quiet(now_s).shares == pytest.approx(other.forecast.quiet(now_s).shares, rel=1e-3)


# ---------------------------------------------------------------- what the rules see


def looked(found: Histories, scene: Scene, verdicts: Any = None) -> Outlook:
    draft = scene.draft()
    found.look(draft, verdicts or {})
    scene.s = draft.done()
    return scene.s.outlooks["chat"]


def quiet_scene(**given: Any) -> Scene:
    """Nothing is expected yet: the outlook of makers is taken away."""
    scene = Scene(24).service(service_spec(asleep=1), **given)
    scene._s = replace(scene.s, outlooks={})
    return scene


def test_an_outlook_lasts_while_all_are_silent() -> None:
    found, scene = histories([row(900.0)]), quiet_scene()
    first = looked(found, scene)
    assert first.quiet is not None and (first.at_s, first.heard_s) == (T0_S, 902.0)
    assert looked(found, scene.at(T0_S + 50.0)) is first


CHANGES = {
    "a line": lambda found, scene: found.learn(row(990.0)),
    "a rule": lambda found, scene: scene.ruled(wait_price=9.0),
    "its own rule": lambda found, scene: scene.put(
        replace(scene.s.holders["chat"], spec=service_spec(asleep=1, wait_price=9.0))
    ),
    "a window": lambda found, scene: setattr(
        scene, "s", replace(scene.s, windows=(Window(id="w", kind="slow_wake", begin_s=0.0, end_s=1e9),))
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_it_is_made_anew_when_something_changed(change: Any) -> None:
    found, scene = histories([row(900.0)]), quiet_scene()
    first = looked(found, scene)
    change(found, scene.at(T0_S + 1.0))
    again = looked(found, scene)
    assert again is not first and again.at_s == T0_S + 1.0


def test_it_is_made_anew_when_a_moment_that_somebody_waits_for_has_come() -> None:
    found, scene = histories([row(900.0)]), quiet_scene()
    first = looked(found, scene)
    waits = {"train": Verdict(code="gap_too_short", facts={"services": ("chat",)}, until_s=T0_S + 5.0)}
    assert looked(found, scene.at(T0_S + 4.0), waits) is first
    assert looked(found, scene.at(T0_S + 5.0), waits).at_s == T0_S + 5.0


def test_nothing_is_said_of_quiet_while_somebody_is_answered() -> None:
    found, scene = histories([row(900.0)]), quiet_scene(active=1)
    assert looked(found, scene).quiet is None
    chat = scene.s.holders["chat"]
    assert isinstance(chat, Service)
    scene.put(replace(chat, active=0))
    assert looked(found, scene).quiet is not None


def test_the_price_rises_with_the_waits_of_the_day_and_not_in_a_slow_wake_window() -> None:
    waits = [row(4.5 * n, waited_s=8.0) for n in range(200)]
    found, scene = histories(waits), quiet_scene()
    seen = looked(found, scene)
    assert seen.price > 100 * Policy().wait_price
    assert [one.requests for one in seen.waits] == [200.0, 200.0, 200.0] and seen.waits[0].share == 1.0
    scene.s = replace(scene.s, windows=(Window(id="w", kind="slow_wake", begin_s=0.0, end_s=1e9),))
    assert looked(found, scene).price == 1.0


def test_of_a_service_that_is_gone_nothing_is_seen() -> None:
    found, scene = histories([row(900.0)]), quiet_scene()
    looked(found, scene)
    draft = scene.draft()
    draft.drop("chat")
    scene._s = draft.done()
    draft = scene.draft()
    found.look(draft, {})
    assert draft.done().outlooks == {}
