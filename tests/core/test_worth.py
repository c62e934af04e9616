"""Is a gap worth a swap: what holds for every curve, and a few that can be worked out by hand."""

from __future__ import annotations

import json
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.forecast import Quiet
from headway.core.ledger import CLOSED, DAY_S, HOUR_S, HOURS, LEAST_REQUESTS, Knobs, Ledger, price
from headway.core.pauses import EDGES
from headway.core.worth import Costs, best_moment

pytestmark = pytest.mark.core

curves = st.lists(st.floats(0.3, 1.0), min_size=len(EDGES), max_size=len(EDGES)).map(
    lambda steps: Quiet(shares=tuple(math.prod(steps[1 : i + 1]) for i in range(len(EDGES))), talks=1)
)
costs = st.builds(
    Costs,
    sleep_s=st.floats(0.1, 60),
    wake_s=st.floats(0.1, 60),
    resume_s=st.floats(0.1, 60),
    park_s=st.floats(0.1, 60),
    saved_every_s=st.sampled_from([0.0, 60.0, 600.0]),
    hides_park=st.booleans(),
    abandons_sleep=st.booleans(),
)


def exponential(mean_s: float) -> Quiet:
    return Quiet(shares=tuple(math.exp(-edge_s / mean_s) for edge_s in EDGES), talks=1)


@settings(max_examples=100, deadline=None)
@given(curves, costs, st.floats(0, 100), st.floats(0, 30))
def test_gain_and_wait_are_never_below_zero(
    quiet: Quiet, costs: Costs, price: float, behind_s: float
) -> None:
    moment = best_moment(quiet, costs, price, behind_s)
    assert moment.gain_s >= 0 and moment.wait_s >= -1e-9
    assert (moment.after_s is None) == (moment.gain_s == 0)


@settings(max_examples=100, deadline=None)
@given(curves, costs, st.floats(0, 100), st.floats(0, 100))
def test_a_higher_price_never_sleeps_sooner(quiet: Quiet, costs: Costs, low: float, more: float) -> None:
    cheap, dear = best_moment(quiet, costs, low), best_moment(quiet, costs, low + more)
    if dear.after_s is not None:
        assert cheap.after_s is not None
        assert dear.after_s >= cheap.after_s


def test_a_quiet_that_is_sure_is_slept_through_at_once() -> None:
    quiet = Quiet(shares=(1.0,) * len(EDGES), talks=0)
    moment = best_moment(quiet, Costs(), 4.0)
    assert moment.now
    assert moment.gain_s == pytest.approx(EDGES[-1] - 12.75, rel=1e-3)
    assert moment.wait_s == pytest.approx(4.5)


def test_a_quiet_shorter_than_a_swap_is_never_slept_through() -> None:
    assert best_moment(exponential(3.0), Costs(), 4.0).after_s is None


def test_the_gain_of_an_exponential_quiet_is_its_mean_after_the_swap() -> None:
    moment = best_moment(exponential(3600.0), Costs(), 4.0)
    assert moment.now
    assert moment.gain_s == pytest.approx(3600 * math.exp(-12.75 / 3600), rel=0.01)


def test_a_job_that_keeps_whole_intervals_only_gains_less() -> None:
    whole = best_moment(exponential(900.0), Costs(saved_every_s=600.0), 0.0)
    begun, kept = math.exp(-12.75 / 900), math.exp(-600 / 900)
    assert whole.gain_s == pytest.approx(600 * begun * kept / (1 - kept), rel=0.03)
    assert whole.gain_s < best_moment(exponential(900.0), Costs(), 0.0).gain_s


WAITS = {
    "as sleep begins": (Costs(), 0.0, 13.5),
    "half-way into sleep": (Costs(), 5.5, 8.0),
    "as the job resumes": (Costs(), 11.0, 1.75 + 4.5),
    "while it works": (Costs(), 100.0, 4.5),
    "while it works, beside its park": (Costs(hides_park=True), 100.0, 2.5),
    "a long park hides the wake": (Costs(hides_park=True, park_s=9.0), 100.0, 9.0),
    "a sleep called off half-way": (Costs(abandons_sleep=True), 5.5, 1.25),
}


@pytest.mark.parametrize(("costs", "into_s", "wait_s"), WAITS.values(), ids=WAITS.keys())
def test_waits(costs: Costs, into_s: float, wait_s: float) -> None:
    assert costs.wait_s(into_s) == pytest.approx(wait_s)


@settings(max_examples=40, deadline=None)
@given(costs, st.floats(5, 5000))
def test_the_expected_wait_is_what_waits_say(costs: Costs, mean_s: float) -> None:
    """Summed over the curve itself, at the moment that was chosen."""
    quiet = exponential(mean_s)
    moment = best_moment(quiet, costs, 0.0)
    if not moment.now:
        return
    steps, total = 1000, 0.0
    until_s = costs.swap_s()
    for n in range(steps):
        a, b = until_s * n / steps, until_s * (n + 1) / steps
        total += (quiet.at(a) - quiet.at(b)) * costs.wait_s((a + b) / 2)
    total += quiet.at(until_s) * costs.wait_s(until_s)
    assert moment.wait_s == pytest.approx(total, rel=0.03, abs=0.02)


KNOWN_S = -72 * HOUR_S  # the first requests so long ago: its days are known, and nothing is to come


def known(made: Ledger, at_s: float) -> Ledger:
    """With the first requests, after which the promise is kept."""
    for _ in range(1000):
        made.count(at_s, 0.0)
    return made


def ledger(requests: int, waited: int, wait_s: float, first_s: float | None = KNOWN_S) -> Ledger:
    made = Ledger() if first_s is None else known(Ledger(), first_s)
    for n in range(requests):
        made.count(0.0, wait_s if n < waited else 0.0)
    return made


PRICES = {
    "nothing known": (Ledger(), 4.0),
    "well below both caps": (ledger(1000, 50, 4.0), 4.0),
    "at six tenths of the share": (ledger(1000, 89, 0.1), 4.0),
    "near the share": (ledger(1000, 145, 0.1), 4 * math.e**5),
    "at the share": (ledger(1000, 150, 0.1), CLOSED),
    "at the mean": (ledger(1000, 100, 10.0), CLOSED),
    "one in three of few requests": (ledger(6, 2, 4.0), 4.0),
    "sixteen of few requests": (ledger(20, 15, 0.1), CLOSED),
    "all of the first ones": (ledger(80, 80, 4.0, None), 4.0),
    "many of the first ones": (ledger(300, 149, 0.1, None), 4 * math.e**5),
    "as many of them as may be of a thousand": (ledger(300, 150, 0.1, None), CLOSED),
}


@pytest.mark.parametrize(("found", "expected"), PRICES.values(), ids=PRICES.keys())
def test_price(found: Ledger, expected: float) -> None:
    assert price(Knobs(), found, 0.0) == pytest.approx(expected, rel=0.35)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 200)), max_size=60),
    st.floats(1, 100),
    st.floats(0, 86400),
)
def test_the_caps_only_ever_raise_the_price(
    rows: list[tuple[float, float]], own: float, later_s: float
) -> None:
    made = Ledger()
    for at_s, wait_s in rows:
        made.count(at_s, max(0.0, wait_s - 100))
    assert price(Knobs(wait_price=own), made, 100 + later_s) >= own


class Hopeless(Ledger):
    """Expects that no request will come any more."""

    def least(self) -> list[float]:
        return [0.0] * (HOURS + 1)


def waited_whenever_allowed(rng: random.Random, made: Ledger, at_s: float) -> list[tuple[float, float]]:
    """Requests that wait whenever the price allows it and chance wants it; none has followers."""
    rows, eager, slow_s = [], rng.choice((0.2, 0.5, 1.0)), rng.choice((700, 700, 700, 9000))
    for _ in range(400):
        at_s += rng.uniform(600, slow_s)
        wants = rng.random() < eager
        wait_s = 4.5 if wants and price(Knobs(), made, at_s) < CLOSED else 0.0
        made.count(at_s, wait_s)
        made.followers = 0.0
        rows.append((at_s, wait_s))
    return rows


@pytest.mark.parametrize("seed", range(6))
def test_no_24_hours_after_the_first_pass_a_cap_whatever_comes(seed: int) -> None:
    made = known(Hopeless(), KNOWN_S)
    rows = waited_whenever_allowed(random.Random(seed), made, 0.0)
    assert sum(wait_s > 0 for _, wait_s in rows) > 30
    for i, (begun_s, _) in enumerate(rows):
        day = [wait_s for at_s, wait_s in rows[i:] if at_s < begun_s + DAY_S]
        n = max(LEAST_REQUESTS, len(day))
        assert sum(one > 0 for one in day) <= 0.15 * n and sum(day) <= 1.0 * n


def test_of_the_first_thousand_requests_no_more_wait_than_may_of_a_thousand() -> None:
    made, waited = Ledger(), [0]
    for n in range(1300):
        waits = price(Knobs(), made, 20.0 * n) < CLOSED
        made.count(20.0 * n, 0.1 if waits else 0.0)
        made.followers = 0.0
        waited.append(waited[-1] + waits)
    assert waited[150] == waited[1000] == 150
    assert waited[1300] - waited[1000] <= 0.15 * 300


def test_the_thousandth_request_ends_what_counts_as_a_thousand_in_the_middle_of_ten_minutes() -> None:
    made, waited = Ledger(), 0
    for n in range(1040):
        waits = n >= 990 and price(Knobs(), made, float(n)) < CLOSED
        made.count(float(n), 0.1 if waits else 0.0)
        made.followers = 0.0
        waited += waits and n >= 1000
    assert waited == 15


def test_one_day_promises_no_requests() -> None:
    made = Ledger()
    for hour in range(2 * HOURS + 1):
        made.count(hour * HOUR_S, 0.0)
        if hour == HOURS + 3:
            assert made.least()[HOURS] == 0
    assert made.least()[HOURS] == HOURS


def test_requests_that_are_sure_to_come_leave_room_for_more_waiting() -> None:
    steady, silent = Ledger(), known(Ledger(), 0.0)
    for n in range(4 * 24 * 60):
        steady.count(60.0 * n, 0.0)
    now_s = 60.0 * 4 * 24 * 60
    for made in (steady, silent):
        for n in range(200):
            made.count(now_s + n, 0.1 if n % 4 == 0 else 0.0)
    assert price(Knobs(), silent, now_s + 200) == CLOSED
    assert price(Knobs(), steady, now_s + 200) == 4.0


def test_days_unlike_one_another_promise_few_requests() -> None:
    even, odd = Ledger(), Ledger()
    for hour in range(24 * 8):
        for n in range(10):
            even.count(hour * HOUR_S + n, 0.0)
        for n in range(20 if hour // 24 % 2 else 3):
            odd.count(hour * HOUR_S + n, 0.0)
    assert even.least()[12] == pytest.approx(120)
    assert odd.least()[12] == 0


def test_waiting_of_the_day_before_raises_no_price() -> None:
    assert price(Knobs(), ledger(1000, 900, 9.0), 26 * HOUR_S) == 4.0


def test_the_ledger_comes_back_as_it_was_saved() -> None:
    made = ledger(50, 10, 2.0)
    made.count(5 * HOUR_S, 3.0)
    made.woken(2.0)
    again = Ledger.from_doc(json.loads(json.dumps(made.to_doc())))
    for one in (made, again):
        one.count(5 * HOUR_S - 1, 3.0)  # one that comes late
        one.count(5 * HOUR_S + 1, 0.0)
    assert again.to_doc() == made.to_doc()
    assert Ledger.from_doc(Ledger().to_doc()).to_doc() == Ledger().to_doc()
    assert (again.over(5 * HOUR_S, 1).requests, again.over(5 * HOUR_S, 24).requests) == (3, 53)
    assert again.total().share == pytest.approx(12 / 1053)
