"""When a model is put aside for a job: what is expected of its requests, weighed with what a swap takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core import gaps
from headway.core.decide import decide
from headway.core.forecast import Answer, Forecast, Quiet
from headway.core.ledger import CLOSED, Knobs, Waits
from headway.core.model import Form, Job, Move, Policy, Service, Verdict, Waiting
from headway.core.pauses import Table
from headway.core.worth import Costs
from tests.core.make import T0_S, Scene, gib, job_spec, outlook, service_spec

pytestmark = pytest.mark.core

SLEEPS, PARKS = service_spec(asleep=1), job_spec(parked=1)


def regular(pause_s: float, count: int = 300) -> Quiet:
    """One conversation that has always come back after that long, and whose last answer ended now."""
    forecast = Forecast(Table({}))
    for n in range(count):
        at_s = n * (pause_s + 1.0)
        forecast.learn(Answer(arrived_s=at_s, ended_s=at_s + 1.0, conversation="c", finish=1, tokens=9))
    return forecast.quiet((count - 1) * (pause_s + 1.0) + 1.0)


def scene(seen: Any = None, job: Any = PARKS, service: Any = SLEEPS, **given: Any) -> Scene:
    found = Scene(24).service(service, **given).job(job, "stopped").read()
    return found.expecting("chat", seen) if seen is not None else found


def verdict(found: Scene) -> Verdict | None:
    job, chat = found.s.holders["train"], found.s.service("chat")
    assert isinstance(job, Job) and chat is not None
    return gaps.worth_it(job, (chat,), found.s)


def test_a_model_nobody_is_expected_at_is_put_aside_at_once() -> None:
    assert verdict(scene()) is None


def test_while_somebody_is_expected_back_the_job_waits_until_that_is_over() -> None:
    no = verdict(scene(outlook(regular(8.0), at_s=T0_S - 1.0), last_end_s=T0_S - 1.0))
    assert no is not None and no.code == "gap_too_short"
    assert no.until_s is not None and T0_S + 6.0 < no.until_s < T0_S + 16.0
    assert no.facts["talks"] == 1 and no.facts["gain_s"] > 0 and no.facts["quiet_s"] == 1.0


def test_a_gap_that_no_swap_fits_into_is_left_alone() -> None:
    no = verdict(scene(outlook(regular(8.0), price=1e5)))
    assert no is not None and (no.code, no.until_s) == ("gap_not_worth", None)


def test_where_the_caps_of_a_day_are_used_up_it_says_who_waited() -> None:
    waits = (Waits(), Waits(requests=120.0, waited=19.0, waited_s=70.0), Waits())
    no = verdict(scene(outlook(regular(8.0), price=CLOSED, waits=waits)))
    assert no is not None and no.code == "gap_promised"
    assert (no.facts["waited"], no.facts["requests"], no.facts["waited_s"]) == (19, 120, 70.0)
    asked = outlook(regular(8.0), price=CLOSED, knobs=Knobs(wait_price=CLOSED))
    assert (no := verdict(scene(asked))) is not None and no.code == "gap_not_worth", "a person set that price"


def test_a_moment_that_was_found_is_good_until_something_is_learned() -> None:
    assert verdict(scene(outlook(at_s=T0_S - 500.0))) is None


def test_a_moment_that_has_come_is_looked_at_anew_first() -> None:
    no = verdict(scene(outlook(regular(8.0), at_s=T0_S - 60.0)))
    assert no is not None and (no.code, no.until_s) == ("gap_too_short", T0_S + gaps.SOON_S)


UNREAD = {
    # name: (outlook, last end, code)
    "the log has told of its end": (outlook(heard_s=T0_S - 1.0), T0_S - 1.0, None),
    "or of one that ended at almost the same instant": (outlook(heard_s=T0_S - 1.2), T0_S - 1.0, None),
    "the log has not told of it": (outlook(heard_s=T0_S - 9.0), T0_S - 1.0, "gap_unread"),
    "nor of anything": (outlook(heard_s=None), T0_S - 1.0, "gap_unread"),
    "its line is lost": (outlook(heard_s=T0_S - 9.0), T0_S - gaps.UNHEARD_S, None),
    "nobody ever asked it": (outlook(heard_s=None), None, None),
    "it was being answered when that was made": (replace(outlook(), quiet=None), None, "gap_unread"),
}


@pytest.mark.parametrize(("seen", "last_end_s", "code"), UNREAD.values(), ids=UNREAD.keys())
def test_nobody_decides_on_an_answer_that_the_log_has_yet_to_tell_of(
    seen: Any, last_end_s: float | None, code: str | None
) -> None:
    no = verdict(scene(seen, last_end_s=last_end_s))
    assert (no and no.code) == code
    assert no is None or (no.until_s is not None and no.until_s > T0_S)


def test_a_person_who_wants_it_now_is_not_asked_what_it_is_worth() -> None:
    found = scene(outlook(regular(8.0), price=1e6))
    job = found.s.holders["train"]
    assert isinstance(job, Job)
    found.put(replace(job, rushed=True))
    assert verdict(found) is None


def test_quiet_is_never_shorter_than_it_was_said_to_be() -> None:
    found = scene(last_end_s=T0_S - 20.0).ruled(gap_min_s=60.0)
    no = verdict(found)
    assert no is not None and (no.code, no.until_s) == ("gap_too_short", T0_S + 40.0)
    assert verdict(found.ruled(gap_min_s=20.0)) is None


FORMS = (
    Form(name="awake", declared_bytes=gib(16)),
    Form(name="asleep", declared_bytes=gib(1), enter_s=3.0, leave_s=7.0),
    Form(name="stopped", leave_s=300.0),
)
JOB_FORMS = (
    Form(name="running", declared_bytes=gib(14)),
    Form(name="parked", declared_bytes=gib(1), enter_s=4.0, leave_s=5.0),
    Form(name="stopped", leave_s=6.0),
)


def swap(found: Scene, form: str = "stopped") -> Costs:
    job, chat = found.s.holders["train"], found.s.service("chat")
    assert chat is not None
    return gaps.costs(replace(job, form=form), (chat,), found.s)


def test_a_swap_takes_what_it_took_before() -> None:
    found = Scene(24).service(SLEEPS, forms=FORMS).job(PARKS, "stopped", forms=JOB_FORMS)
    expected = Costs(sleep_s=3.0, wake_s=7.0, resume_s=6.0, park_s=4.0)
    assert swap(found) == expected
    assert swap(found, "parked") == replace(expected, resume_s=5.0)


def test_what_was_never_measured_is_as_declared_or_else_a_guess() -> None:
    moves = tuple(replace(move, takes_s=9.0) if move.to == "asleep" else move for move in SLEEPS.moves)
    assert swap(scene()) == Costs()
    assert swap(scene(service=replace(SLEEPS, moves=moves))) == replace(Costs(), sleep_s=9.0)


ROOM = {
    # name: (GiB of the device, the job, is its park hidden?)
    "both fit side by side": (40, PARKS, True),
    "both would not fit": (24, PARKS, False),
    "both fit, and the reserve does not": (31, PARKS, False),
    "nobody knows what it takes": (40, job_spec(running=None, parked=1), False),
}


@pytest.mark.parametrize(("total", "job", "hidden"), ROOM.values(), ids=ROOM.keys())
def test_a_park_is_hidden_behind_the_wake_where_there_is_room_for_both(
    total: int, job: Any, hidden: bool
) -> None:
    found = Scene(total).service(SLEEPS).job(job, "stopped").read()
    assert swap(found).hides_park is hidden


@pytest.mark.parametrize(("total", "begins"), [(40, True), (24, False)])
def test_and_there_the_wake_begins_while_the_job_still_parks(total: int, begins: bool) -> None:
    asked = {"attended": Waiting(n=1, since_s=T0_S - 1.0)}
    found = Scene(total).service(SLEEPS, "asleep", demand=asked).job(PARKS)
    found.under_way("train", "running", "parked").read()
    moves = [action for action in decide(found.s).actions if isinstance(action, Move)]
    assert [(move.holder, move.form) for move in moves] == ([("chat", "awake")] if begins else [])


SAVES = {
    # name: (spec, what it keeps whole intervals of)
    "one that restarts from a saved point": (job_spec(saved=("show",)), 60.0),
    "one that parks loses nothing": (job_spec(parked=1, saved=("show",)), 0.0),
    "one that says nothing of saving": (job_spec(), 0.0),
}


@pytest.mark.parametrize(("spec", "every_s"), SAVES.values(), ids=SAVES.keys())
def test_one_that_would_lose_work_counts_whole_intervals_only(spec: Any, every_s: float) -> None:
    found = Scene(24).service(SLEEPS).job(spec, "stopped", saves_every_s=60.0)
    assert swap(found).saved_every_s == every_s


def test_a_gap_too_short_to_save_in_is_worth_nothing() -> None:
    """The same quiet, for a job that keeps all and for one that saves every ten minutes."""
    seen = outlook(regular(120.0), price=0.5)
    keeps, saves = job_spec(parked=1), job_spec(saved=("show",))
    assert verdict(scene(seen, keeps)) is None
    found = Scene(24).service(SLEEPS).job(saves, "stopped", saves_every_s=600.0).read()
    no = verdict(found.expecting("chat", seen))
    assert no is not None and no.code in ("gap_too_short", "gap_not_worth")


def test_each_service_may_have_its_own_price_and_caps() -> None:
    own = replace(SLEEPS, wait_price=9.0, max_waiting_share=0.5)
    found = scene(service=own).ruled(max_mean_wait_s=7.0, wait_price=2.0)
    chat = found.s.service("chat")
    assert isinstance(chat, Service)
    knobs = gaps.knobs(chat, found.s)
    assert (knobs.wait_price, knobs.max_mean_wait_s, knobs.max_waiting_share) == (9.0, 7.0, 0.5)


def test_it_is_told_when_a_gap_is_taken_with_what_is_expected_of_it() -> None:
    found = Scene(24, policy=Policy(max_active_jobs=1)).service(SLEEPS, last_end_s=T0_S - 9.0)
    found.job(PARKS, "stopped").read()
    decision = decide(found.s)
    assert decision.verdicts["chat"].code == "draining"
    draft = found.draft()
    gaps.taken(draft, "chat", "train")
    (event,) = draft.events
    assert (event.code, event.facts["job"], event.facts["quiet_s"]) == ("gap.taken", "train", 9.0)
    assert event.facts["costs"]["sleep_s"] == Costs().sleep_s and event.facts["gain_s"] > 0
    assert not any(isinstance(action, Move) for action in decision.actions)
