"""Holding the whole queue: by hand, and by a daemon that crashed again and again."""

from __future__ import annotations

import json

import pytest

from headway.core import queue_hold, view
from headway.core.commands import HoldQueue, SetWish
from headway.core.decide import decide
from headway.core.draft import Draft
from headway.core.model import Policy, QueueHold, Waiting
from tests.core.lease_scene import asked, settled
from tests.core.make import Scene, job_spec, service_spec
from tests.core.test_rules import NOW_S, PARKS, SLEEPS, stays, verdict, with_mode
from tests.core.test_wishes import says

pytestmark = pytest.mark.core

BY_ADA = QueueHold(by="ada", since_s=NOW_S - 60.0)
ASKED = {"attended": Waiting(n=1, since_s=NOW_S - 1)}
COMES = {
    # name: (scene, holder, code)
    "no job starts": (Scene(24).job(form="stopped"), "train", "queue_held"),
    "nor does one without a device": (
        Scene(24).job(job_spec(running=0, count=0), "stopped"),
        "train",
        "queue_held",
    ),
    "nor does one go on from where it parked": (Scene(24).job(PARKS, "parked"), "train", "queue_held"),
    "one that runs goes on": (Scene(24).job(), "train", "keeps"),
    "a model that is asked for is woken": (Scene(24).service(SLEEPS, "asleep", demand=ASKED), "chat", "goes"),
    "and one that is stopped is started": (Scene(24).service(form="stopped", demand=ASKED), "chat", "goes"),
    "a job makes room for it": (
        Scene(24).job(PARKS).service(service_spec(), "stopped", demand=ASKED),
        "train",
        "made_room",
    ),
}


@pytest.mark.parametrize("name", COMES)
def test_who_comes(name: str) -> None:
    scene, hid, expected = COMES[name]
    assert verdict(with_mode(scene, queue_hold=BY_ADA), hid).code == expected


def test_a_lease_is_granted() -> None:
    scene = with_mode(Scene(24), queue_hold=BY_ADA)
    assert settled(scene, asked(scene)).code == "goes"


def test_nobody_leaves_for_it() -> None:
    assert stays(with_mode(Scene(24).job(), queue_hold=BY_ADA), "train") is None


def test_it_is_held_and_released_by_name_and_said_twice_it_changes_nothing() -> None:
    scene, found = Scene(24), []
    hid = scene.queue()
    for on, by in ((True, "ada"), (True, "bob"), (False, "bob"), (False, "ada")):
        assert says(scene, HoldQueue(on=on, by=by)).accepted
        found.append(
            (scene.s.queue_hold.by if scene.s.queue_hold else None, decide(scene.s).verdicts[hid].code)
        )
    assert found == [("ada", "queue_held"), ("ada", "queue_held"), (None, "goes"), (None, "goes")]


@pytest.mark.parametrize("verb", ["release", "start", "hold"])
def test_no_verb_on_a_job_releases_the_queue(verb: str) -> None:
    scene = with_mode(Scene(24).job(form="stopped"), queue_hold=BY_ADA)
    assert says(scene, SetWish(target="train", verb=verb)).accepted  # type: ignore[arg-type]
    assert not decide(scene.s).actions and scene.s.queue_hold == BY_ADA


def test_people_see_it() -> None:
    scene = with_mode(Scene(24).job(form="stopped"), queue_hold=BY_ADA)
    board = view.overview(scene.s, {})
    assert board.queue_held_by == "ada" and "queue_held" not in [one.code for one in board.troubles]
    crashed = with_mode(scene, queue_hold=QueueHold(by="headway", since_s=NOW_S, crashes=5))
    board = view.overview(crashed.s, {})
    assert "queue_held" in [one.code for one in board.troubles]
    why = view.explain("train", crashed.s, decide(crashed.s).verdicts)
    assert (why.code, why.help) == ("queue_held", "headway queue release") and "5 times" in why.sentence
    assert view.outlook(crashed.s, decide(crashed.s).verdicts).next is None


# ---------------------------------------------------------------- crash loops

FIVE = Policy(crash_starts=5, crash_within_s=600.0)


def lives(*starts: tuple[float, bool], policy: Policy = FIVE) -> tuple[Scene, list[str]]:
    """Daemons that begin at these instants; with each, whether the one before it crashed."""
    scene, codes = Scene(24, policy=policy), []
    for at_s, crashed in starts:
        draft = Draft(scene.s, at_s)
        queue_hold.started(draft, crashed)
        codes += [event.code for event in draft.events]
        scene.s = draft.done()
    return scene, codes


def every(step_s: float, n: int) -> list[tuple[float, bool]]:
    return [(NOW_S + step_s * number, True) for number in range(n)]


LOOPS = {
    # name: (lives, is it held after the last of them?)
    "five crashes in ten minutes": (lives(*every(149.0, 5)), True),
    "five that are spread over more": (lives(*every(150.1, 5)), False),
    "four": (lives(*every(1.0, 4)), False),
    "four, and one that was told to end": (lives(*every(1.0, 4), (NOW_S + 9, False)), False),
    "one that was told to end between them begins the count anew": (
        lives(*every(1.0, 4), (NOW_S + 9, False), *every(1.0, 4)),
        False,
    ),
    "people who restart it": (lives(*((NOW_S + n, False) for n in range(50))), False),
    "0 is never": (lives(*every(0.1, 50), policy=Policy(crash_starts=0)), False),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_crash_loop_holds_the_queue(name: str) -> None:
    (scene, codes), held = LOOPS[name]
    assert (scene.s.queue_hold is not None) is held
    assert codes == (["daemon.crash_loop"] if held else [])


def test_it_is_told_once_and_stays_until_it_is_released_by_name() -> None:
    scene, codes = lives(*every(1.0, 9), (NOW_S + 100.0, False))
    assert codes == ["daemon.crash_loop"] and scene.s.queue_hold is not None
    assert (scene.s.queue_hold.by, scene.s.queue_hold.crashes) == ("headway", 5)
    assert says(scene, HoldQueue(on=False, by="ada")).accepted
    assert scene.s.queue_hold is None and scene.s.crashes == ()


def test_a_queue_that_a_person_holds_stays_the_persons() -> None:
    scene = with_mode(Scene(24, policy=FIVE), queue_hold=BY_ADA)
    for at_s, _ in every(1.0, 9):
        draft = Draft(scene.s, at_s)
        queue_hold.started(draft, True)
        assert not draft.events
        scene.s = draft.done()
    assert scene.s.queue_hold == BY_ADA
    assert json.dumps(scene.s.crashes)
