"""Leases in shadow mode, where nobody waits and the wait is recorded; and what is said of one that was not let in."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from headway.core import fold, phrases, view, wishes
from headway.core.commands import Claim, EndLease, SetMode
from headway.core.decide import decide
from tests.core.lease_scene import GPU, asked, held, made, of, put, told, turn, verdict
from tests.core.make import T0_S, Scene, gib, job_spec, service_spec

pytestmark = pytest.mark.core


def shadow(scene: Scene) -> Scene:
    scene.s = replace(scene.s, mode="shadow")
    return scene


def recorded(scene: Scene) -> list[str]:
    draft = scene.draft()
    fold.decided(draft, decide(draft.view()))
    scene.s = draft.done()
    return [event.code for event in draft.events]


def test_where_there_is_room_the_wait_is_none() -> None:
    scene = shadow(Scene(24))
    lid = asked(scene, 12)
    assert recorded(scene) == ["lease.would"] and of(scene, lid).would_s == 0.0
    assert (of(scene, lid).form, of(scene, lid).ended) == ("revoked", None)
    assert recorded(scene) == [], "once"


def test_the_wait_ends_when_it_would_have_been_let_in() -> None:
    scene = Scene(24)
    first = held(scene, 20)
    shadow(scene)
    lid = asked(scene, 12, wait_limit_s=0.0)
    assert recorded(scene) == [] and of(scene, lid).would_s is None
    why = view.explain(lid, scene.s, decide(scene.s).verdicts)
    assert (why.code, why.facts["because"]) == ("shadow", "not_preemptible") and first in why.sentence
    scene.at(T0_S + 40.0)
    put(scene, first, form="revoked", seen_bytes={}, ended="gone", ended_s=T0_S + 40.0)
    assert recorded(scene) == ["lease.would"] and of(scene, lid).would_s == 40.0
    assert view.lease_row(of(scene, lid), scene.s, decide(scene.s).verdicts).would_s == 40.0


def test_nobody_is_told_to_go_in_shadow_mode_whatever_it_would_wait() -> None:
    scene = Scene(24)
    held(scene, 20)
    shadow(scene)
    lid = asked(scene, 12, wait_limit_s=0.0)
    scene.at(T0_S + 3600.0).read()
    assert turn(scene) == () and of(scene, lid).ended is None
    told(scene, SetMode(mode="live"))
    assert turn(scene) == () and of(scene, lid).ended == "waited_out"


def test_what_would_push_a_model_aside_pushes_nobody() -> None:
    scene = shadow(Scene(24).service(service_spec(awake=16), last_end_s=T0_S - 100.0))
    lid = asked(scene, 20)
    assert turn(scene) == () and scene.s.holders["chat"].form == "awake" and of(scene, lid).would_s == 0.0


def test_its_own_bytes_are_its_own_in_shadow_mode() -> None:
    scene = shadow(Scene(24))
    lid = asked(scene, 12)
    put(scene, lid, seen_bytes={GPU: gib(12)}, devices=(GPU,))
    other = asked(scene, 16)
    assert verdict(scene, other).facts.get("because") in ("memory", "memory_now")


# ---------------------------------------------------------------- not let in


def test_one_that_is_not_let_in_is_told_who_is_there_for_how_long_and_its_number() -> None:
    scene = Scene(24)
    first = held(scene, 20, expires_s=T0_S + 600.0)
    asked(scene, 12, wait_limit_s=None)
    lid = told(scene, made(12, wait_limit_s=0.0, pid=5001)).holder or ""
    assert turn(scene) == ()
    facts = view.explain(lid, scene.s, {}).facts
    assert (facts["because"], facts["holder"], facts["held_s"], facts["in_s"], facts["position"]) == (
        "not_preemptible",
        first,
        400.0,
        600.0,
        2,
    )
    scene.at(T0_S + 50.0)
    assert view.explain(lid, scene.s, {}).facts["in_s"] == 600.0, "as it was then"


@pytest.mark.parametrize("beside", [False, True])
def test_one_that_a_claim_keeps_off_is_told_so_whoever_else_is_there(beside: bool) -> None:
    scene = Scene(24)
    if beside:
        scene.job(job_spec("train", running=2, placement="share"))
    told(scene, Claim(name="notebook", pid=77, block=True))
    assert verdict(scene, asked(scene, 2)).code == "blocked"


LEFT = {
    # name: (mode, was it granted, did it give its place in line up)
    "while it waited": ("live", False, True),
    "with a device": ("live", True, False),
    "in shadow mode, where its program ran without a grant": ("shadow", False, False),
}


@pytest.mark.parametrize(("mode", "granted", "gave_up"), LEFT.values(), ids=LEFT.keys())
def test_one_that_leaves_before_it_had_anything_gave_nothing_back(
    mode: Literal["live", "shadow"], granted: bool, gave_up: bool
) -> None:
    scene = Scene(24)
    scene.s = replace(scene.s, mode=mode)
    lid = held(scene, 12) if granted else asked(scene, 12)
    draft = scene.draft()
    assert wishes.apply(draft, EndLease(target=lid)).accepted
    scene.s = draft.done()
    (event,) = [one for one in draft.events if one.code == "lease.ended"]
    assert (event.facts["how"], event.facts.get("gave_up", False)) == ("released", gave_up)
    if granted:  # its memory is measured first
        return
    why = view.explain(lid, scene.s, {})
    assert (why.code, why.facts.get("gave_up", False)) == ("released", gave_up)
    plain = {key: value for key, value in why.facts.items() if key != "gave_up"}
    assert why.sentence.endswith(phrases.sentence(why.code, plain, scene.s)) is not gave_up
    words = [phrases.told(event.code, lid, {**event.facts, "gave_up": one}) for one in (gave_up, False)]
    assert (words[0] != words[1]) is gave_up
