"""What "free" means: the one table for plan and step. The name of a case is the sentence it proves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core import fit
from headway.core.decide import target
from headway.core.model import Device, Holder, Pending, Rank, Snapshot, Verdict, Waiting, Want
from tests.core.make import Scene, dev, gib, job_spec, service_spec

pytestmark = pytest.mark.core

GPU = (dev("gpu0"),)


def code(verdict: Verdict | None) -> str | None:
    return verdict.code if verdict else None


def step(scene: Scene, hid: str, form: str, devices: tuple[str, ...] = GPU) -> str | None:
    """May it take this form now? Read right before, as before every step."""
    return code(fit.measured(scene.s.holders[hid], form, devices, scene.s))


def changed(scene: Scene, device: str = "gpu0", **fields: Any) -> Scene:
    devices = {**scene.s.devices, dev(device): replace(scene.s.devices[dev(device)], **fields)}
    scene.s = replace(scene.s, devices=devices)
    return scene


def moving(hid: str, source: str, to: str, frees: bool) -> Pending:
    return Pending(
        holder=hid,
        source=source,
        to=to,
        devices=GPU,
        exclusive=False,
        frees=frees,
        started_s=999.0,
        limit_at_s=1030.0,
    )


def train(total: float, need: float | None, **given: Any) -> Scene:
    """A queued job that needs so much, on one device."""
    return Scene(total).job(job_spec(running=need, placement="share", **given), "stopped").read()


STEPS = {
    # name: (scene, expected code)
    "alone, exactly fits without a reserve": (train(16, 16), None),
    "alone, one byte too much": (train(16, 16 + 1 / (1 << 30)), "memory_now"),
    "a 15.7 GiB model on a 16 GiB card is alone, so nothing is reserved": (train(16, 15.7), None),
    "beside a model at its top, exactly fits above the reserve": (
        train(24, 6.8).service(service_spec(awake=16)).read(),
        None,
    ),
    "beside a model at its top, the reserve is kept": (
        train(24, 6.9).service(service_spec(awake=16)).read(),
        "memory_now",
    ),
    "beside a sleeper only its residue counts, and no reserve": (
        train(24, 23).service(service_spec(asleep=1), "asleep").read(),
        None,
    ),
    "beside a sleeper, one GiB above its residue": (
        train(24, 23.5).service(service_spec(asleep=1), "asleep").read(),
        "memory_now",
    ),
    "a job that has not allocated yet counts with what it declared": (
        train(24, 12).job(job_spec("other", 14, placement="share"), seen_bytes={}).read(),
        "memory_now",
    ),
    "one that grew counts with what it holds": (
        train(24, 12).job(job_spec("other", 8, placement="share"), seen_bytes={GPU[0]: gib(14)}).read(),
        "memory_now",
    ),
    "memory of strangers counts": (train(24, 16).read(foreign=gib(9)), "memory_now"),
    "memory of strangers, exactly beside": (train(24, 16).read(foreign=gib(8)), None),
    "unknown need goes where nobody is at the top": (train(24, None), None),
    "unknown need does not go beside anybody at the top": (
        train(24, None).job(job_spec("other", 1)).read(),
        "needs_alone",
    ),
    "nobody goes beside one whose need is unknown": (
        train(24, 1).job(job_spec("other", None), seen_bytes={GPU[0]: gib(1)}).read(),
        "needs_alone",
    ),
    "unknown need waits for the memory of one that ended": (
        train(24, None)
        .job(job_spec("other", 8), "stopped", ended="done", seen_bytes={GPU[0]: gib(8)})
        .read(),
        "needs_alone",
    ),
    "no reading yet": (changed(train(24, 1), read_at_s=None), "unmeasured"),
    "N/A is not zero and not free": (changed(train(24, 1), free_bytes=None), "unmeasured"),
    "a device in trouble": (changed(train(24, 1), trouble="N/A"), "device_trouble"),
    "a reading of 8 s ago still counts": (train(24, 1).at(1008.0), None),
    "a reading of more than 8 s ago does not": (train(24, 1).at(1008.1), "reading_stale"),
    "a reading from before the last change is too old": (
        changed(train(24, 1), last_change_s=1000.0),
        "reading_too_old",
    ),
    "a declared device has no reading and needs none": (
        changed(train(24, 24), confidence="declared", read_at_s=None, free_bytes=None),
        None,
    ),
    "a declared device, one byte too much": (
        changed(train(24, 24 + 1 / (1 << 30)), confidence="declared", read_at_s=None, free_bytes=None),
        "memory_now",
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_step(name: str) -> None:
    scene, expected = STEPS[name]
    assert step(scene, "train", "running") == expected


def test_a_gap_job_takes_nothing_beside_a_model_that_is_awake_however_much_fits() -> None:
    scene = Scene(80).service().job(form="stopped").read()
    assert step(scene, "train", "running") == "beside_model"


def test_under_a_freeing_move_the_form_it_leaves_counts_and_under_a_taking_one_where_it_goes() -> None:
    spec = job_spec("other", 14, 0.5, placement="share")
    parking = train(24, 12).job(spec, seen_bytes={}).read()
    parking.put(parking.s.holders["other"], moving("other", "running", "parked", frees=True))
    assert step(parking, "train", "running") == "memory_now"
    coming = train(24, 12).job(spec, "parked", seen_bytes={}).read()
    assert step(coming, "train", "running") is None
    coming.put(coming.s.holders["other"], moving("other", "parked", "running", frees=False))
    assert step(coming, "train", "running") == "memory_now"


def test_own_bytes_count_only_while_the_run_that_held_them_lives() -> None:
    scene = Scene(16).service(service_spec(awake=15.5, asleep=1), "asleep").read()
    assert step(scene, "chat", "awake") is None
    service = scene.s.holders["chat"]
    assert service.run is not None
    scene.put(replace(service, run=replace(service.run, lock_held=False))).read()
    assert step(scene, "chat", "awake") == "memory_now"


def test_a_silent_meter_is_told_before_anything_else() -> None:
    scene = train(24, 1)
    scene.s = replace(scene.s, meter_trouble="hangs")
    assert step(scene, "train", "running") == "meter_silent"


def test_a_step_on_two_devices_needs_room_on_both() -> None:
    scene = Scene(24, 24).job(job_spec(running=20, count=2, placement="share"), "stopped")
    scene.job(job_spec("other", 8, placement="share"), on=("gpu1",)).read()
    assert step(scene, "train", "running", (dev("gpu0"),)) is None
    assert step(scene, "train", "running", (dev("gpu0"), dev("gpu1"))) == "memory_now"


# ---------------------------------------------------------------- where


def planned(scene: Scene, hid: str) -> tuple[str, tuple[str, ...]] | None:
    plan, _ = target(scene.s)
    found = plan.placed.get(hid)
    return found and (found[0], tuple(device.split("/")[1] for device in found[1]))


PLACES = {
    "the tightest fit is taken first": (Scene(48, 24, 40).job(job_spec(running=20), "stopped"), ("gpu1",)),
    "two devices need room on each": (
        Scene(16, 24, 24).job(job_spec(running=20, count=2), "stopped"),
        ("gpu1", "gpu2"),
    ),
    "a device named by index": (
        Scene(24, 24).job(job_spec(pinned_devices=("1",)), "stopped"),
        ("gpu1",),
    ),
    "a device named by name": (Scene(24, 24).job(job_spec(pinned_devices=("gpu1",)), "stopped"), ("gpu1",)),
    "a device that was never seen": (Scene(24).job(job_spec(pinned_devices=("gpu7",)), "stopped"), None),
    "an empty device rather than pushing somebody": (
        Scene(24, 24).service(service_spec(awake=20)).job(job_spec(running=20), "stopped"),
        ("gpu1",),
    ),
    "unknown need goes to the empty device too": (
        Scene(24, 24).service(service_spec(awake=None)).job(job_spec(running=None), "stopped"),
        ("gpu1",),
    ),
    "a parked job stays where it is parked": (
        Scene(24, 24).job(job_spec(parked=1), "parked", on=("gpu1",)),
        ("gpu1",),
    ),
    "nowhere, when it is larger than every device": (
        Scene(24, 24).job(job_spec(running=30), "stopped"),
        None,
    ),
    "a device that it exactly fills": (Scene(20).job(job_spec(running=20), "stopped"), ("gpu0",)),
    "not one that is a byte too small": (
        Scene(20).job(job_spec(running=20 + 1 / (1 << 30)), "stopped"),
        None,
    ),
    "two words for one device are one device": (
        Scene(24, 24).job(job_spec(pinned_devices=("0", "gpu0"), count=2), "stopped"),
        None,
    ),
    "the first that fits of those it names, when it needs fewer": (
        Scene(24, 24, 24).job(job_spec(pinned_devices=("2", "1"), count=1), "stopped"),
        ("gpu2",),
    ),
    "a CPU job needs no device": (Scene(24).job(job_spec(running=0, count=0), "stopped"), ()),
    "several services on one device": (
        Scene(48)
        .service(service_spec("a", 16))
        .service(service_spec("b", 16))
        .job(job_spec(running=12, placement="share"), "stopped"),
        ("gpu0",),
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_place(name: str) -> None:
    scene, devices = PLACES[name]
    found = planned(scene.read(), "train")
    assert found == (None if devices is None else ("running", devices))


def test_never_fits_is_told_apart_from_strangers_in_the_way() -> None:
    _, verdicts = target(Scene(24).job(job_spec(running=30), "stopped").read().s)
    assert verdicts["train"].code == "never_fits"
    _, verdicts = target(Scene(24).job(job_spec(running=20), "stopped").read(foreign=gib(10)).s)
    assert verdicts["train"].code == "memory"


def sleeper_on_the_smaller(need: float, foreign: int = 0, waited_s: float = 60.0) -> Scene:
    """A model that sleeps on 24 GiB, asked for, beside an empty device of 48."""
    spec = service_spec(awake=need, asleep=1)
    demand = {"attended": Waiting(n=1, since_s=1000.0 - waited_s)}
    scene = Scene(24, 48).service(spec, "asleep", demand=demand).job(job_spec(placement="share"), "stopped")
    return changed(scene.read(), foreign_bytes=foreign)


BOUND = {
    # name: (scene, code of its verdict)
    "it fits where it sleeps": (sleeper_on_the_smaller(24), "goes"),
    "it became too large for where it sleeps": (sleeper_on_the_smaller(24 + 1 / (1 << 30)), "never_fits"),
    "strangers hold where it sleeps": (sleeper_on_the_smaller(20, gib(9)), "crowded_out"),
    "at first it waits for them to go": (sleeper_on_the_smaller(20, gib(9), waited_s=29.0), "memory"),
    "they leave enough of it": (sleeper_on_the_smaller(20, gib(4)), "goes"),
}


@pytest.mark.parametrize("name", BOUND)
def test_a_sleeper_is_judged_by_the_devices_it_sleeps_on(name: str) -> None:
    scene, expected = BOUND[name]
    plan, verdicts = target(scene.s)
    assert verdicts["chat"].code == expected
    assert plan.reserved == {} and verdicts["train"].code == "goes"


def test_one_that_waits_beside_no_device_of_its_own_is_judged_by_all_of_them() -> None:
    scene = Scene(24, 48).service(service_spec(awake=40), "stopped").read()
    want = Want(holder=scene.s.holders["chat"], form="awake", rank=(Rank.REQUEST, 0.0, "chat"))
    assert fit.possible(want, scene.s)
    assert not fit.possible(want, replace(scene.s, devices={GPU[0]: scene.s.devices[GPU[0]]}))


def test_where_it_stands_was_never_seen_so_nobody_says_that_it_can_never_fit() -> None:
    scene = Scene(24).service(service_spec(awake=40, asleep=1), "asleep", on=("gpu7",)).read()
    want = Want(holder=scene.s.holders["chat"], form="awake", rank=(Rank.REQUEST, 0.0, "chat"))
    assert fit.possible(want, scene.s)


# ---------------------------------------------------------------- released


def release(held: float, read_at_s: float = 1000.5, **device: Any) -> dict[str, int] | None:
    """What is still over of a job of 14 GiB that parks, keeps 1 GiB, and answered at 1000."""
    scene = Scene(24).job(job_spec(parked=1), seen_bytes={GPU[0]: gib(held)}).read()
    pending = replace(moving("train", "running", "parked", frees=True), step="answered", answered_s=1000.0)
    changed(scene, read_at_s=read_at_s, **device)
    return fit.released(pending, scene.s.holders["train"], scene.s)


RELEASED = {
    "down to its residue": (release(1), {}),
    "within the tolerance of 64 MiB": (release(1 + 64 / 1024), {}),
    "one MiB above the tolerance": (release(1 + 65 / 1024), {GPU[0]: gib(1 + 65 / 1024)}),
    "nothing fell": (release(14), {GPU[0]: gib(14)}),
    "a reading of the moment of the answer says nothing": (release(1, read_at_s=1000.0), None),
    "no reading says nothing": (release(1, used_bytes=None), None),
    "trouble says nothing": (release(1, trouble="N/A"), None),
    "a declared device is believed": (release(14, confidence="declared"), {}),
}


@pytest.mark.parametrize("name", RELEASED)
def test_released(name: str) -> None:
    found, expected = RELEASED[name]
    assert found == expected


def test_without_readings_per_process_the_device_must_fall_by_what_was_claimed() -> None:
    scene = Scene(24).job(job_spec(parked=1)).read()
    pending = replace(
        moving("train", "running", "parked", frees=True),
        step="answered",
        answered_s=1000.0,
        used_before={GPU[0]: gib(16)},
    )
    holder = scene.s.holders["train"]
    changed(scene, read_at_s=1000.5, per_process=False, used_bytes=gib(16))
    assert fit.released(pending, holder, scene.s) == {GPU[0]: gib(14)}
    changed(scene, used_bytes=gib(3))
    assert fit.released(pending, holder, scene.s) == {}


def test_the_reserve_is_5_percent_but_at_most_2_gib() -> None:
    s: Snapshot = Scene(24, 80).s
    small, large = (s.devices[dev(name)] for name in ("gpu0", "gpu1"))
    assert fit.reserve_bytes(small, False, s) == int(gib(24) * 0.05)
    assert fit.reserve_bytes(large, False, s) == gib(2)
    assert fit.reserve_bytes(small, True, s) == 0
    assert isinstance(small, Device)


def test_a_bottom_form_needs_nothing_and_an_unknown_residue_is_none() -> None:
    job: Holder = Scene(24).job(job_spec(running=None, parked=None), "stopped").s.holders["train"]
    assert fit.need(job, "stopped") == 0 and fit.need(job, "running") is None
    assert Want(holder=job, form="running", rank=(Rank.JOB, 0.0, "")).holder is job
