"""A changed config: what is new comes, what is gone leaves, what runs goes on as it was started."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core import wishes
from headway.core.commands import AddJob, Configure, Reply, SetMode
from headway.core.decide import decide
from headway.core.model import (
    Action,
    CloseGate,
    Gate,
    Holder,
    Job,
    JobSpec,
    Move,
    OpenGate,
    Policy,
    Run,
    Service,
    ServiceSpec,
    Waiting,
)
from tests.core.make import PROCESS, Scene, dev, gib, job_spec, service_spec

pytestmark = pytest.mark.core

GPU = (dev("gpu0"),)
RUN = Run(id="train.1", lock_held=True, pid=7)


def apply(scene: Scene, *services: ServiceSpec, jobs: tuple[JobSpec, ...] = (), **given: Any) -> Reply:
    draft = scene.draft()
    command = Configure(services=services, recipes=tuple((job, False) for job in jobs), **given)
    reply = wishes.apply(draft, command)
    scene.s = draft.done()
    return reply


def done(scene: Scene) -> tuple[Action, ...]:
    """What is decided now."""
    return decide(scene.s).actions


def named(scene: Scene, hid: str) -> Any:
    return scene.s.holders[hid]


def stopped(scene: Scene, hid: str) -> None:
    """It came to the bottom of its ladder."""
    holder = named(scene, hid)
    scene.put(replace(holder, form=holder.bottom, devices=(), seen_bytes={}))


# ---------------------------------------------------------------- services

RUNNING_KEEPS = {
    # name: (changes, taken at once?)
    "its names": ({"models": ("a", "b")}, True),
    "its limits": ({"max_active": 3, "queue_max": 7}, True),
    "its times": ({"idle_ttl_s": 5.0, "min_residency_s": 1.0, "stop_grace_s": 3.0}, True),
    "its size": ({"forms": service_spec(awake=20).forms}, True),
    "its command": ({"argv": ("serve", "--new")}, False),
    "its variables": ({"env": {"A": "1"}}, False),
    "its devices": ({"pinned_devices": GPU, "count": 2}, False),
    "its address": ({"upstream": "http://127.0.0.1:9"}, False),
    "its driver and ladder": ({"driver": "sleeper", "forms": service_spec(asleep=1).forms}, False),
}


@pytest.mark.parametrize(("changes", "at_once"), RUNNING_KEEPS.values(), ids=RUNNING_KEEPS.keys())
def test_a_server_that_runs_takes_names_and_limits_at_once_and_the_rest_at_its_next_start(
    changes: dict[str, Any], at_once: bool
) -> None:
    scene = Scene(24).service(service_spec())
    wanted = replace(service_spec(), **changes)
    reply = apply(scene, wanted)
    assert reply.accepted and reply.facts["later"] == ([] if at_once else ["chat"])
    assert (named(scene, "chat").spec == wanted) is at_once
    if not at_once:
        assert named(scene, "chat").spec == service_spec()
    stopped(scene, "chat")
    assert named(scene, "chat").spec == wanted and named(scene, "chat").coming is None
    assert [form.name for form in named(scene, "chat").forms] == [form.name for form in wanted.forms]


def test_a_server_that_is_down_takes_everything_at_once_and_keeps_what_was_learned() -> None:
    scene = Scene(24).service(service_spec(), "stopped")
    known = named(scene, "chat")
    scene.put(replace(known, forms=(replace(known.forms[0], learned_bytes=gib(17)), *known.forms[1:])))
    reply = apply(scene, service_spec(argv=("other",), awake=9))
    assert reply.facts["later"] == []
    assert named(scene, "chat").spec.argv == ("other",)
    assert named(scene, "chat").forms[0].learned_bytes == gib(17)


def test_a_change_that_is_taken_back_before_the_next_start_leaves_nothing() -> None:
    scene = Scene(24).service(service_spec())
    apply(scene, service_spec(argv=("other",)))
    assert apply(scene, service_spec()).facts["later"] == []
    assert named(scene, "chat").coming is None


USED = {
    # name: (scene, in use?)
    "it is awake": (Scene(24).service(), True),
    "it is starting": (Scene(24).service(form="stopped").under_way("chat", "stopped", "awake"), True),
    "requests wait for it": (Scene(24).service(form="stopped", demand={"attended": Waiting(n=1, since_s=1.0)}), True),
    "nobody knows yet": (Scene(24).service(form=None), True),
    "it is down": (Scene(24).service(form="stopped"), False),
}  # fmt: skip


@pytest.mark.parametrize(("scene", "used"), USED.values(), ids=USED.keys())
def test_a_service_in_use_is_taken_away_only_with_drain(scene: Scene, used: bool) -> None:
    before = scene.s
    reply = apply(scene, drain=False)
    assert reply.accepted is not used
    if not used:
        assert "chat" not in scene.s.holders
        return
    assert (reply.code, reply.facts) == ("in_use", {"services": ["chat"]})
    assert scene.s.holders == before.holders
    assert apply(scene, drain=True).accepted
    assert scene.s.services == () or named(scene, "chat").retired


def test_a_refused_config_changes_nothing_at_all() -> None:
    scene = Scene(24).service()
    before = scene.s
    apply(
        scene,
        service_spec("new"),
        jobs=(job_spec(),),
        policy=Policy(gap_min_s=9.0),
        mode="shadow",
        drain=False,
    )
    after = replace(scene.s, now_s=before.now_s, rev=before.rev)
    assert after == before


def test_a_service_that_is_gone_from_the_config_is_stopped_when_nobody_uses_it_and_then_forgotten() -> None:
    scene = Scene(24).service(gate=Gate(wish="open", rev=1), active=1, run=RUN, upstream="http://x")
    apply(scene)
    assert [type(action) for action in done(scene)] == [CloseGate]
    drained = Gate(wish="closed", rev=2, closed=True, pinning=1)
    scene.put(replace(named(scene, "chat"), gate=drained))
    assert done(scene) == ()  # its last request is answered to the end
    scene.put(replace(named(scene, "chat"), gate=replace(drained, pinning=0), active=0))
    (move,) = done(scene)
    assert isinstance(move, Move) and move.form == "stopped"
    stopped(scene, "chat")
    apply(scene)
    assert "chat" not in scene.s.holders


def test_a_service_that_comes_back_after_it_was_forgotten_goes_on_counting_its_runs() -> None:
    """The files of its runs are still there: one of the same number would be taken for the one that ended."""
    gone = Gate(wish="closed", rev=2, closed=True)
    scene = Scene(24).service(form="stopped", active=0, runs=3, gate=gone)
    apply(scene)
    done(scene)
    assert "chat" not in scene.s.holders
    apply(scene, service_spec("chat"))
    assert named(scene, "chat").runs == 3
    apply(scene, service_spec("chat"), service_spec("new"))
    assert (named(scene, "chat").runs, named(scene, "new").runs) == (3, 0)


def test_nobody_wakes_a_service_that_is_gone_from_the_config() -> None:
    asked = {"attended": Waiting(n=1, since_s=1.0)}
    scene = Scene(24).service(service_spec(asleep=1), "asleep", gate=Gate(closed=True), run=RUN, demand=asked)
    apply(scene)
    assert [(a.form if isinstance(a, Move) else a) for a in done(scene)] == ["stopped"]


def test_nobody_wakes_a_sleeper_of_somebody_else_that_is_gone_from_the_config() -> None:
    asked = {"attended": Waiting(n=1, since_s=1.0)}
    hand = service_spec(argv=(), asleep=1)
    scene = Scene(24).service(hand, "asleep", gate=Gate(), run=None, demand=asked)
    apply(scene, hand)
    scene.put(replace(named(scene, "chat"), gate=Gate(closed=True), retired=True))
    assert not [action for action in done(scene) if isinstance(action, Move)]


def test_a_server_of_somebody_else_is_let_go_and_never_moved() -> None:
    hand = service_spec(argv=(), moves=PROCESS)
    scene = Scene(24).service(hand, gate=Gate(wish="open", rev=1), active=0, upstream="http://x", run=None)
    apply(scene)
    assert [type(action) for action in done(scene)] == [CloseGate]
    scene.put(replace(named(scene, "chat"), gate=Gate(wish="closed", rev=2, closed=True)))
    assert done(scene) == ()
    apply(scene)
    assert "chat" not in scene.s.holders


def test_a_service_that_comes_back_before_it_was_forgotten_goes_on() -> None:
    scene = Scene(24).service(
        gate=Gate(wish="closed", rev=1, closed=True), active=0, upstream="http://x", ready=True
    )
    apply(scene)
    apply(scene, service_spec())
    assert not named(scene, "chat").retired
    assert [type(action) for action in done(scene)] == [OpenGate]


# ---------------------------------------------------------------- jobs


def recipe(form: str = "stopped", **given: Any) -> Scene:
    scene = Scene(24)
    apply(scene, jobs=(job_spec(),))
    job = named(scene, "j1")
    devices = GPU if form != "stopped" else ()
    return scene.put(replace(job, form=form, devices=devices, run=RUN if devices else None, **given))


def test_a_queued_entry_takes_what_its_recipe_says_now() -> None:
    scene = recipe()
    wanted = job_spec(running=20, argv=("new",), count=0)
    assert apply(scene, jobs=(wanted,)).facts["later"] == []
    job = named(scene, "j1")
    assert (job.spec, job.forms, job.lane) == (wanted, wanted.forms, "cpu")
    assert [hid for _, hid in scene.s.queue["cpu"]] == ["j1"] and not scene.s.queue["gpu"]


def test_a_job_that_runs_keeps_its_recipe_until_its_next_start() -> None:
    scene, wanted = recipe("running"), job_spec(running=20, argv=("new",))
    assert apply(scene, jobs=(wanted,)).facts["later"] == ["j1"]
    assert named(scene, "j1").spec == job_spec()
    stopped(scene, "j1")
    assert named(scene, "j1").spec == wanted and named(scene, "j1").forms == wanted.forms


def test_what_was_asked_for_one_entry_alone_stays() -> None:
    scene = Scene(24)
    apply(scene, jobs=(job_spec(),))
    draft = scene.draft()
    wishes.apply(draft, AddJob(spec=job_spec(priority=80, after=("j1",)), recipe="train"))
    scene.s = draft.done()
    apply(scene, jobs=(job_spec(priority=30, after=("x",), goal="new"),))
    specs = [named(scene, hid).spec for hid in ("j1", "j2")]
    assert [(spec.priority, spec.after, spec.goal) for spec in specs] == [
        (30, (), "new"),
        (80, ("j1",), "new"),
    ]


def test_a_new_priority_counts_in_the_line_from_now_on() -> None:
    scene = Scene(24)
    low, high = job_spec("low", priority=20), job_spec("high", priority=80)
    apply(scene, jobs=(low, high))
    line = [hid for _, hid in scene.s.queue["gpu"]]
    apply(scene, jobs=(replace(low, priority=90), high))
    assert (line, [hid for _, hid in scene.s.queue["gpu"]]) == (["j2", "j1"], ["j1", "j2"])


def test_a_config_that_says_the_same_as_before_changes_no_entry() -> None:
    scene = recipe()
    scene.put(replace(named(scene, "j1"), spec=job_spec(priority=99)))  # changed by hand
    apply(scene, jobs=(job_spec(),))
    assert named(scene, "j1").spec.priority == 99


@pytest.mark.parametrize("form", ["stopped", "running"])
def test_a_recipe_with_entries_that_are_not_over_is_taken_away_only_with_drain(form: str) -> None:
    scene = recipe(form)
    reply = apply(scene, drain=False)
    assert (reply.code, reply.facts) == ("in_use", {"jobs": ["j1"], "recipes": ["train"]})
    assert apply(scene, drain=True).accepted
    assert (
        named(scene, "j1").spec == job_spec() and named(scene, "j1").wish == "run"
    )  # it goes on with what it has
    assert apply(scene, drain=False).accepted  # that was said once


def test_a_recipe_whose_entries_are_over_is_taken_away_freely() -> None:
    scene = recipe(ended="done", ended_s=1.0)
    assert apply(scene, drain=False).accepted


# ---------------------------------------------------------------- policy and mode


def test_policy_is_taken_at_once() -> None:
    scene = Scene(24)
    apply(scene, policy=Policy(gap_min_s=9.0))
    assert scene.s.policy.gap_min_s == 9.0


MODES = {
    # name: (set by hand, what the config says now, mode after)
    "the config says something new": (None, "shadow", ("shadow", None)),
    "the config says what it said": (None, "live", ("live", None)),
    "one set by hand holds while the config says what it said": ("shadow", "live", ("shadow", "ada")),
    "the config says what was set by hand": ("shadow", "shadow", ("shadow", None)),
    "the config says nothing": ("shadow", None, ("shadow", "ada")),
}


@pytest.mark.parametrize(("hand", "config", "after"), MODES.values(), ids=MODES.keys())
def test_mode(hand: Any, config: Any, after: tuple[str, str | None]) -> None:
    scene = Scene(24)
    if hand:
        draft = scene.draft()
        wishes.apply(draft, SetMode(mode=hand, by="ada"))
        scene.s = draft.done()
    apply(scene, mode=config)
    assert (scene.s.mode, scene.s.mode_by) == after


def test_in_shadow_mode_a_server_that_is_not_ours_is_forgotten_at_once() -> None:
    scene = Scene(24).service(service_spec(argv=()), gate=Gate(wish="open", rev=1), run=None)
    scene.s = replace(scene.s, mode="shadow")
    apply(scene)
    assert "chat" not in scene.s.holders


def test_records_with_a_spec_to_come_are_saved_and_read() -> None:
    from headway.core import codec

    scene = Scene(24).service()
    apply(scene, service_spec(argv=("other",)))
    service = named(scene, "chat")
    again: Holder = codec.from_doc(Service, codec.to_doc(service))
    assert isinstance(again, Service) and again.coming == service.coming
    assert codec.from_doc(
        Job, codec.to_doc(replace(named(recipe(), "j1"), coming=job_spec("b")))
    ).coming == job_spec("b")
