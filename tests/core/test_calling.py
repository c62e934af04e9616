"""Wake and sleep: what a person says to a model server, and for how long it counts. A case's name is what it proves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core import windows
from headway.core.codec import from_doc, to_doc
from headway.core.commands import SetMode, SetProdOnly, SetWish
from headway.core.decide import target
from headway.core.facts import Observed
from headway.core.model import GIB, Gate, Service, Waiting
from headway.core.view import explain
from tests.core.make import T0_S, Scene, job_spec, service_spec
from tests.core.test_rules import PARKS, SLEEPS, stays, with_mode
from tests.core.test_windows import under, window
from tests.core.test_wishes import says
from tests.core.world import Habit, World

pytestmark = pytest.mark.core

OURS = Habit(bytes_=16 * GIB, residue=GIB)
WORK = Habit(bytes_=14 * GIB, residue=GIB)
ASKED = {"attended": Waiting(n=1, since_s=T0_S - 1)}
THEIRS = service_spec(asleep=1, argv=())
LOCKED = service_spec(argv=())  # nobody can free its memory: it can only end, and it is not ours


def tell(scene: Scene, verb: Any, by: str = "ada", **given: Any) -> str:
    """What became of it: the code of the refusal, done, or told."""
    reply = says(scene, SetWish(target="chat", verb=verb, by=by, **given))
    return reply.code if not reply.accepted else "done" if reply.facts["done"] else "told"


def chat(scene: Scene | World) -> Service:
    service = scene.s.service("chat")
    assert service is not None
    return service


def asleep() -> Scene:
    return Scene(24).service(SLEEPS, "asleep")


TOLD = {
    # name: (scene, what wake says, what sleep says)
    "awake": (Scene(24).service(SLEEPS), "done", "told"),
    "awake, its gate not open": (Scene(24).service(SLEEPS, gate=Gate(wish="closed")), "told", "told"),
    "awake, and held": (Scene(24).service(SLEEPS, wish="hold"), "told", "told"),
    "going to sleep": (Scene(24).service(SLEEPS).under_way("chat", "awake", "asleep"), "told", "told"),
    "asleep": (asleep(), "told", "done"),
    "asleep, and held": (Scene(24).service(SLEEPS, "asleep", wish="hold"), "told", "done"),
    "waking": (Scene(24).service(SLEEPS, "asleep").under_way("chat", "asleep", "awake"), "told", "told"),
    "stopped": (Scene(24).service(SLEEPS, "stopped"), "told", "done"),
    "starting": (Scene(24).service(SLEEPS, "stopped").under_way("chat", "stopped", "awake"), "told", "told"),
    "failed": (Scene(24).service(SLEEPS, "stopped", failures=3, retry_at_s=T0_S + 60), "told", "done"),
    "not seen yet": (Scene(24).service(SLEEPS, None), "told", "told"),
    "not ours, asleep": (Scene(24).service(THEIRS, "asleep"), "told", "done"),
    "not ours, and down": (Scene(24).service(THEIRS, "stopped"), "not_ours", "done"),
    "not ours, and cannot sleep": (Scene(24).service(LOCKED), "done", "cannot_step_aside"),
    "not in the config any more": (Scene(24).service(SLEEPS, "asleep", retired=True), "retired", "done"),
    "in shadow mode": (with_mode(asleep(), mode="shadow"), "mode_shadow", "mode_shadow"),
    "while only models run": (with_mode(asleep(), prod_only_by="bob"), "told", "done"),
    "in a no_model window": (under(asleep(), window()), "no_model", "done"),
    "in one that is over": (under(asleep(), window(end_s=0.0)), "told", "done"),
    "in a slow_wake window": (under(asleep(), window("slow_wake")), "told", "done"),
}  # fmt: skip


@pytest.mark.parametrize("phase", TOLD)
def test_wake_and_sleep_in_every_phase(phase: str) -> None:
    scene, wake, sleep = TOLD[phase]
    before = scene.s
    found = []
    for verb in ("wake", "start", "sleep"):
        scene.s = before
        found.append(tell(scene, verb))
    scene.s = before
    assert found == [wake, wake, sleep]


@pytest.mark.parametrize("phase", TOLD)
def test_what_is_refused_changes_nothing_and_the_later_word_counts(phase: str) -> None:
    scene, _, _ = TOLD[phase]
    before = scene.s
    if tell(scene, "sleep") not in ("done", "told"):
        assert scene.s.holders == before.holders
    else:
        assert (chat(scene).dismissed_by, chat(scene).called_by) == ("ada", None)
    was = scene.s
    if (told := tell(scene, "wake", by="bob")) not in ("done", "told"):
        assert scene.s.holders == was.holders
    else:
        assert (chat(scene).dismissed_by, chat(scene).called_by) == (None, "bob" if told == "told" else None)
    for verb in ("hold", "stop", "kill", "release"):
        scene.s = was
        tell(scene, verb)
        assert (chat(scene).dismissed_by, chat(scene).called_by) == (None, None), verb
    scene.s = before


SENT: dict[str, Any] = {"dismissed_by": "ada", "dismissed_s": T0_S - 5}
UNUSED: dict[str, Any] = {"gate": Gate(wish="open", rev=1), "active": 0}
STAYS: dict[str, tuple[dict[str, Any], str | None]] = {
    # name: (what is known of the service, where it goes)
    "one that nobody uses": (UNUSED, "asleep"),
    "one that answers": ({"active": 1}, None),
    "one that is asked for": ({"demand": ASKED}, None),
    "one whose gate has not spoken": ({"active": None}, None),
    "one whose engine was not read": ({"spec": service_spec(asleep=1, reads_busy=True)}, None),
    "one whose engine works": ({"spec": service_spec(asleep=1, reads_busy=True), "engine_active": 1}, None),
    "one whose engine is idle": ({"spec": service_spec(asleep=1, reads_busy=True), "engine_active": 0}, "asleep"),
    "one that cannot sleep, and is ours": ({"spec": service_spec()}, "stopped"),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_who_goes_to_sleep_by_somebodys_word(name: str) -> None:
    given, expected = STAYS[name]
    spec = given.get("spec", SLEEPS)
    scene = Scene(24).service(
        spec, **{**SENT, **{key: value for key, value in given.items() if key != "spec"}}
    )
    assert stays(scene, "chat") == (("asked_sleep", expected) if expected else None)


PINNED = service_spec(asleep=1, keep_awake=True)
CALLED: dict[str, Any] = {"called_by": "ada", "called_s": T0_S - 5}
COMES = {
    # name: (scene, code; None: nobody wants it up)
    "nobody asks for it": (Scene(24).service(SLEEPS, "asleep"), None),
    "one that was called": (Scene(24).service(SLEEPS, "asleep", **CALLED), "goes"),
    "one that was called, and is stopped": (Scene(24).service(SLEEPS, "stopped", **CALLED), "goes"),
    "a pinned one": (Scene(24).service(PINNED, "asleep"), "goes"),
    "a pinned one that was sent to sleep": (Scene(24).service(PINNED, "asleep", **SENT), None),
    "one that was sent to sleep, and is asked for": (Scene(24).service(PINNED, "asleep", demand=ASKED, **SENT), "goes"),
    "while only models run": (with_mode(Scene(24).service(SLEEPS, "asleep"), prod_only_by="bob"), "goes"),
    "sent to sleep since": (with_mode(Scene(24).service(SLEEPS, "asleep", **SENT), prod_only_by="bob"), None),
    "called, while a job has its memory": (Scene(24).service(SLEEPS, "asleep", **CALLED).job(PARKS), "goes"),
    "called, while a neighbour answers": (
        Scene(24).service(SLEEPS, "asleep", **CALLED).service(service_spec("code"), active=1),
        "model_busy",
    ),
    "called, while it answers for too long": (
        Scene(24).service(SLEEPS, "asleep", called_by="ada", called_s=T0_S - 31).service(
            service_spec("code", min_residency_s=0.0), active=1, last_end_s=T0_S - 10),
        "goes",
    ),
    "called, and held since": (Scene(24).service(SLEEPS, "asleep", wish="hold", **CALLED), "held"),
}  # fmt: skip


@pytest.mark.parametrize("name", COMES)
def test_who_comes(name: str) -> None:
    scene, code = COMES[name]
    found = target(scene.s)[1].get("chat")
    assert (found and found.code) == code


def test_prod_only_is_the_later_word_over_a_sleep_and_shadow_mode_forgets_both() -> None:
    scene = Scene(24).service(SLEEPS, "asleep")
    tell(scene, "sleep")
    says(scene, SetProdOnly(on=True, by="bob"))
    assert chat(scene).dismissed_by is None
    tell(scene, "sleep")
    assert chat(scene).dismissed_by == "ada"
    world, _ = swapped()
    world.command(SetWish(target="chat", verb="wake", by="ada"))
    world.command(SetMode(mode="shadow", by="bob"))
    world.turn()
    assert chat(world).called_by is None


def test_a_word_is_kept_over_a_restart_of_the_daemon() -> None:
    scene = Scene(24).service(SLEEPS, "asleep", **CALLED)
    assert from_doc(Service, to_doc(chat(scene))).called_by == "ada"
    scene = Scene(24).service(PINNED, "asleep", **SENT)
    assert from_doc(Service, to_doc(chat(scene))).dismissed_s == T0_S - 5


# ---------------------------------------------------------------- in a world


def swapped(**spec: Any) -> tuple[World, str]:
    """A model that can sleep, put aside for a job that can park."""
    world = World({"gpu0": 24 * GIB})
    world.service(service_spec("chat", 16, 1, **spec), OURS)
    world.ask("chat")
    assert world.run(60.0, until=lambda: world.form("chat") == "awake")
    job = world.job(job_spec("train", 14, 1), WORK)
    assert world.run(60.0, until=lambda: world.form(job) == "running")
    return world, job


def test_a_call_takes_the_memory_as_a_request_does_and_then_the_gap_decides() -> None:
    world, job = swapped()
    world.command(SetWish(target="chat", verb="wake", by="ada"))
    assert world.run(60.0, until=lambda: (world.form(job), world.form("chat")) == ("parked", "awake"))
    woken_s = world.now_s
    assert world.run(60.0, until=lambda: chat(world).called_by is None)
    assert world.run(120.0, until=lambda: world.form(job) == "running")
    assert world.now_s - woken_s >= chat(world).spec.min_residency_s
    assert world.wrong == []


def test_one_that_is_sent_to_sleep_finishes_what_it_answers_and_comes_for_the_next_request() -> None:
    world = World({"gpu0": 24 * GIB})
    world.service(service_spec("chat", 16, 1, keep_awake=True), OURS)
    long = world.ask("chat", takes_s=20.0)
    assert world.run(60.0, until=lambda: long.how == "sent")
    assert world.command(SetWish(target="chat", verb="sleep", by="ada")).facts["done"] is False
    second = world.ask("chat", after_s=5.0, takes_s=1.0)
    assert world.run(60.0, until=lambda: second.how == "answered"), "the gate stays open while it answers"
    assert long.how == "sent"
    assert explain("chat", world.s, world.verdicts).facts["dismissed_by"] == "ada"
    assert world.run(60.0, until=lambda: world.form("chat") == "asleep")
    world.run(300.0)
    assert (world.form("chat"), chat(world).dismissed_by) == ("asleep", "ada"), "pinned, and it stays asleep"
    third = world.ask("chat")
    assert world.run(60.0, until=lambda: third.how == "answered")
    world.run(60.0)
    assert (world.form("chat"), chat(world).dismissed_by) == ("awake", None), "that word is used up"
    assert world.wrong == []


def test_one_that_is_sent_to_sleep_while_it_wakes_goes_once_it_is_there() -> None:
    world, _ = swapped()
    world.command(SetWish(target="chat", verb="wake", by="ada"))
    assert world.run(60.0, until=lambda: "chat" in world.s.pending)
    world.command(SetWish(target="chat", verb="sleep", by="bob"))
    assert world.run(60.0, until=lambda: world.form("chat") == "awake")
    assert world.run(60.0, until=lambda: world.form("chat") == "asleep")
    assert world.wrong == []


def test_one_that_is_woken_while_it_goes_to_sleep_comes_back() -> None:
    world = World({"gpu0": 24 * GIB})
    world.service(service_spec("chat", 16, 1), OURS)
    world.ask("chat")
    assert world.run(60.0, until=lambda: world.form("chat") == "awake")
    world.run(5.0)
    world.command(SetWish(target="chat", verb="sleep", by="ada"))
    assert world.run(60.0, until=lambda: "chat" in world.s.pending)
    world.command(SetWish(target="chat", verb="wake", by="ada"))
    assert world.run(60.0, until=lambda: world.form("chat") == "asleep")
    assert world.run(60.0, until=lambda: world.form("chat") == "awake" and chat(world).called_by is None)
    assert world.wrong == []


def test_a_call_to_one_that_cannot_start_ends_with_its_last_try_and_another_call_tries_anew() -> None:
    world = World({"gpu0": 24 * GIB})
    world.service(service_spec("chat", 16), Habit(bytes_=16 * GIB, failing_starts=3))
    world.run(5.0)
    world.command(SetWish(target="chat", verb="start", by="ada"))
    assert world.run(60.0, until=lambda: "service.failed" in world.codes("chat"))
    assert world.run(5.0, until=lambda: chat(world).called_by is None)
    world.run(600.0)
    assert (world.starts["chat"], world.form("chat")) == (2, "stopped"), "nobody asks for it any more"
    world.command(SetWish(target="chat", verb="start", by="ada"))
    assert world.run(60.0, until=lambda: world.form("chat") == "awake")
    assert world.wrong == []


def test_one_that_does_not_wake_is_started_anew_for_a_call() -> None:
    world = World({"gpu0": 24 * GIB})
    world.service(service_spec("chat", 16, 1), OURS)
    world.ask("chat")
    assert world.run(60.0, until=lambda: world.form("chat") == "awake")
    world.command(SetWish(target="chat", verb="sleep", by="ada"))
    assert world.run(60.0, until=lambda: world.form("chat") == "asleep")
    world.habits["chat"] = replace(OURS, hanging=("awake",))
    world.command(SetWish(target="chat", verb="wake", by="ada"))
    assert world.run(2000.0, until=lambda: "chat" in world.s.pending and world.s.pending["chat"].frees)
    world.habits["chat"] = OURS
    assert world.run(60.0, until=lambda: world.form("chat") == "awake")
    assert world.wrong == []


def test_one_that_somebody_else_started_and_that_wakes_by_itself_is_not_sent_to_sleep_again() -> None:
    scene = Scene(24).service(THEIRS, "asleep", run=None, **SENT)
    scene.at(T0_S + 1).fold(
        Observed(holder="chat", at_s=T0_S + 1, form="awake", ready=True, upstream="http://x")
    )
    assert chat(scene).dismissed_by is None


def test_sent_to_sleep_during_a_window_it_is_not_called_back_at_the_end() -> None:
    scene = under(Scene(24).service(SLEEPS, "stopped", back_s=T0_S + 600), window())
    tell(scene, "sleep")
    draft = scene.draft()
    windows.turned(draft)
    scene.s = draft.done()
    assert chat(scene).back_s is None


def test_in_shadow_mode_nobody_is_told_that_a_request_wakes_a_sleeper() -> None:
    scene = asleep()
    assert explain("chat", scene.s, {}).code == "aside"
    why = explain("chat", with_mode(scene, mode="shadow").s, {})
    assert (why.code, why.help) == ("shadow", "headway mode live")
