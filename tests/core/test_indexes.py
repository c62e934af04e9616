"""Whatever comes in, in whatever order: no fact or command breaks the records, and the indexes follow by themselves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core import fold, wishes
from headway.core.codec import from_doc, to_doc
from headway.core.commands import AddJob, AskLease, Claim, Configure, EndLease, MoveJob, RenewLease, SetWish
from headway.core.decide import decide
from headway.core.draft import Draft, is_present, lane_of
from headway.core.facts import (
    GateState,
    JobTold,
    LeaseGone,
    MeterSilent,
    MoveAnswered,
    Observed,
    RunSeen,
    StoreState,
)
from headway.core.model import Exit, Job, Lease, Service, Snapshot, Waiting
from tests.core.lease_scene import made
from tests.core.make import Scene, dev, gib, job_spec, reading, service_spec

pytestmark = pytest.mark.core

HOLDERS = ("chat", "code", "j1", "j2", "j3", "L1", "L2", "C3", "ghost")
FORMS = ("awake", "asleep", "running", "parked", "stopped", "granted", "revoked")


def indexes(s: Snapshot) -> tuple[Any, ...]:
    """All of them, made from nothing but the holders and the moves."""
    lanes: dict[str, list[tuple[float, str]]] = {}
    for holder in s.holders.values():
        if (lane := lane_of(holder, holder.id in s.pending)) and isinstance(holder, Job | Lease):
            lanes.setdefault(lane, []).append((holder.key, holder.id))
    present = sorted(h.id for h in s.holders.values() if is_present(h, h.id in s.pending))
    services = sorted(h.id for h in s.holders.values() if isinstance(h, Service))
    jobs = [h for h in s.holders.values() if isinstance(h, Job)]
    named: dict[str, set[str]] = {}
    for job in jobs:
        for word in {job.spec.name, job.recipe or job.spec.name}:
            named.setdefault(word, set()).add(job.id)
    return (
        tuple(present),
        tuple(services),
        tuple(sorted(h.id for h in s.holders.values() if isinstance(h, Lease))),
        named,
        {j.id for j in jobs if (j.spec.after or j.spec.after_ok) and j.started_s is None and j.ended is None},
        {lane: tuple(sorted(line)) for lane, line in lanes.items()},
    )


def check(s: Snapshot) -> None:
    queue = {lane: line for lane, line in s.queue.items() if line}
    named = {word: set(ids) for word, ids in s.named.items()}
    assert all(len(named[word]) == len(ids) for word, ids in s.named.items())
    assert (s.present, s.services, s.leases, named, s.followers, queue) == indexes(s)
    for holder in s.holders.values():
        if isinstance(holder, Job) and holder.ended:
            assert holder.form == holder.bottom and holder.id not in s.pending
            assert holder.wish != "cancel" or holder.ended == "cancelled"
        if isinstance(holder, Lease) and holder.ended is None and holder.form == holder.bottom:
            assert holder.id in s.pending or holder.granted_s is None  # nobody is let in a second time
        if holder.wish == "cancel" and holder.form == holder.bottom and holder.id not in s.pending:
            assert isinstance(holder, Job) and holder.ended == "cancelled"


ids = st.sampled_from(HOLDERS)
runs = st.builds(lambda hid, n: f"{hid}.{n}", ids, st.integers(1, 3))
times = st.sampled_from([-50.0, -1.0, 0.0, 0.5])  # from the turn's own time
facts = st.one_of(
    st.builds(
        lambda hid, n, alive, code: RunSeen(
            holder=hid,
            run_id=f"{hid}.{n}",
            lock_held=alive,
            pid=1,
            exit=None if code is None else Exit(code=code, at_s=1000.0),
            gone=not alive,
        ),
        ids,
        st.integers(1, 3),
        st.booleans(),
        st.sampled_from([None, 0, 1, -9]),
    ),
    st.builds(
        MoveAnswered,
        holder=ids,
        to=st.sampled_from(FORMS),
        run_id=st.one_of(st.none(), runs),
        error=st.sampled_from([None, None, "exited", "cannot_start"]),
        refused=st.booleans(),
    ),
    st.builds(
        Observed,
        holder=ids,
        at_s=st.sampled_from([1.0, 1e9]),
        form=st.sampled_from([None, "awake", "asleep", "stopped"]),
        ready=st.booleans(),
        engine_active=st.sampled_from([None, 0, 2]),
        down=st.booleans(),
    ),
    st.builds(
        GateState,
        service=ids,
        rev=st.integers(0, 6),
        closed=st.booleans(),
        pinning=st.integers(0, 2),
        active=st.sampled_from([None, 0, 1]),
        demand=st.dictionaries(
            st.sampled_from(["attended", "background"]),
            st.builds(Waiting, n=st.integers(0, 2), since_s=st.just(990.0)),
        ),
    ),
    st.builds(
        lambda held, ok: reading(
            "gpu0",
            24,
            0.0,
            {hid: gib(size) for hid, size in held.items() if size},
            **(dict[str, Any]() if ok else {"used_bytes": None, "free_bytes": None, "trouble": "N/A"}),
        ),
        st.dictionaries(ids, st.sampled_from([0, 1, 14])),
        st.sampled_from([True, True, True, False]),
    ),
    st.builds(MeterSilent, trouble=st.sampled_from([None, "hangs"])),
    st.builds(StoreState, ok=st.booleans()),
    st.builds(JobTold, job=ids, saved_age_s=st.sampled_from([None, 0.0])),
    st.builds(LeaseGone, lease=ids),
)
commands = st.one_of(
    st.builds(
        SetWish,
        target=ids,
        verb=st.sampled_from(
            ["hold", "release", "pause", "resume", "wind_down", "stop", "kill", "cancel", "retry"]
        ),
    ),
    st.builds(
        AddJob,
        spec=st.sampled_from(
            [job_spec(), job_spec(parked=1, retries=2), job_spec(count=0), job_spec("eval", after=("train",))]
        ),
        recipe=st.sampled_from([None, "night"]),
        hold=st.booleans(),
    ),
    st.builds(
        MoveJob,
        target=ids,
        where=st.sampled_from(["top", "bottom", "before", "after"]),
        other=st.one_of(st.none(), ids),
    ),
    st.just(Configure(services=(service_spec(),), recipes=())),
    st.sampled_from(
        [made(12), made(None, preemptible=True), made(1, pid=None, ttl_s=30.0, wait_limit_s=5.0)]
    ),
    st.builds(EndLease, target=ids, how=st.sampled_from(["released", "cancelled"])),
    st.builds(RenewLease, target=ids),
    st.builds(Claim, name=st.just("shell"), pid=st.sampled_from([1, 2]), block=st.booleans()),
)
COMMANDS = SetWish | AddJob | MoveJob | Configure | AskLease | EndLease | RenewLease | Claim
turns = st.lists(
    st.tuples(st.lists(st.one_of(facts, commands), max_size=4), st.booleans(), st.sampled_from([0.1, 20.0])),
    max_size=14,
)


@given(turns)
@settings(max_examples=300)
def test_any_sequence_of_facts_and_commands(sequence: list[tuple[list[Any], bool, float]]) -> None:
    scene = Scene(24).configure(service_spec(asleep=1), service_spec("code"))
    scene.queue(job_spec(parked=1))
    scene.queue(job_spec(retries=1))
    for lease in (made(12, preemptible=True), made(12, pid=None, ttl_s=60.0)):
        wishes.apply(draft := scene.draft(), lease)
        scene.s = draft.done()
    for entries, decides, after_s in sequence:
        draft = Draft(scene.s, scene.s.now_s + after_s)
        for entry in entries:
            _put_in(draft, entry)
        decision = decide(draft.view())
        if decides:
            fold.decided(draft, decision)
        scene.s = draft.done()
        check(scene.s)
        assert decision.recheck_at_s is None or decision.recheck_at_s > scene.s.now_s


def _put_in(draft: Draft, entry: Any) -> None:
    if isinstance(entry, COMMANDS):
        wishes.apply(draft, entry)
    elif hasattr(entry, "device"):
        fold.fold(draft, reading("gpu0", 24, draft.now_s, dict(entry.seen), trouble=entry.trouble))
    else:
        fold.fold(draft, entry)


@given(turns)
@settings(max_examples=60)
def test_what_is_saved_is_what_comes_back(sequence: list[tuple[list[Any], bool, float]]) -> None:
    scene = Scene(24).configure(service_spec(asleep=1))
    scene.queue(job_spec(parked=1))
    for entries, _, after_s in sequence:
        draft = Draft(scene.s, scene.s.now_s + after_s)
        for entry in entries:
            _put_in(draft, entry)
        fold.decided(draft, decide(draft.view()))
        scene.s = draft.done()
    for holder in scene.s.holders.values():
        assert from_doc(type(holder), to_doc(holder)) == holder
    for pending in scene.s.pending.values():
        assert from_doc(type(pending), to_doc(pending)) == pending


def test_a_draft_says_what_a_turn_changed() -> None:
    scene = Scene(24).service().job()
    draft = scene.draft()
    draft.put(scene.s.holders["train"])  # the same again is no change
    assert (draft.changed, draft.saved) == (set(), set())
    fold.fold(draft, JobTold(job="train", progress=0.5))
    assert (draft.changed, draft.saved) == ({"train"}, set())
    wishes.apply(draft, SetWish(target="train", verb="hold"))
    assert draft.saved == {"train"}
    fold.decided(draft, decide(draft.view()))
    draft.touch((dev("gpu0"), dev("nowhere")))
    assert draft.done().devices[dev("gpu0")].last_change_s == scene.s.now_s
