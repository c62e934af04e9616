"""Windows: what is open, what it closes, and that the model is ready at its end. A case's name is what it proves."""

from __future__ import annotations

from typing import Any

import pytest

from headway.core import windows
from headway.core.commands import StartWindow, StopWindow
from headway.core.deadlines import release_limit_s
from headway.core.facts import WindowsDue
from headway.core.lifecycle import rule
from headway.core.model import GIB, Pending, Waiting, Window
from headway.core.view import overview, reason
from tests.core.make import T0_S, Scene, dev, job_spec, service_spec
from tests.core.test_rules import PARKS, SLEEPS, stays, verdict, with_mode
from tests.core.test_wishes import says
from tests.core.world import Habit, World

pytestmark = pytest.mark.core

ASKED = {"attended": Waiting(n=1, since_s=T0_S - 1)}


def window(kind: Any = "no_model", begin_s: float = -10.0, end_s: float = 600.0, **given: Any) -> Window:
    """One that is open now and ends in ten minutes, unless said otherwise: instants from now."""
    return Window(id="w1", kind=kind, begin_s=T0_S + begin_s, end_s=T0_S + end_s, **given)


def under(scene: Scene, *open_: Window) -> Scene:
    return with_mode(scene, windows=open_)


THEIRS = service_spec(asleep=1, argv=())
STAYS = {
    # name: (scene, windows, (code, where to))
    "a model is stopped": (Scene(24).service(), (window(),), ("no_model", "stopped")),
    "a model that can sleep is stopped all the same": (Scene(24).service(SLEEPS), (window(),), ("no_model", "stopped")),
    "a sleeper is stopped": (Scene(24).service(SLEEPS, "asleep"), (window(),), ("no_model", "stopped")),
    "one that we cannot start again sleeps": (Scene(24).service(THEIRS), (window(),), ("no_model", "asleep")),
    "a pinned model is stopped": (Scene(24).service(service_spec(keep_awake=True)), (window(),), ("no_model", "stopped")),
    "a busy model is asked too: its gate closes first": (Scene(24).service(active=2), (window(),), ("no_model", "stopped")),
    "one that the window is not for": (Scene(24).service(), (window(services=("code",)),), None),
    "before it begins": (Scene(24).service(), (window(begin_s=1.0),), None),
    "at its very end": (Scene(24).service(), (window(end_s=0.0),), None),
    "stopped before its time": (Scene(24).service(), (window(stopped_by="ada"),), None),
    "a slow_wake window closes nothing": (Scene(24).service(), (window("slow_wake"),), None),
    "one that is called back stays": (Scene(24).service(called_back=True, back_s=T0_S + 5), (window(),), None),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_who_stays(name: str) -> None:
    scene, open_, expected = STAYS[name]
    assert stays(under(scene, *open_), "chat") == expected


def test_a_request_wakes_nobody_in_a_no_model_window_and_says_until_when() -> None:
    no = verdict(under(Scene(24).service(form="stopped", demand=ASKED), window()), "chat")
    assert (no.code, no.until_s) == ("no_model", T0_S + 600.0)


@pytest.mark.parametrize(("mode", "code"), [("live", "no_model"), ("shadow", "shadow")])
def test_a_model_that_nobody_asks_for_is_said_to_be_kept_aside_by_the_window_over_it(
    mode: Any, code: str
) -> None:
    scene = with_mode(under(Scene(24).service(form="stopped"), window()), mode=mode)
    assert reason(scene.s.holders["chat"], scene.s, {}).code == code


def test_a_pinned_model_does_not_come_back_in_a_no_model_window() -> None:
    scene = Scene(24).service(service_spec(keep_awake=True), "stopped")
    assert verdict(under(scene, window()), "chat").code == "no_model"


def test_a_gap_job_starts_without_a_gap_while_its_model_is_closed() -> None:
    scene = Scene(24).service(form="stopped", demand=ASKED).job(form="stopped")
    assert verdict(under(scene, window()), "train").code == "goes"


def test_of_two_windows_the_one_that_ends_last_counts() -> None:
    scene = under(Scene(24).service(), window(), window(end_s=900.0))
    found = windows.over("chat", scene.s)
    assert found is not None and found.end_s == T0_S + 900.0


# ---------------------------------------------------------------- commands and the calendar


def test_a_window_by_hand_is_open_at_once_has_a_name_of_its_own_and_is_ended_by_it() -> None:
    scene = Scene(24).service()
    reply = says(scene, StartWindow(kind="no_model", for_s=7200.0, services=("chat",), wall_s=1e9, by="ada"))
    assert (reply.accepted, reply.facts["window"]) == (True, "w1")
    (row,) = overview(scene.s, {}).windows
    assert (row.state, row.ends_in_s, row.ends_wall_s, row.by) == ("open", 7200.0, 1e9 + 7200.0, "ada")
    assert stays(scene, "chat") == ("no_model", "stopped")
    assert says(scene, StopWindow(target="w1", by="bob")).accepted
    assert stays(scene, "chat") is None
    assert says(scene, StartWindow(kind="slow_wake", for_s=1.0)).facts["window"] == "w2"


REFUSED: dict[str, tuple[StartWindow | StopWindow, str]] = {
    # name: (command, code)
    "a window for one that is no service": (StartWindow(kind="no_model", for_s=9.0, services=("nobody",)), "not_a_service"),
    "ending one that is not known": (StopWindow(target="w7"), "unknown_window"),
    "ending one that is not open": (StopWindow(target="night"), "window_not_open"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_commands_that_are_refused_change_nothing(name: str) -> None:
    command, code = REFUSED[name]
    scene = Scene(24).service().fold(due(60.0))
    before = scene.s.windows
    assert says(scene, command).code == code
    assert scene.s.windows == before


def due(
    begin_s: float = -60.0, end_s: float = 600.0, occurs: str = "monday", wall_s: float = 5e8
) -> WindowsDue:
    turn = window("slow_wake", begin_s, end_s, occurs=occurs)
    return WindowsDue(windows=(Window(**{**fields(turn), "id": "night"}),), wall_s=wall_s)


def fields(one: Window) -> dict[str, Any]:
    return {name: getattr(one, name) for name in Window.__slots__}


def test_what_was_said_of_a_turn_by_hand_holds_when_the_calendar_is_read_again() -> None:
    scene = Scene(24).fold(due())
    assert says(scene, StopWindow(target="night", by="ada")).accepted
    scene.fold(due(-61.0, 599.0))
    assert [w.stopped_by for w in scene.s.windows] == ["ada"]
    scene.fold(due(occurs="tuesday"))
    assert [w.stopped_by for w in scene.s.windows] == [None]


def test_a_window_of_the_config_that_is_gone_from_it_is_gone_and_one_by_hand_stays() -> None:
    scene = Scene(24).fold(due())
    says(scene, StartWindow(kind="no_model", for_s=100.0, wall_s=1e9))
    scene.fold(WindowsDue(windows=(), wall_s=2e9))
    assert [(w.id, w.end_wall_s) for w in scene.s.windows] == [("w1", 2e9 + 100.0)]  # the clock was set


# ---------------------------------------------------------------- slow wakes, and the clock of a wake


def limit_s(scene: Scene, cause: str | None = "chat") -> float:
    job = scene.s.holders["train"]
    found = rule(job, job.form, "parked")
    assert found is not None
    return release_limit_s(job, "parked", found, cause, scene.s)


def parked_in(*times_s: float, **given: Any) -> Scene:
    scene = Scene(48).job(PARKS, **given).service(form="stopped", demand=ASKED)
    job = scene.s.holders["train"]
    forms = tuple(
        type(f)(name=f.name, declared_bytes=f.declared_bytes, enters_s=times_s) if f.name == "parked" else f
        for f in job.forms
    )
    job = type(job)(**{**{n: getattr(job, n) for n in job.__dataclass_fields__}, "forms": forms})
    return scene.put(job)


LIMITS = {
    # name: (scene, limit in seconds); the driver's own limit is 30 s
    "quick parks": (parked_in(1.0, 1.2), 10.0),
    "nine of ten": (parked_in(*[8.0] * 9, 100.0), 16.0),
    "slow parks": (parked_in(20.0, 20.0), 30.0),
    "never measured": (parked_in(), 30.0),
    "in a slow_wake window": (under(parked_in(1.0), window("slow_wake")), 30.0),
    "in a slow_wake window of another model": (under(parked_in(1.0), window("slow_wake", services=("code",))), 10.0),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_how_long_a_victim_has(name: str) -> None:
    scene, expected = LIMITS[name]
    assert limit_s(scene) == expected


def test_one_clock_runs_for_all_victims_of_a_wake_from_its_first_release() -> None:
    first: dict[str, Any] = {"id": "first", "pushed_by": "chat", "pushed_s": T0_S}
    scene = parked_in(1.0).job(PARKS, **first)
    scene.put(scene.s.holders["first"], _parking("first"))
    assert limit_s(scene.at(T0_S + 3.0)) == 7.0
    assert limit_s(scene.at(T0_S + 3.0), cause="code") == 10.0  # another wake has a clock of its own
    assert limit_s(scene.at(T0_S + 30.0)) == 5.0  # one that is asked late is no stuck one


def _parking(hid: str) -> Pending:
    return Pending(
        holder=hid, source="running", to="parked", devices=(dev("gpu0"),), exclusive=False, frees=True,
        started_s=T0_S, limit_at_s=T0_S + 10.0, cause="chat",
    )  # fmt: skip


# ---------------------------------------------------------------- a whole window


def playing(**given: Any) -> tuple[World, str]:
    """A model that starts in 5 s, and a job that parks in 2 s, both measured once."""
    world = World({"gpu0": 24 * GIB})
    habit = Habit(bytes_=16 * GIB, residue=GIB, start_s=5.0, stop_s=1.0)
    world.service(service_spec("chat", 16, **given), habit)
    job = world.job(job_spec("train", 14, 1), Habit(bytes_=14 * GIB, residue=GIB, aside_s=2.0))
    world.ask("chat")
    assert world.run(60.0, until=lambda: world.form("chat") == "awake")
    return world, job


def test_the_model_is_stopped_a_job_runs_and_the_model_is_ready_at_the_end() -> None:
    world, job = playing()
    began_s = world.now_s
    world.command(StartWindow(kind="no_model", for_s=300.0, services=("chat",)))
    assert world.run(60.0, until=lambda: (world.form("chat"), world.form(job)) == ("stopped", "running"))
    world.run(began_s + 280.0 - world.now_s)
    assert (world.form("chat"), world.form(job)) == ("stopped", "running")
    assert world.run(began_s + 300.0 - world.now_s, until=lambda: world.form("chat") == "awake")
    assert world.form(job) in ("parked", "stopped")
    world.run(60.0)
    assert world.wrong == []
    assert world.codes().count("window.ended") == 1


def test_a_model_whose_window_is_short_stays_once_it_is_called_back() -> None:
    """Also where a job would take it in a window, and however long its start was thought to take."""
    world, _ = playing()
    at_once = job_spec("night", 14, 1, placement="window")
    world.job(at_once, Habit(bytes_=14 * GIB, residue=GIB, aside_s=2.0))
    began_s, before = world.now_s, len(world.moves)
    world.command(StartWindow(kind="no_model", for_s=25.0, services=("chat",)))
    world.run(began_s + 24.5 - world.now_s)
    assert world.form("chat") == "awake" and world.wrong == []
    assert [move.form for _, move in world.moves[before:] if move.holder == "chat"] == ["stopped", "awake"]


@pytest.mark.parametrize("placement", ["gap", "window"])
def test_no_job_takes_the_memory_of_a_model_that_was_called_back(placement: Any) -> None:
    scene = Scene(24).service(called_back=True, back_s=T0_S + 60, last_end_s=T0_S - 900)
    scene = under(scene.job(job_spec(placement=placement), "stopped"), window())
    no = verdict(scene, "train")
    assert (no.code, no.until_s) == ("residency", T0_S + 60)


def test_a_window_that_is_stopped_gives_the_model_back_at_once() -> None:
    world, _ = playing()
    world.command(StartWindow(kind="no_model", for_s=3000.0))
    assert world.run(60.0, until=lambda: world.form("chat") == "stopped")
    world.command(StopWindow(target="w1"))
    assert world.run(60.0, until=lambda: world.form("chat") == "awake")
    assert world.wrong == []


def test_a_model_that_was_aside_when_the_window_came_stays_aside_at_its_end() -> None:
    world = World({"gpu0": 24 * GIB})
    world.service(service_spec("chat", 16), Habit(bytes_=16 * GIB))
    world.command(StartWindow(kind="no_model", for_s=30.0))
    world.run(120.0)
    assert world.form("chat") == "stopped"
    assert [m for _, m in world.moves] == []
