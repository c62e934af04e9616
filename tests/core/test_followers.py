"""What becomes of a job that follows one which did not end well, or never ran."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from headway.core import ends, rules, wishes
from headway.core.commands import AddJob, SetWish
from headway.core.decide import decide
from headway.core.fit import Plan
from headway.core.model import Ended, Job, JobSpec, Move, Rank, Want
from tests.core.make import T0_S, Scene, job_spec
from tests.core.scenes import Picks, deep, picks

pytestmark = pytest.mark.core

ENDS: dict[str, tuple[str, Ended, bool, str]] = {
    # name: (field of the follower, how A ended, did A run, wish of the follower then)
    "after_ok and A done": ("after_ok", "done", True, "run"),
    "after_ok and A failed": ("after_ok", "failed", True, "hold"),
    "after_ok and A lost": ("after_ok", "lost", True, "hold"),
    "after and A failed": ("after", "failed", True, "run"),
    "after and A cancelled while it ran": ("after", "cancelled", True, "run"),
    "after and A cancelled before it ran": ("after", "cancelled", False, "hold"),
}


def follower(field: str) -> JobSpec:
    return job_spec("b", after=("a",)) if field == "after" else job_spec("b", after_ok=("a",))


def followed(field: str) -> Scene:
    scene = Scene(24)
    scene.queue(job_spec("a"))
    scene.queue(follower(field))
    return scene


def over(scene: Scene, hid: str, how: Ended, ran: bool) -> None:
    """That job ends like this, and who follows it hears of it."""
    draft = scene.draft()
    job = draft.holders[hid]
    assert isinstance(job, Job)
    started_s = T0_S - 9.0 if ran else job.started_s
    draft.put(replace(job, ended=how, ended_s=scene.s.now_s, started_s=started_s))
    ends.hold_followers(draft, hid)
    scene.s = draft.done()


def asks(scene: Scene, verb: Any, hid: str) -> bool:
    """A person's word about a job; was it taken?"""
    draft = scene.draft()
    reply = wishes.apply(draft, SetWish(target=hid, verb=verb, by="anna"))
    scene.s = draft.done()
    return reply.accepted


def waits_in_vain(scene: Scene) -> list[str]:
    """Jobs in line whose turn cannot come, whatever ends from now on."""
    found = []
    for holder in scene.s.holders.values():
        if not isinstance(holder, Job) or holder.ended or holder.wish != "run":
            continue
        want = Want(holder=holder, form=holder.top, rank=(Rank.JOB, holder.key, holder.id))
        no = rules.after(want, Plan(scene.s), scene.s)
        if no is not None and no.code in ("after_gone", "after_failed"):
            found.append(f"{holder.id}: {no}")
    return found


@pytest.mark.parametrize(("field", "how", "ran", "wish"), ENDS.values(), ids=ENDS.keys())
def test_a_follower_is_held_when_it_may_not_start(field: str, how: Ended, ran: bool, wish: str) -> None:
    scene = followed(field)
    draft = scene.draft()
    a = draft.holders["j1"]
    assert isinstance(a, Job)
    draft.put(replace(a, ended=how, started_s=1.0 if ran else None))
    ends.hold_followers(draft, "j1")
    assert draft.holders["j2"].wish == wish
    assert [event.code for event in draft.events] == (["job.held"] if wish == "hold" else [])


def test_cancelling_a_queued_job_holds_what_follows_it() -> None:
    scene = followed("after")
    draft = scene.draft()
    wishes.apply(draft, SetWish(target="j1", verb="cancel", by="anna"))
    held = draft.holders["j2"]
    assert (held.wish, held.wish_by, held.note) == ("hold", "headway", "after_gone")
    assert draft.done().queue["held"] == ((held.key, "j2"),)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("field", "how", "ran", "wish"), ENDS.values(), ids=ENDS.keys())
def test_one_that_is_added_after_that_end_is_treated_as_one_that_was_there(
    field: str, how: Ended, ran: bool, wish: str
) -> None:
    scene = Scene(24)
    scene.queue(job_spec("a"))
    over(scene, "j1", how, ran)
    draft = scene.draft()
    reply = wishes.apply(draft, AddJob(spec=follower(field)))
    scene.s = draft.done()
    assert (reply.accepted, reply.facts["held"]) == (True, wish == "hold")
    assert scene.s.holders["j2"].wish == wish


LOST = {name: case for name, case in ENDS.items() if case[3] == "hold"}


@pytest.mark.parametrize(("field", "how", "ran", "_"), LOST.values(), ids=LOST.keys())
def test_who_releases_a_held_follower_lets_it_go_without_what_is_lost(
    field: str, how: Ended, ran: bool, _: str
) -> None:
    scene = followed(field)
    over(scene, "j1", how, ran)
    assert asks(scene, "release", "j2")
    moves = [a.holder for a in decide(scene.read().s).actions if isinstance(a, Move)]
    assert (waits_in_vain(scene), moves) == ([], ["j2"])


@pytest.mark.parametrize("added", ["before", "after"])
def test_one_that_has_the_name_of_what_it_follows_does_not_follow_itself(added: str) -> None:
    scene = Scene(24)
    scene.queue(job_spec("a"))
    if added == "after":
        over(scene, "j1", "failed", True)
    scene.at(T0_S + 1.0).queue(job_spec("a", after_ok=("a",)))
    if added == "before":
        over(scene, "j1", "failed", True)
    assert (scene.s.holders["j2"].wish, waits_in_vain(scene)) == ("hold", [])


def test_only_what_is_lost_is_let_go() -> None:
    scene = Scene(24)
    for name in ("a", "c"):
        scene.queue(job_spec(name))
    scene.queue(job_spec("b", after_ok=("a", "c"), after=("a",)))
    over(scene, "j1", "failed", True)
    asks(scene, "release", "j3")
    spec = scene.s.holders["j3"].spec
    assert isinstance(spec, JobSpec)
    assert (spec.after, spec.after_ok) == (("a",), ("c",))
    assert decide(scene.s).verdicts["j3"].code == "after"


def lived(pick: Picks) -> Scene:
    """A queue in which jobs follow each other, end in every way, and people change their minds."""
    scene = Scene(24)
    for number in range(30):
        scene.at(scene.s.now_s + 1.0)
        jobs = [job for job in scene.s.holders.values() if isinstance(job, Job)]
        what = pick(["add", "end", "ask"]) if jobs else "add"
        if what == "add":
            words = tuple({pick([job.id, job.spec.name]) for job in jobs if pick([False, False, True])})
            how: dict[str, Any] = {pick(["after", "after_ok"]): words}
            spec = job_spec(f"n{number % 7}", **how)
            scene.queue(spec, hold=pick([False, False, True]))
            continue
        hid = pick([job.id for job in jobs])
        job = scene.s.holders[hid]
        if what == "ask":
            asks(scene, pick(["hold", "release", "cancel", "retry", "resume", "stop"]), hid)
        elif isinstance(job, Job) and job.ended is None and job.wish == "run":
            over(scene, hid, pick(["done", "failed", "lost", "cancelled"]), True)
        assert waits_in_vain(scene) == [], (number, what, hid)
    return scene


@given(picks)
@deep(150)
def test_nobody_ever_waits_in_line_for_what_cannot_be(pick: Picks) -> None:
    lived(pick)
