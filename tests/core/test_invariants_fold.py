"""What facts may never do: change anybody they are not about, count twice, or weaken what was asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core import fold, wishes
from headway.core.commands import SetWish
from headway.core.decide import decide
from headway.core.draft import Draft
from headway.core.facts import (
    DeviceRead,
    Fact,
    GateState,
    GateStuck,
    JobTold,
    MeterSilent,
    MoveAnswered,
    Observed,
    RunSeen,
    StoreState,
)
from headway.core.lifecycle import REVIVING, STRENGTH
from headway.core.model import Exit, Job, Service, Snapshot, Waiting
from tests.core.make import Scene, dev, gib, job_spec, reading, service_spec
from tests.core.messes import mess_of
from tests.core.scenes import Picks, deep, picks
from tests.core.test_indexes import indexes

pytestmark = pytest.mark.core

VERBS: tuple[Any, ...] = ("hold", "pause", "wind_down", "stop", "kill", "cancel")
GHOSTS = ("ghost", "s9", "j9")
FACTS_MAX = 6


# ---------------------------------------------------------------- facts that fit the scene


def fact_about(pick: Picks, scene: Scene, hid: str) -> Fact:
    """Something that may well be told of this holder, or of one of that name that is not there."""
    s, now_s = scene.s, scene.s.now_s
    holder, pending = s.holders.get(hid), s.pending.get(hid)
    run_ids = [f"{hid}.1", f"{hid}.2"]
    if holder is not None and holder.run:
        run_ids.insert(0, holder.run.id)
    if pending is not None and pending.run_id:
        run_ids.insert(0, pending.run_id)
    kind = pick(["run", "run", "answer", "observed", "gate", "told", "stuck"])
    if kind == "run":
        alive = pick([False, False, True])
        exit_ = None if alive else pick([Exit(code=0, at_s=now_s), Exit(code=1, at_s=now_s - 30.0), None])
        return RunSeen(
            holder=hid,
            run_id=pick(run_ids),
            lock_held=alive,
            pid=pick([4711, None]),
            exit=exit_,
            gone=not alive,
        )
    if kind == "answer":
        to = pending.to if pending is not None else pick(["awake", "running", "stopped"])
        error = pick([None, None, "exited", "cannot_start"])
        return MoveAnswered(
            holder=hid,
            to=to,
            run_id=pick([*run_ids[:1], None]),
            error=error,
            refused=pick([False, False, True]),
        )
    if kind == "observed":
        return Observed(
            holder=hid,
            at_s=now_s - pick([0.0, 500.0]),
            form=pick(["awake", "asleep", "stopped", None]),
            ready=pick([True, False]),
            engine_active=pick([0, None, 2]),
            down=pick([False, True]),
        )
    if kind == "gate":
        rev = holder.gate.rev if isinstance(holder, Service) else 1
        return GateState(
            service=hid,
            rev=rev + pick([0, 0, 1]),
            closed=pick([True, False]),
            pinning=pick([0, 1]),
            active=pick([0, 1, None]),
            demand=pick([{}, {"attended": Waiting(n=1, since_s=now_s - 5.0)}]),
            last_end_s=pick([None, now_s - 1.0]),
        )
    if kind == "told":
        return JobTold(job=hid, saved_point=pick([None, "p"]), saved_age_s=pick([None, 0.0]))
    return GateStuck(service=hid, gate="g1")


def read_of(pick: Picks, scene: Scene) -> DeviceRead:
    """A reading of one device: everybody who stands there with what he has, or a little more, or nothing."""
    name = pick(sorted(scene.totals))
    held = {
        hid: holder.seen_bytes.get(dev(name), 0) + pick([0, 0, gib(1)]) if pick([True, True, False]) else 0
        for hid, holder in sorted(scene.s.holders.items())
        if dev(name) in holder.devices
    }
    seen = {hid: bytes_ for hid, bytes_ in held.items() if bytes_}
    return reading(name, scene.totals[name], scene.s.now_s + pick([0.0, 0.5, -1.0]), seen, pick([0, gib(2)]))


def telling(pick: Picks, scene: Scene, of: list[str]) -> list[Fact]:
    facts: list[Fact] = []
    for _ in range(pick(range(1, FACTS_MAX))):
        about_a_device = of != list(GHOSTS) and pick([True, False, False])
        facts.append(read_of(pick, scene) if about_a_device else fact_about(pick, scene, pick(of)))
    return facts


def told(s: Snapshot, facts: list[Fact], after_s: float = 0.0) -> Draft:
    draft = Draft(s, s.now_s + after_s)
    for fact in facts:
        fold.fold(draft, fact)
    return draft


tellings = picks.map(
    lambda pick: (scene := mess_of(pick), telling(pick, scene, sorted(scene.s.holders) or list(GHOSTS)))
)


# ---------------------------------------------------------------- strangers


@given(tellings, picks)
@deep(180)
def test_facts_about_strangers_change_nothing_wherever_they_come(
    telling_: tuple[Scene, list[Fact]], pick: Picks
) -> None:
    scene, facts = telling_
    mixed = list(facts)
    for _ in range(3):
        mixed.insert(pick(range(len(mixed) + 1)), fact_about(pick, scene, pick(GHOSTS)))
    plain, with_ghosts = told(scene.s, facts), told(scene.s, mixed)
    assert with_ghosts.done() == plain.done()
    assert with_ghosts.events == plain.events and with_ghosts.saved == plain.saved


@given(tellings)
@deep(120)
def test_a_fact_about_one_holder_leaves_all_others_as_they_were(telling_: tuple[Scene, list[Fact]]) -> None:
    scene, facts = telling_
    for fact in facts:
        if isinstance(fact, DeviceRead):
            continue
        about = {getattr(fact, name) for name in ("holder", "service", "job") if hasattr(fact, name)}
        after = told(scene.s, [fact]).done()
        for hid, holder in after.holders.items():
            if hid in about:
                continue
            before = scene.s.holders[hid]
            followers = isinstance(holder, Job) and holder.wish == "hold" and holder.note is not None
            assert followers or holder == before
            assert after.pending.get(hid) == scene.s.pending.get(hid)


# ---------------------------------------------------------------- once is as good as twice


@given(tellings)
@deep(180)
def test_a_fact_told_twice_counts_once(telling_: tuple[Scene, list[Fact]]) -> None:
    scene, facts = telling_
    for fact in facts:
        if isinstance(fact, GateStuck):
            continue  # each is a new try that failed
        once, twice = told(scene.s, [fact]), told(scene.s, [fact, fact])
        assert twice.done() == once.done(), fact
        if not isinstance(fact, MoveAnswered):  # a driver answers once
            assert twice.events == once.events, fact


@given(tellings)
@deep(120)
def test_an_end_told_again_later_is_no_second_end(telling_: tuple[Scene, list[Fact]]) -> None:
    scene, facts = telling_
    for fact in facts:
        if not isinstance(fact, RunSeen):
            continue
        once = told(scene.s, [fact]).done()
        again = told(once, [fact], after_s=30.0)
        before, after = once.holders.get(fact.holder), again.holders.get(fact.holder)
        if before is None or after is None:
            continue
        fields = ["form", "wish", "devices", "failures", "retry_at_s", "since_s"]
        fields += ["ended", "ended_s", "attempts_left", "ran_s"] if isinstance(after, Job) else []
        assert {f: getattr(after, f) for f in fields} == {f: getattr(before, f) for f in fields}
        assert [event.code for event in again.events if event.code != "release.verified"] == []


# ---------------------------------------------------------------- indexes


@given(tellings, st.booleans())
@deep(180)
def test_the_indexes_are_what_they_would_be_made_anew(
    telling_: tuple[Scene, list[Fact]], decides: bool
) -> None:
    scene, facts = telling_
    draft = told(scene.s, [])
    for fact in facts:
        fold.fold(draft, fact)
        assert kept(draft.view()) == indexes(draft.view())
    if decides:
        fold.decided(draft, decide(draft.view()))
    assert kept(draft.done()) == indexes(draft.done())


def kept(s: Snapshot) -> tuple[Any, ...]:
    queue = {lane: line for lane, line in s.queue.items() if line}
    named = {word: set(ids) for word, ids in s.named.items()}
    return s.present, s.services, s.leases, named, set(s.followers), queue


# ---------------------------------------------------------------- wishes


@given(picks)
@deep(180)
def test_a_wish_only_grows_stronger(pick: Picks) -> None:
    scene = mess_of(pick)
    for _ in range(5):
        if not scene.s.holders:
            return
        hid, verb = pick(sorted(scene.s.holders)), pick(VERBS)
        before = scene.s.holders[hid].wish
        draft = scene.draft()
        reply = wishes.apply(draft, SetWish(target=hid, verb=verb))
        scene.s = draft.done()
        after = scene.s.holders[hid].wish
        assert STRENGTH.index(after) >= STRENGTH.index(before)
        assert reply.accepted or after == before


@given(tellings)
@deep(180)
def test_no_fact_weakens_a_wish_but_by_fulfilling_it(telling_: tuple[Scene, list[Fact]]) -> None:
    scene, facts = telling_
    for fact in facts:
        before, scene.s = scene.s, told(scene.s, [fact]).done()
        for hid, holder in scene.s.holders.items():
            was = before.holders[hid].wish
            if holder.wish == was:
                continue
            fulfilled = was in ("stop", "kill", "wind_down", "pause") and holder.wish == "hold"
            held = was == "run" and holder.wish == "hold"  # after failed starts, or behind one that failed
            assert fulfilled or held, (was, holder.wish)
            if fulfilled:
                assert holder.form != holder.top and hid not in scene.s.pending


@given(tellings)
@deep(120)
def test_nothing_brings_back_what_was_cancelled(telling_: tuple[Scene, list[Fact]]) -> None:
    scene, facts = telling_
    for holder in list(scene.s.holders.values()):
        if isinstance(holder, Job) and holder.form != holder.bottom:
            scene.put(replace(holder, wish="cancel"))
    cancelled = [hid for hid, holder in scene.s.holders.items() if holder.wish == "cancel"]
    for fact in facts:
        draft = told(scene.s, [fact])
        for hid in cancelled:
            for verb in REVIVING:
                assert not wishes.apply(draft, SetWish(target=hid, verb=verb)).accepted  # type: ignore[arg-type]
        scene.s = draft.done()
    for hid in cancelled:
        assert scene.s.holders[hid].wish == "cancel"
        begun = [move for move in decide(scene.s).actions if getattr(move, "holder", None) == hid]
        assert not [move for move in begun if not getattr(move, "frees", True)]


# ---------------------------------------------------------------- the two silences


@pytest.mark.parametrize("fact", [MeterSilent(trouble="hangs"), StoreState(ok=False)], ids=["meter", "store"])
def test_a_silence_changes_no_holder(fact: Fact) -> None:
    scene = Scene(24).service(service_spec(asleep=1)).job(job_spec(parked=1), "stopped").read()
    after = told(scene.s, [fact]).done()
    assert after.holders == scene.s.holders and after.devices == scene.s.devices
