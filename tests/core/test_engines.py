"""Figures of a model server, out of what it counts: rates of what came since, never of what is not known."""

from dataclasses import replace

import pytest

from headway.core.engines import EVERY_S, LONGEST_S, Engine, EngineRead, EngineRow, engine_row, news, told

pytestmark = pytest.mark.core

READ = EngineRead(
    tokens=100.0, first_n=4.0, first_s=2.0, cache_share=0.5, prefix_tokens=80.0, prefix_hits=20.0
)
KNOWN = Engine(read=READ, read_s=1000.0)


def later(seconds: float = 10.0, before: Engine = KNOWN, **changes: float | None) -> Engine:
    found = told(before, replace(READ, **changes), 1000.0 + seconds)
    assert found is not None
    return found


def test_tokens_a_second_and_the_first_token_are_those_since_the_last_look() -> None:
    found = later(tokens=400.0, first_n=6.0, first_s=2.5)
    assert (found.tokens_per_s, found.first_token_s) == (30.0, 0.25)


def test_while_nothing_is_answered_the_rate_is_nothing_and_the_first_token_stays_known() -> None:
    busy = later(tokens=400.0, first_n=6.0, first_s=2.5)
    idle = told(busy, busy.read, busy.read_s + 10.0)
    assert idle is not None and (idle.tokens_per_s, idle.first_token_s) == (0.0, 0.25)


def test_the_first_look_tells_what_all_first_tokens_took_and_no_rate() -> None:
    found = told(None, READ, 1000.0)
    assert found is not None and (found.tokens_per_s, found.first_token_s) == (None, 0.5)


def test_a_server_that_began_anew_counts_anew() -> None:
    found = later(tokens=30.0, first_n=1.0, first_s=0.1)
    assert (found.tokens_per_s, found.first_token_s) == (None, 0.1)


def test_over_a_long_silence_there_is_no_rate() -> None:
    assert later(LONGEST_S + 1.0, tokens=400.0).tokens_per_s is None
    assert later(LONGEST_S, tokens=400.0).tokens_per_s == 300.0 / LONGEST_S


def test_where_tokens_are_counted_when_an_answer_is_whole_the_rate_is_the_one_within_it() -> None:
    slow = Engine(read=EngineRead(tokens=0.0, busy_s=0.0), read_s=1000.0)
    found = told(slow, EngineRead(tokens=5000.0, busy_s=100.0), 1005.0)
    assert found is not None and found.tokens_per_s == 50.0
    idle = told(found, found.read, 1020.0)
    assert idle is not None and idle.tokens_per_s == 50.0, "still what its last answers were like"


NEWS = {
    # name: (before, read, seconds later, is it told)
    "the first look": (None, READ, 0.0, True),
    "a driver without figures": (KNOWN, None, 60.0, False),
    "no figures, ever": (None, None, 60.0, False),
    "the same": (KNOWN, READ, 60.0, False),
    "another": (KNOWN, replace(READ, tokens=101.0), EVERY_S, True),
    "another, too soon": (KNOWN, replace(READ, tokens=101.0), EVERY_S - 0.1, False),
    "the same, but a rate is still shown": (replace(KNOWN, tokens_per_s=3.0), READ, EVERY_S, True),
    "the same, and the rate is nothing by now": (replace(KNOWN, tokens_per_s=0.0), READ, EVERY_S, False),
}


@pytest.mark.parametrize(("before", "read", "seconds", "is_told"), NEWS.values(), ids=NEWS.keys())
def test_only_news_are_told_and_not_more_often_than_every_few_seconds(
    before: Engine | None, read: EngineRead | None, seconds: float, is_told: bool
) -> None:
    assert news(before, read, 1000.0 + seconds) is is_told


def test_a_look_soon_after_another_changes_nothing() -> None:
    assert told(KNOWN, replace(READ, tokens=101.0), 1000.0 + EVERY_S / 2) is KNOWN
    assert told(KNOWN, None, 2000.0) is KNOWN


def test_what_a_server_does_not_say_is_not_known() -> None:
    assert engine_row(None) is None
    assert engine_row(told(None, EngineRead(), 0.0)) is None
    assert engine_row(told(None, EngineRead(prefix_tokens=0.0, prefix_hits=0.0), 0.0)) is None
    assert engine_row(KNOWN) == EngineRow(
        tokens_per_s=None, first_token_s=None, cache_share=0.5, prefix_hit_share=0.25
    )
