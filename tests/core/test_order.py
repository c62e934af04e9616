"""The order of wants, and whom a pass pushes aside: the cheapest, no innocents, deeper only where it must."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.core import rank
from headway.core.decide import decide, target
from headway.core.model import Policy, Waiting
from tests.core.make import Scene, dev, gib, job_spec, service_spec

pytestmark = pytest.mark.core

NOW_S = 1000.0


def asked(waited_s: float = 1.0, cls: str = "attended") -> dict[str, Waiting]:
    return {cls: Waiting(n=1, since_s=NOW_S - waited_s)}


def aside(scene: Scene) -> dict[str, str]:
    """Who is put into which lower form."""
    plan, _ = target(scene.read().s)
    return {hid: plan.placed[hid][0] for hid in plan.causes}


def test_wants_come_in_one_order() -> None:
    scene = Scene(24, 24, policy=Policy(max_active_jobs=9))
    scene.service(service_spec("idle"))
    scene.service(service_spec("back"), "stopped", demand=asked(60.0, "background"))
    scene.job(job_spec("low", priority=20), "stopped")
    scene.job(job_spec("high", priority=80), "stopped")
    scene.service(service_spec("late"), "stopped", demand=asked(60.0))
    scene.service(service_spec("soon"), "stopped", demand=asked(2.0))
    scene.service(service_spec("sooner"), "stopped", demand=asked(3.0))
    found = [want.holder.id for want in rank.wants(scene.s)]
    assert found == ["late", "sooner", "soon", "high", "low", "back", "idle"]


def test_only_so_many_of_a_long_queue_are_looked_at() -> None:
    scene = Scene(24, policy=Policy(depth=4))
    for number in range(30):
        scene.queue(job_spec(f"job{number}"))
    assert len(list(rank.wants(scene.s))) == 5
    assert len(decide(scene.read().s).verdicts) == 5


def test_jobs_added_in_one_turn_stand_in_the_order_in_which_they_came() -> None:
    scene = Scene(24)
    ids = [scene.queue(job_spec()) for _ in range(12)]
    assert [hid for _, hid in scene.s.queue["gpu"]] == ids


def test_nobody_is_pushed_whose_staying_still_fits() -> None:
    scene = Scene(48, policy=Policy(max_active_jobs=9)).service(
        service_spec(awake=16), "stopped", demand=asked()
    )
    for name, size in (("a", 2), ("b", 30), ("c", 10)):
        scene.job(job_spec(name, size, 0, placement="share"))
    assert aside(scene) == {"b": "parked"}


def test_a_job_that_loses_nothing_goes_before_one_that_does() -> None:
    scene = Scene(48, policy=Policy(max_active_jobs=9)).service(
        service_spec(awake=16), "stopped", demand=asked()
    )
    scene.job(job_spec("loses", 20, placement="share")).job(
        job_spec("saved", 20, placement="share"), saved_age_s=0.0
    )
    assert aside(scene) == {"saved": "stopped"}


def test_of_two_devices_the_one_is_taken_where_less_is_lost() -> None:
    scene = Scene(24, 24).service(service_spec(), "stopped", demand=asked())
    scene.job(job_spec("loses", 20)).job(job_spec("parks", 20, 1), on=("gpu1",))
    assert aside(scene) == {"parks": "parked"}


def test_a_job_that_is_starting_is_not_pushed_by_a_weaker_one() -> None:
    scene = Scene(24).job(job_spec("strong", 14, 1, priority=80), "stopped", devices=(dev("gpu0"),))
    scene.under_way("strong", "stopped", "running").job(job_spec("weak", 14), "stopped")
    assert aside(scene) == {}


def test_the_model_that_was_unused_for_longest_goes_first() -> None:
    scene = Scene(48).service(service_spec("new", 16), "stopped", demand=asked())
    scene.service(service_spec("used", 20), last_end_s=NOW_S - 30)
    scene.service(service_spec("unused", 20), last_end_s=NOW_S - 300)
    assert aside(scene) == {"unused": "stopped"}


def test_a_gap_job_puts_every_model_on_its_device_aside_although_all_would_fit() -> None:
    scene = Scene(80).service(service_spec("a", 8, 1)).service(service_spec("b", 8, 1)).job(form="stopped")
    assert aside(scene) == {"a": "asleep", "b": "asleep"}


def test_a_sleeper_is_pushed_further_down_when_its_residue_is_in_the_way() -> None:
    scene = Scene(16).service(service_spec(awake=12, asleep=1), "asleep")
    scene.service(service_spec("big", 15.7), "stopped", demand=asked())
    assert aside(scene) == {"chat": "stopped"}


def test_one_that_is_awake_goes_straight_to_the_form_that_makes_room() -> None:
    scene = Scene(16).service(service_spec(awake=12, asleep=1))
    scene.service(service_spec("big", 15.7), "stopped", demand=asked())
    assert aside(scene) == {"chat": "stopped"}
    assert aside(
        Scene(18)
        .service(service_spec(awake=12, asleep=1))
        .service(service_spec("big", 15.7), "stopped", demand=asked())
    ) == {"chat": "asleep"}


def test_an_attended_want_keeps_its_place_against_weaker_ones_that_would_fill_it() -> None:
    scene = Scene(24).service(service_spec(), active=1, active_since_s=NOW_S, last_end_s=NOW_S - 20)
    scene.service(service_spec("code"), "stopped", demand=asked())
    scene.job(job_spec(running=1, placement="share"), "stopped")
    _, verdicts = target(scene.read().s)
    assert (verdicts["code"].code, verdicts["train"].code) == ("model_busy", "reserved")


def test_one_that_strangers_keep_out_reserves_nothing() -> None:
    scene = Scene(24).service(service_spec(), "stopped", demand=asked())
    scene.job(job_spec(running=4, placement="share"), "stopped")
    _, verdicts = target(scene.read(foreign=gib(12)).s)
    assert (verdicts["chat"].code, verdicts["train"].code) == ("memory", "goes")


def test_a_stronger_job_takes_the_place_of_the_weakest_that_loses_nothing() -> None:
    scene = Scene(80, policy=Policy(max_active_jobs=2))
    scene.job(job_spec("a", 1, 0.1, priority=50)).job(job_spec("b", 1, 0.1, priority=40)).job(
        job_spec("high", 1, priority=80), "stopped"
    )
    assert aside(scene) == {"b": "parked"}
    assert (
        aside(
            Scene(80, policy=Policy(max_active_jobs=1))
            .job(job_spec("a", 1))
            .job(job_spec("high", 1, priority=80), "stopped")
        )
        == {}
    )


def test_an_equal_job_waits_for_its_turn() -> None:
    scene = Scene(80).job(job_spec("a", 1, 0.1)).job(job_spec("b", 1), "stopped", key=0.0)
    assert aside(scene) == {}


def test_the_next_look_is_in_the_future_and_when_time_alone_changes_an_answer() -> None:
    scene = Scene(24, policy=Policy(gap_min_s=5.0)).service(last_end_s=NOW_S - 1).job(form="stopped")
    assert decide(scene.read().s).recheck_at_s == pytest.approx(NOW_S + 4.0)
    busy = replace(scene.s.holders["chat"], since_s=NOW_S - 400)
    assert decide(scene.put(busy).at(NOW_S + 100).s).recheck_at_s is None


def test_what_counts_is_what_is_lost_on_the_way_to_where_each_must_go() -> None:
    """On gpu0 one would have to go beyond parked, and lose its work; on gpu1 two are at a saved point."""
    scene = Scene(24, 24, policy=Policy(max_active_jobs=9)).service(
        service_spec(awake=23.5), "stopped", demand=asked()
    )
    scene.job(job_spec("a", 8, 1))
    for name in ("b", "c"):
        scene.job(job_spec(name, 4, placement="share"), on=("gpu1",), saved_age_s=0.0)
    assert aside(scene) == {"b": "stopped", "c": "stopped"}


def test_a_model_is_stopped_before_a_parked_job_is() -> None:
    scene = Scene(48).service(service_spec("big", 47), "stopped", demand=asked())
    scene.service(service_spec(awake=8, asleep=1)).job(job_spec("a", 4, 1), "parked", saved_age_s=90.0)
    assert aside(scene) == {"chat": "stopped"}
    assert aside(scene.put(replace(scene.s.holders["a"], forms=job_spec(running=4, parked=2).forms))) == {
        "chat": "stopped",
        "a": "stopped",
    }
