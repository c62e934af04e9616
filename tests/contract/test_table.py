"""The gate's table from a snapshot: what a refusal will say."""

from dataclasses import replace

import pytest

from headway.core import view
from headway.core.decide import decide
from headway.core.model import Waiting, Window
from headway.daemon.table import rows
from tests.core.lease_scene import held
from tests.core.make import T0_S, Scene, gib, job_spec, service_spec

pytestmark = pytest.mark.contract


def why(scene: Scene, name: str = "chat") -> dict[str, object]:
    """The facts of that row, after a pass."""
    return dict(rows(scene.s, decide(scene.s).verdicts)[name].why)


def state(scene: Scene, name: str = "chat") -> str:
    return rows(scene.s, decide(scene.s).verdicts)[name].state


def asked() -> dict[str, Waiting]:
    """One attended request that came long ago."""
    return {"attended": Waiting(n=1, since_s=0.0)}


def test_a_need_larger_than_every_device_is_refused_at_once_with_need_and_devices() -> None:
    scene = Scene(24).service(service_spec(awake=30), form="stopped", demand=asked())
    facts = why(scene)
    assert state(scene) == "failed"
    assert (facts["code"], facts["need_bytes"], facts["devices"]) == (
        "never_fits",
        gib(30),
        {"gpu0": gib(24)},
    )
    assert "30 GiB" in str(facts["message"]) and "24 GiB" in str(facts["message"])


def test_a_service_that_nobody_asked_for_yet_names_who_holds_its_memory() -> None:
    scene = Scene(24).service(form="stopped").job(job_spec(running=14))
    assert (why(scene)["activity"], why(scene)["preemptible"]) == ("train", True)


def test_nobody_is_named_where_there_is_room() -> None:
    scene = Scene(24).service(form="stopped").job(job_spec(running=4, placement="share"))
    assert "activity" not in why(scene)


def test_a_service_does_not_name_itself() -> None:
    scene = Scene(24).service(form="stopped", demand={"background": Waiting(n=1, since_s=900.0)}).job()
    assert why(scene)["activity"] == "train"


def test_the_largest_stranger_is_named() -> None:
    scene = Scene(24).service(form="stopped", demand=asked())
    scene.read(foreign=gib(12), strangers=((4711, gib(10)), (4712, gib(2))))
    facts = why(scene)
    assert (facts["activity"], facts["pids"], facts["outside_bytes"]) == ("pid 4711", [4711, 4712], gib(12))


def test_a_service_held_by_hand_says_by_whom() -> None:
    scene = Scene(24).service(form="stopped", wish="hold", wish_by="ana", wish_s=1.0)
    assert state(scene) == "failed"
    assert why(scene)["message"] == "chat: held by ana, until it is released."
    assert why(scene)["code"] == "held"


def test_a_service_that_a_person_is_stopping_counts_as_held_already() -> None:
    scene = Scene(24).service(form="awake", wish="stop", wish_by="ana", wish_s=1.0)
    scene.under_way("chat", "awake", "stopped")
    assert (state(scene), why(scene)["code"]) == ("failed", "held")


def test_without_any_device_the_meter_is_the_reason_and_not_a_count_of_places() -> None:
    scene = Scene()
    hid = scene.queue(job_spec(running=14))
    scene.s = replace(scene.s, meter_trouble="the library is missing")
    late = view.explain(hid, scene.s, decide(scene.s).verdicts)
    assert (late.code, late.sentence) == (
        "no_device",
        "queued: no device can be read: the library is missing",
    )
    early = replace(scene.s, booted_s=scene.s.now_s - 1.0)
    soon = view.explain(hid, early, decide(early).verdicts)
    assert (soon.code, "the library is missing" in soon.sentence) == ("first_reading", True)


@pytest.mark.parametrize("form", ["awake", "stopped"])
def test_in_a_no_model_window_the_gate_is_told_its_end_and_a_request_waits_for_nothing(form: str) -> None:
    scene = Scene(24).service(form=form)
    night = Window(id="night", kind="no_model", begin_s=T0_S - 1, end_s=T0_S + 60, end_wall_s=1e9)
    scene.s = replace(scene.s, windows=(night,))
    assert state(scene) == "failed"
    assert why(scene) == {"code": "no_model", "window": "night", "until_wall_s": 1e9}
    scene.s = replace(scene.s, mode="shadow")
    assert state(scene) != "failed"


def test_the_gate_is_told_of_a_slow_wake_window() -> None:
    scene = Scene(24).service()
    assert rows(scene.s, {})["chat"].window is None
    scene.s = replace(
        scene.s, windows=(Window(id="w1", kind="slow_wake", begin_s=T0_S - 1, end_s=T0_S + 60),)
    )
    assert (rows(scene.s, {})["chat"].window, state(scene)) == ("slow_wake", "awake")


FAILING = {
    # name: (form, is it ours to start, state)
    "it could not be woken, so it is started anew": ("asleep", True, "aside"),
    "it could not be woken, and somebody else starts it": ("asleep", False, "failed"),
    "it could not be started": ("stopped", True, "failed"),
    "nobody knows where it is": (None, True, "failed"),
}


@pytest.mark.parametrize(("form", "ours", "expected"), FAILING.values(), ids=FAILING.keys())
def test_who_waits_is_refused_only_where_waiting_does_not_help(
    form: str | None, ours: bool, expected: str
) -> None:
    spec = service_spec(asleep=1, argv=("serve",) if ours else ())
    scene = Scene(24).service(spec, form, failures=2, retry_at_s=T0_S + 15, note="driver_failed")
    assert state(scene.read()) == expected


def test_a_row_does_not_change_by_time_alone() -> None:
    scene = Scene(24).service(form="stopped", demand=asked()).job()
    before = rows(scene.s, decide(scene.s).verdicts)
    later = replace(scene.s, now_s=scene.s.now_s + 0.5)
    assert rows(later, decide(later).verdicts) == before


PROBES = ("/health", "/metrics")


def test_probes_are_told_only_while_it_sleeps_and_nothing_is_done_to_it() -> None:
    spec = replace(service_spec(asleep=1), asleep_probes=PROBES)
    for form, told in (("awake", ()), ("asleep", PROBES), ("stopped", ()), (None, ())):
        scene = Scene(24).service(spec, form=form)
        assert rows(scene.s, decide(scene.s).verdicts)["chat"].probes == told, form
    for to in ("awake", "stopped"):
        scene = Scene(24).service(spec, form="asleep").under_way("chat", "asleep", to)
        assert rows(scene.s, decide(scene.s).verdicts)["chat"].probes == (), to


def test_who_holds_the_memory_is_told_with_instants_that_do_not_move_by_the_second() -> None:
    scene = Scene(24).service(form="stopped").job(job_spec(running=14))
    scene.s = replace(scene.s, boot_id="b")
    facts = why(scene)
    assert (facts["since_s"], facts["boot"], "until_s" in facts) == (T0_S - 400.0, "b", False)
    assert why(scene.at(T0_S + 1.0)) == facts


def test_a_lease_is_told_with_its_end() -> None:
    scene = Scene(24).service(form="stopped", demand=asked())
    lid = held(scene, 20, expires_s=T0_S + 600.0)
    facts = why(scene)
    assert (facts["activity"], facts["since_s"], facts["until_s"]) == (lid, T0_S - 400.0, T0_S + 600.0)
