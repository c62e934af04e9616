"""A job that several models would have to step aside for: one curve over all of them, at the price of the dearest."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core import gaps
from headway.core.decide import decide
from headway.core.fold import decided
from headway.core.forecast import Quiet, all_quiet
from headway.core.ledger import CLOSED, Waits
from headway.core.model import Gate, Job, Service
from headway.core.outlook import Outlook
from headway.core.pauses import EDGES
from headway.core.phrases import sentence
from headway.core.worth import Costs
from tests.core.make import T0_S, Scene, job_spec, outlook, service_spec

pytestmark = pytest.mark.core

CHAT, EMBED = service_spec("chat", 8, asleep=1), service_spec("embed", 6, asleep=1)
TRAIN = job_spec(running=14, parked=1)
BOTH = ("chat", "embed")
OFTEN_S, SELDOM_S = 60.0, 6000.0  # means after which somebody asks


def mean(seconds: float) -> Quiet:
    """Somebody asks after so long on the mean, whoever has been quiet for however long."""
    return Quiet(shares=tuple(math.exp(-edge_s / seconds) for edge_s in EDGES), talks=1)


def scene(chat: Outlook, embed: Outlook, devices: int = 1) -> Scene:
    made = Scene(*[24.0] * devices).service(CHAT).service(EMBED, on=[f"gpu{devices - 1}"])
    return made.job(TRAIN, "stopped").read().expecting("chat", chat).expecting("embed", embed)


def test_a_swap_that_each_of_them_is_worth_may_not_be_worth_all_of_them() -> None:
    often = outlook(mean(OFTEN_S))
    found = scene(often, often)
    job, services = found.s.holders["train"], [found.s.service(sid) for sid in BOTH]
    assert isinstance(job, Job)
    for one in services:
        assert one is not None and gaps.worth_it(job, (one,), found.s) is None
    no = decide(found.s).verdicts["train"]
    assert (no.code, sorted(no.facts["services"])) == ("gap_not_worth", sorted(BOTH))
    said = sentence(no.code, no.facts, found.s)
    assert said.startswith("2 conversations could come back to ") and "chat" in said and "embed" in said
    assert not decide(found.s).asides


def test_where_each_has_a_device_the_job_takes_the_place_of_one() -> None:
    often = outlook(mean(OFTEN_S))
    assert len(decide(scene(often, often, devices=2).s).asides) == 1


def test_where_all_are_quiet_for_long_all_step_aside_and_it_is_told_with_what_it_costs_together() -> None:
    seldom = outlook(mean(SELDOM_S))
    found = scene(seldom, seldom)
    for one in [x for sid in BOTH if (x := found.s.service(sid))]:
        found.put(replace(one, gate=Gate(wish="closed", closed=True, rev=2)))
    decision = decide(found.s)
    assert decision.asides == dict.fromkeys(BOTH, "train")
    draft = found.draft()
    decided(draft, decision)
    (event,) = [one for one in draft.events if one.code == "gap.taken"]  # one sleep at a time
    assert event.holder in BOTH and sorted(event.facts["services"]) == sorted(BOTH)
    assert event.facts["costs"]["sleep_s"] == 2 * Costs().sleep_s
    assert event.facts["costs"]["wake_s"] == 2 * Costs().wake_s
    assert event.facts["costs"]["park_s"] == Costs().park_s, "the job moves once"
    alone = found.draft()
    gaps.taken(alone, event.holder or "", "train")
    assert event.facts["gain_s"] < alone.events[0].facts["gain_s"]


def test_the_dearest_names_the_price_and_says_who_waited_for_it() -> None:
    waits = (Waits(), Waits(requests=120.0, waited=19.0, waited_s=70.0), Waits())
    chat, embed = outlook(mean(SELDOM_S), price=5.0), outlook(mean(SELDOM_S), price=CLOSED, waits=waits)
    found = scene(chat, embed)
    job, services = found.s.holders["train"], [found.s.service(sid) for sid in BOTH]
    assert isinstance(job, Job)
    no = gaps.worth_it(job, [x for x in services if isinstance(x, Service)], found.s)
    assert no is not None and (no.code, no.facts["service"], no.facts["waited"]) == (
        "gap_promised",
        "embed",
        19,
    )


def test_an_answer_of_any_of_them_that_is_not_read_yet_is_waited_for() -> None:
    seldom = outlook(mean(SELDOM_S))
    found = scene(seldom, outlook(None))  # type: ignore[arg-type]
    no = decide(found.s).verdicts["train"]
    assert (no.code, no.facts["service"]) == ("gap_unread", "embed")


def test_of_several_outlooks_the_newest_says_when_and_those_who_wait_are_counted_together() -> None:
    chat = outlook(mean(OFTEN_S), at_s=T0_S - 30.0, price=5.0, follower_s=2.0)
    embed = outlook(mean(OFTEN_S), at_s=T0_S - 10.0, price=7.0, follower_s=3.0)
    all_ = gaps.together([chat, embed])
    assert (all_.at_s, all_.price, all_.follower_s) == (T0_S - 10.0, 7.0, 5.0)
    assert gaps.together([chat]) is chat


curves = st.lists(st.floats(0.0, 3.0), min_size=len(EDGES) - 1, max_size=len(EDGES) - 1).map(
    lambda falls: Quiet(
        shares=tuple(math.exp(-sum(falls[:at])) for at in range(len(EDGES))), talks=len(falls) % 7
    )
)


@given(curves, curves, st.floats(0.0, 1e5), st.floats(0.0, 1e5))
def test_more_models_never_make_quiet_likelier(
    one: Quiet, other: Quiet, one_old_s: float, other_old_s: float
) -> None:
    both = all_quiet((one, one_old_s), (other, other_old_s))
    alone = all_quiet((one, one_old_s))
    assert both.shares[0] == pytest.approx(1.0)
    assert all(0.0 <= share <= 1.0 for share in both.shares)
    assert all(a >= b - 1e-12 for a, b in zip(both.shares, both.shares[1:], strict=False)), "it falls"
    assert all(b <= a + 1e-12 for a, b in zip(alone.shares, both.shares, strict=True))
    assert both.talks == one.talks + other.talks


def test_a_curve_that_is_older_is_moved_on() -> None:
    quiet = mean(SELDOM_S)
    old = all_quiet((quiet, 500.0))
    for edge_s, share in zip(EDGES[:60], old.shares, strict=False):
        assert share == pytest.approx(quiet.at(500.0 + edge_s) / quiet.at(500.0), rel=1e-9)
    assert all_quiet((quiet, 0.0)).shares == pytest.approx(quiet.shares)
