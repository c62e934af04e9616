"""Every verb in every phase, and the queue: one table, then what a table cannot say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core import wishes
from headway.core.commands import (
    AddJob,
    ClearJobs,
    Command,
    Configure,
    EditJob,
    MoveJob,
    Reply,
    SetMode,
    SetWish,
)
from headway.core.model import Ended, Job
from tests.core.make import Scene, dev, gib, job_spec, service_spec

pytestmark = pytest.mark.core

GPU = (dev("gpu0"),)
PARKS = job_spec(parked=1)
VERBS = ("hold", "release", "pause", "resume", "wind_down", "stop", "kill", "cancel", "retry", "start")
MODEL_VERBS = ("wake", "sleep")


def says(scene: Scene, command: Command) -> Reply:
    draft = scene.draft()
    reply = wishes.apply(draft, command)
    scene.s = draft.done()
    return reply


def asks(scene: Scene, verb: Any, target: str = "train") -> str:
    """The wish or end after a verb; in brackets the code it was refused with."""
    reply = says(scene, SetWish(target=target, verb=verb, by="anna"))
    holder = scene.s.holders[target]
    if not reply.accepted:
        return f"({reply.code})"
    return (holder.ended if isinstance(holder, Job) else None) or holder.wish


def job(form: str = "stopped", ended: Ended | None = None, **given: Any) -> Scene:
    return Scene(24).job(PARKS, form, ended=ended, **given)


def moves(form: str, to: str, **given: Any) -> Scene:
    return job(form, devices=GPU, **given).under_way("train", form, to)


# What each of VERBS makes of the wish, per phase. "-" : refused as already ended.
PHASES: dict[str, tuple[Scene, tuple[str, ...]]] = {
    "queued": (
        job(),
        ("hold", "run", "hold", "run", "hold", "hold", "hold", "cancelled", "(not_ended)", "run"),
    ),
    "held": (
        job(wish="hold"),
        ("hold", "run", "hold", "run", "hold", "hold", "hold", "cancelled", "(not_ended)", "run"),
    ),
    "starting": (
        moves("stopped", "running"),
        ("hold", "run", "pause", "run", "wind_down", "stop", "kill", "cancel", "(not_ended)", "run"),
    ),
    "running": (
        job("running"),
        ("hold", "run", "pause", "run", "wind_down", "stop", "kill", "cancel", "(not_ended)", "run"),
    ),
    "running, held": (
        job("running", wish="hold"),
        ("hold", "run", "pause", "run", "wind_down", "stop", "kill", "cancel", "(not_ended)", "run"),
    ),
    "parking": (
        moves("running", "parked", wish="pause"),
        ("pause", "run", "pause", "run", "wind_down", "stop", "kill", "cancel", "(not_ended)", "run"),
    ),
    "parked": (
        job("parked"),
        ("hold", "run", "hold", "run", "wind_down", "stop", "kill", "cancel", "(not_ended)", "run"),
    ),
    "resuming": (
        moves("parked", "running"),
        ("hold", "run", "pause", "run", "wind_down", "stop", "kill", "cancel", "(not_ended)", "run"),
    ),
    "winding down": (
        job("running", wish="wind_down"),
        ("wind_down", "run", "wind_down", "run", "wind_down", "stop", "kill", "cancel", "(not_ended)", "run"),
    ),
    "stopping": (
        moves("running", "stopped", wish="stop"),
        ("stop", "run", "stop", "run", "stop", "stop", "kill", "cancel", "(not_ended)", "run"),
    ),
    "being killed": (
        moves("running", "stopped", wish="kill"),
        ("kill", "run", "kill", "run", "kill", "kill", "kill", "cancel", "(not_ended)", "run"),
    ),
    "being cancelled": (
        moves("running", "stopped", wish="cancel"),
        (
            "cancel",
            "(cancelled)",
            "cancel",
            "(cancelled)",
            "cancel",
            "cancel",
            "cancel",
            "cancel",
            "(cancelled)",
            "(cancelled)",
        ),
    ),
    "done": (job(ended="done"), ("-", "-", "-", "-", "-", "-", "-", "-", "run", "-")),
    "failed": (job(ended="failed"), ("-", "-", "-", "-", "-", "-", "-", "-", "run", "-")),
    "lost": (job(ended="lost"), ("-", "-", "-", "-", "-", "-", "-", "-", "run", "-")),
    "cancelled": (
        job(ended="cancelled", wish="cancel"),
        ("-", "(cancelled)", "-", "(cancelled)", "-", "-", "-", "-", "(cancelled)", "(cancelled)"),
    ),
}


@pytest.mark.parametrize("phase", PHASES)
def test_every_verb_in_every_phase(phase: str) -> None:
    scene, expected = PHASES[phase]
    before, found = scene.s, []
    for verb in VERBS:
        scene.s = before
        found.append(asks(scene, verb))
    assert found == ["(already_ended)" if word == "-" else word for word in expected]
    scene.s = before
    assert {asks(scene, verb) for verb in MODEL_VERBS} == {"(not_for_jobs)"}


EDITS: dict[str, Command] = {
    "edit": EditJob(target="train", changes={"tags": ("big",)}, by="anna"),
    "priority": EditJob(target="train", changes={"priority": 80}, by="anna"),
    "clear": ClearJobs(targets=("train",), by="anna"),
    "move": MoveJob(target="train", where="top", by="anna"),
}
WAITS, LIVES = ("queued", "held"), [phase for phase, (_, words) in PHASES.items() if words[0] != "-"]


@pytest.mark.parametrize("phase", PHASES)
def test_edit_priority_clear_and_move_in_every_phase(phase: str) -> None:
    scene, _ = PHASES[phase]
    lives = phase in LIVES
    expected = {
        "edit": "accepted" if lives else "already_ended",
        "priority": "accepted" if lives else "already_ended",
        "clear": "not_ended" if lives else "accepted",
        "move": "accepted" if phase in WAITS else "not_queued" if lives else "already_ended",
    }
    before, found = scene.s, {}
    for verb, command in EDITS.items():
        scene.s = before
        wish = scene.s.holders["train"].wish
        found[verb] = says(scene, command).code
        after = scene.s.holders.get("train")
        assert after is None or after.wish == wish, "it changes no wish"
    assert found == expected


SERVICE_PHASES: dict[str, tuple[Scene, tuple[str, ...]]] = {
    "awake": (Scene(24).service(), ("hold", "run", "", "run", "", "stop", "kill", "", "", "run")),
    "awake, held": (
        Scene(24).service(wish="hold"),
        ("hold", "run", "", "run", "", "stop", "kill", "", "", "run"),
    ),
    "asleep": (
        Scene(24).service(service_spec(asleep=1), "asleep"),
        ("hold", "run", "", "run", "", "stop", "kill", "", "", "run"),
    ),
    "stopped": (
        Scene(24).service(form="stopped"),
        ("hold", "run", "", "run", "", "hold", "hold", "", "", "run"),
    ),
    "starting": (
        Scene(24).service(form="stopped").under_way("chat", "stopped", "awake"),
        ("hold", "run", "", "run", "", "stop", "kill", "", "", "run"),
    ),
    "being stopped": (
        Scene(24).service(wish="stop").under_way("chat", "awake", "stopped"),
        ("stop", "run", "", "run", "", "stop", "kill", "", "", "run"),
    ),
    "not seen yet": (
        Scene(24).service(form=None),
        ("hold", "run", "", "run", "", "stop", "kill", "", "", "run"),
    ),
}


@pytest.mark.parametrize("phase", SERVICE_PHASES)
def test_every_verb_on_a_model(phase: str) -> None:
    scene, expected = SERVICE_PHASES[phase]
    before, found = scene.s, []
    for verb in VERBS:
        scene.s = before
        found.append(asks(scene, verb, "chat"))
    assert found == [word or "(not_for_services)" for word in expected]


def test_a_job_without_park_cannot_pause() -> None:
    assert asks(Scene(24).job(), "pause") == "(cannot_pause)"
    assert asks(Scene(24).job(form="stopped"), "pause") == "hold"


def test_a_hold_has_an_owner_and_a_time() -> None:
    scene = job()
    asks(scene, "hold")
    assert (scene.s.holders["train"].wish_by, scene.s.holders["train"].wish_s) == ("anna", scene.s.now_s)


def test_a_retry_is_a_fresh_run_at_its_old_place() -> None:
    scene = job(ended="failed", exit_code=3, failures=2, retry_at_s=9e9, attempts_left=0, runs=4, key=-5.0)
    asks(scene, "retry")
    found = scene.s.holders["train"]
    assert isinstance(found, Job)
    assert (found.ended, found.exit_code, found.failures, found.retry_at_s, found.run) == (
        None,
        None,
        0,
        None,
        None,
    )
    assert (found.runs, found.key) == (4, -5.0)
    assert scene.s.queue["gpu"] == ((-5.0, "train"),)


def test_a_cancel_of_one_whose_memory_is_still_seen_is_final_at_once() -> None:
    scene = job(seen_bytes={GPU[0]: gib(1)})
    assert asks(scene, "cancel") == "cancelled"


def test_start_makes_it_first_and_asks_not_whether_the_gap_is_worth_it() -> None:
    scene = Scene(24)
    for _ in range(3):
        scene.queue()
    last = scene.queue(hold=True)
    says(scene, SetWish(target=last, verb="start"))
    assert [hid for _, hid in scene.s.queue["gpu"]] == [last, "j1", "j2", "j3"]
    assert scene.s.holders[last].rushed  # type: ignore[attr-defined]
    says(scene, SetWish(target=last, verb="hold"))
    assert not scene.s.holders[last].rushed, "a hold takes that back"  # type: ignore[attr-defined]


def test_a_job_without_park_stops_at_its_next_saved_point_instead_if_that_is_said() -> None:
    scene = Scene(24).job()
    no = says(scene, SetWish(target="train", verb="pause", at_saved_point=True))
    assert (no.accepted, no.code) == (False, "no_saved_point"), "it would never reach one"
    scene = Scene(24).job(job_spec(saved=("point",)))
    assert says(scene, SetWish(target="train", verb="pause", at_saved_point=True)).accepted
    assert scene.s.holders["train"].wish == "wind_down"
    scene = job("running")
    says(scene, SetWish(target="train", verb="pause", at_saved_point=True))
    assert scene.s.holders["train"].wish == "pause", "one that can park parks"


# ---------------------------------------------------------------- whom a word means


def test_a_name_means_the_only_living_one() -> None:
    scene = Scene(24)
    first, second = scene.queue(job_spec("render")), scene.queue(job_spec("render"))
    assert says(scene, SetWish(target="render", verb="hold")).code == "ambiguous"
    asks(scene, "cancel", first)
    assert says(scene, SetWish(target="render", verb="hold")).holder == second
    assert says(scene, SetWish(target="nobody", verb="hold")).code == "not_found"


@pytest.mark.parametrize(
    ("where", "other", "order"),
    [
        ("top", None, "j4 j2 j1 j3"),
        ("bottom", None, "j1 j3 j4 j2"),
        ("before", "j3", "j1 j4 j2 j3"),
        ("after", "j1", "j1 j4 j2 j3"),
    ],
)
def test_several_are_moved_as_one_in_the_order_named(where: Any, other: str | None, order: str) -> None:
    scene = Scene(24)
    for _ in range(4):
        scene.queue()
    seen = tuple(scene.s.queue["gpu"])
    moved = MoveJob(target="j4", behind=("j2", "j4"), where=where, other=other, seen=seen)
    assert says(scene, moved).accepted
    assert [hid for _, hid in scene.s.queue["gpu"]] == order.split()
    assert says(scene, moved).code == "order_changed"


def test_nothing_is_half_done_when_refused() -> None:
    scene = Scene(24)
    scene.queue()
    scene.queue()
    before = scene.s
    for command in (
        SetWish(target="nobody", verb="stop"),
        AddJob(spec=job_spec(after=("nobody",))),
        AddJob(spec=job_spec(after_ok=("j1", "nobody"))),
        MoveJob(target="j1", where="before", other="nobody"),
        MoveJob(target="nobody", where="top"),
        MoveJob(target="j1", behind=("nobody",), where="top"),
        MoveJob(target="j2", behind=("j1",), where="before", other="j1"),
        MoveJob(target="j2", behind=("j1",), where="top", seen=((0.0, "j1"), (1.0, "j2"))),
    ):
        assert not says(scene, command).accepted
        assert replace(scene.s, rev=before.rev) == before


# ---------------------------------------------------------------- config, mode


def test_a_recipe_makes_one_job_at_first_sight_and_never_again() -> None:
    scene = Scene(24).configure(recipes=[(job_spec("train"), False), (job_spec("later"), True)])
    assert [(h.spec.name, h.wish) for h in scene.s.holders.values()] == [("train", "run"), ("later", "hold")]
    scene.configure(recipes=[(job_spec("train"), False), (job_spec("later"), True)])
    assert len(scene.s.holders) == 2


def test_a_reload_keeps_what_was_learned_and_drops_services_that_are_gone_and_down() -> None:
    scene = Scene(24).service(service_spec("up")).service(service_spec("down"), "stopped")
    known = scene.s.holders["up"]
    scene.put(
        replace(known, forms=(replace(known.forms[0], learned_bytes=gib(17), enter_s=3.0), *known.forms[1:]))
    )
    scene.configure(service_spec("up", 20))
    assert scene.s.services == ("up",)
    assert scene.s.holders["up"].forms[0].learned_bytes == gib(17)
    assert scene.s.holders["up"].need_bytes("awake") == gib(20)
    scene.configure()
    assert scene.s.services == ("up",)  # it is in use


def test_the_mode() -> None:
    scene = Scene(24)
    assert says(scene, SetMode(mode="shadow")).accepted and scene.s.mode == "shadow"


def test_a_mode_other_than_the_config_s_keeps_the_name_of_who_set_it() -> None:
    scene = Scene(24)
    found = []
    for mode, by in (("live", "ada"), ("shadow", "ada"), ("shadow", "bob"), ("live", "bob")):
        says(scene, SetMode(mode=mode, by=by))  # type: ignore[arg-type]
        found.append(scene.s.mode_by)
    assert found == [None, "ada", "ada", None]


def test_only_who_stands_in_line_is_moved() -> None:
    scene = Scene(24).job(job_spec("runs"))
    first, held = scene.queue(), scene.queue(hold=True)
    moves = [
        MoveJob(target="runs", where="top"),
        MoveJob(target=first, where="before", other=first),
        MoveJob(target=first, where="after", other="runs"),
    ]
    assert [says(scene, move).code for move in moves] == ["not_queued", "itself", "not_queued"]
    assert says(scene, MoveJob(target=held, where="top")).accepted


def test_a_job_is_not_called_like_a_service() -> None:
    scene = Scene(24).service(form="stopped")
    assert says(scene, AddJob(spec=job_spec("chat"))).code == "name_taken"
    assert says(scene, AddJob(spec=job_spec("chat2"))).accepted


def test_after_words_are_ids_or_names_that_are_known() -> None:
    scene = Scene(24)
    assert says(scene, AddJob(spec=job_spec(after=("first",)))).code == "unknown_after"
    scene.queue(job_spec("first"))
    assert says(scene, AddJob(spec=job_spec(after=("first",)))).accepted
    assert says(scene, AddJob(spec=job_spec(after_ok=("j1",)))).accepted


def test_configure_is_one_command_with_services_and_recipes() -> None:
    scene = Scene(24)
    reply = says(scene, Configure(services=(service_spec(),), recipes=((job_spec(), False),)))
    assert reply.accepted and set(scene.s.holders) == {"chat", "j1"}


def test_the_same_ask_again_finds_the_job_that_it_made_and_another_one_makes_another() -> None:
    scene = Scene(24)
    first = says(scene, AddJob(spec=job_spec("a"), ask_key="k" * 16))
    assert says(scene, AddJob(spec=job_spec("b"), ask_key="x" * 16)).holder == "j2"
    again = says(scene, AddJob(spec=job_spec("a"), ask_key="k" * 16))
    assert (first.holder, again.holder, again.accepted) == ("j1", "j1", True)
    assert says(scene, SetWish(target="j1", verb="cancel")).accepted
    assert says(scene, AddJob(spec=job_spec("a"), ask_key="k" * 16)).holder == "j1", "also where it is over"
    assert [says(scene, AddJob(spec=job_spec("a"))).holder for _ in range(2)] == ["j3", "j4"]
    assert sorted(scene.s.holders) == ["j1", "j2", "j3", "j4"]
