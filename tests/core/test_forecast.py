"""Who could come back: what the curve does whatever the history was."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.config.pauses import shipped
from headway.core.forecast import Answer, Forecast, Quiet
from headway.core.pauses import BINS, EDGES, GONE_S, Pauses, Table, bin_of, kind_of

pytestmark = pytest.mark.core

answers = st.lists(
    st.builds(
        lambda arrived_s, took_s, conversation, finish, tokens: Answer(
            arrived_s=arrived_s,
            ended_s=arrived_s + took_s,
            conversation=conversation,
            finish=finish,
            tokens=tokens,
        ),
        st.floats(0, 40_000),
        st.floats(0, 300),
        st.sampled_from([None, "a", "b", "c", "d"]),
        st.integers(0, 2),
        st.sampled_from([0, 40, 200, 4000]),
    ),
    max_size=40,
)


def told(history: list[Answer]) -> Forecast:
    forecast = Forecast(shipped())
    for one in history:
        forecast.learn(one)
    return forecast


@settings(max_examples=40, deadline=None)
@given(answers, st.floats(0, 60_000))
def test_the_curve_begins_at_one_and_falls(history: list[Answer], now_s: float) -> None:
    shares = told(history).quiet(now_s).shares
    assert len(shares) == len(EDGES)
    assert shares[0] == pytest.approx(1.0)
    assert all(a >= b >= 0 for a, b in pairwise(shares))


@settings(max_examples=30, deadline=None)
@given(answers, st.floats(0, 3000))
def test_one_more_conversation_never_makes_quiet_likelier(history: list[Answer], ago_s: float) -> None:
    """It is told of one that answered at another instant, so that nothing is learned but that it is there."""
    now_s = max([one.ended_s for one in history], default=0.0) + ago_s
    fewer, more = told(history), told(history)
    more._talks["one more"] = next(
        iter(told([Answer(arrived_s=now_s, ended_s=now_s, finish=2)])._talks.values())
    )
    pairs = zip(fewer.quiet(now_s).shares, more.quiet(now_s).shares, strict=True)
    assert all(b <= a + 1e-12 for a, b in pairs)


@settings(max_examples=30, deadline=None)
@given(answers)
def test_what_is_saved_comes_back_the_same(history: list[Answer]) -> None:
    forecast = told(history)
    again = Forecast.from_doc(shipped(), json.loads(json.dumps(forecast.to_doc())))
    assert again.quiet(41_000).shares == pytest.approx(forecast.quiet(41_000).shares, rel=0.02)
    assert again.quiet(41_000).talks == forecast.quiet(41_000).talks


def test_what_is_saved_of_a_long_history_is_small() -> None:
    rng = random.Random(1)
    history, at_s = [], 0.0
    for number in range(20_000):
        at_s += rng.expovariate(0.05)
        one = Answer(
            arrived_s=at_s,
            ended_s=at_s + 2,
            conversation=str(number % 400 * rng.randint(1, 3)),
            finish=rng.randint(0, 2),
            tokens=rng.choice((50, 300, 900)),
        )
        history.append(one)
    assert len(json.dumps(told(history).to_doc())) < 120_000


def test_an_unknown_answer_of_no_known_conversation_falls_back_to_one_histogram() -> None:
    forecast = told([Answer(arrived_s=100.0 * n, ended_s=100.0 * n + 1) for n in range(200)])
    doc = forecast.to_doc()
    assert set(doc["pauses"]) == {"u0", "u1"}
    assert len(doc["talks"]) == 1
    assert forecast.quiet(199 * 100 + 1).at(60) > 0.8  # nothing but pauses of 99 s was ever seen
    assert forecast.quiet(199 * 100 + 1).at(150) < 0.2


def test_lines_out_of_order_teach_no_pause() -> None:
    rows = [
        Answer(arrived_s=t, ended_s=t + 5, conversation="a", finish=1, tokens=50) for t in (0.0, 20.0, 40.0)
    ]
    swapped = told([rows[0], rows[2], rows[1]])
    assert sum(sum(row.values()) for row in swapped.to_doc()["pauses"].values()) == pytest.approx(1, abs=0.01)
    assert swapped.to_doc()["talks"][0][1] == 45.0


def test_a_clock_that_jumps_back_leaves_who_could_come_back() -> None:
    forecast = told([Answer(arrived_s=5000.0, ended_s=5001.0, conversation="a", finish=1, tokens=10)])
    assert forecast.quiet(100.0).shares == forecast.quiet(5001.0).shares


def test_who_was_silent_for_four_hours_is_gone() -> None:
    forecast = told([Answer(arrived_s=0, ended_s=1, conversation="a", finish=1, tokens=10)])
    assert forecast.quiet(GONE_S).talks == 1
    assert forecast.quiet(GONE_S + 1).talks == 0
    forecast.learn(Answer(arrived_s=GONE_S + 2, ended_s=GONE_S + 3, conversation="b", finish=1, tokens=10))
    assert forecast.to_doc()["pauses"] == {"100": {"95": pytest.approx(1.0, abs=1e-3)}}


def test_its_own_log_outweighs_the_shipped_table() -> None:
    pauses = Pauses(shipped())
    kind = "112"
    before = pauses.log_shares(kind)[bin_of(1000.0)]
    for _ in range(300):
        pauses.add(kind, 2000.0)
    after = pauses.log_shares(kind)[bin_of(1000.0)]
    assert before < -2 and after > -0.2


def test_a_table_with_other_bins_is_refused() -> None:
    with pytest.raises(ValueError, match="95 bins"):
        Table({"100": [1] * (BINS - 1)})


KINDS = {
    "tool call, short, no pace yet": ((1, 149, None, 9), "100"),
    "one token more is larger": ((1, 150, None, 9), "110"),
    "end of turn, long, slowest": ((2, 500, 3.0, 9), "225"),
    "a pace just below the next": ((2, 499, 1.4999, 9), "211"),
    "unknown finish with tokens": ((0, 10, None, 9), "000"),
    "nothing known, three requests": ((0, 0, 2.0, 3), "u0"),
    "nothing known, four requests": ((0, 0, 2.0, 4), "u1"),
    "nothing known, sixty-one": ((0, 0, 2.0, 61), "u3"),
}


@pytest.mark.parametrize(("known", "kind"), KINDS.values(), ids=KINDS.keys())
def test_kinds(known: tuple[int, int, float | None, int], kind: str) -> None:
    assert kind_of(*known) == kind


def test_the_curve_is_read_between_its_edges() -> None:
    quiet = Quiet(shares=tuple(1 - i / BINS for i in range(BINS + 1)), talks=1)
    assert quiet.at(0.25) == pytest.approx(1 - 0.5 / BINS)
    assert quiet.at(10 * EDGES[-1]) == quiet.shares[-1]
    assert quiet.lasting_s(0.5) == EDGES[BINS // 2]
