"""GPU time given: who counts, for how long, and that no trouble of a disk loses it or counts it twice."""

import asyncio

import pytest

from headway.daemon.giving import KEEP_EVERY_S, LONGEST_S, Giving
from tests.core.lease_scene import held
from tests.core.make import T0_S, Scene, job_spec, service_spec
from tests.parts.fake_store import FakeStore

pytestmark = pytest.mark.contract

WALL_S = 1_700_000_000.0


class Clock:
    at_s = T0_S

    def now_s(self) -> float:
        return self.at_s

    def wall_s(self) -> float:
        return WALL_S + self.at_s - T0_S


class Counted:
    """A daemon's state that stands, and what is kept of it."""

    def __init__(self, scene: Scene, mode: str = "ok") -> None:
        self.scene, self.clock, self.store = scene, Clock(), FakeStore(mode)
        self.giving = Giving(self.store, self.clock, lambda: self.scene.s)

    def after(self, seconds: float) -> None:
        self.clock.at_s += seconds
        self.giving.look()

    def kept(self) -> dict[str, float]:
        sums: dict[str, float] = {}
        for batch in self.store.committed:
            for _, name, gpu_s in batch.given:
                sums[name] = sums.get(name, 0.0) + gpu_s
        return sums


async def test_jobs_and_leases_that_have_devices_count_by_each_and_nobody_else_does() -> None:
    scene = Scene(24, 24, 24).service(service_spec())
    scene.job(job_spec("train"), "running", on=("gpu1", "gpu2"))
    scene.job(job_spec("over"), "running", ended="done")
    scene.job(job_spec("aside"), "stopped", on=())
    scene.job(job_spec("still"), "running", frozen_by_gate=True)
    held(scene, 4, on=("gpu1",))
    counted = Counted(scene)
    counted.after(10.0)
    counted.giving.keep()
    assert counted.kept() == {"job_gpu_s": 20.0, "lease_gpu_s": 10.0}


async def test_who_began_between_two_looks_counts_from_then() -> None:
    counted = Counted(Scene(24).job(job_spec(), "running", since_s=T0_S + 7.0))
    counted.after(10.0)
    counted.giving.keep()
    assert counted.kept() == {"job_gpu_s": 3.0}


async def test_it_is_kept_now_and_then_by_the_day_that_it_is() -> None:
    counted = Counted(Scene(24).job(job_spec(), "running"))
    for _ in range(int(KEEP_EVERY_S) - 1):
        counted.after(1.0)
    assert counted.store.committed == []
    counted.after(1.0)
    (batch,) = counted.store.committed
    assert batch.given == ((WALL_S + KEEP_EVERY_S, "job_gpu_s", KEEP_EVERY_S),)
    counted.scene = Scene(24)
    counted.after(KEEP_EVERY_S)
    counted.giving.keep()
    assert len(counted.store.committed) == 1, "nothing was given: nothing is written"


async def test_a_machine_that_slept_gave_nothing_meanwhile() -> None:
    counted = Counted(Scene(24).job(job_spec(), "running"))
    counted.after(LONGEST_S + 1.0)
    counted.after(5.0)
    counted.giving.keep()
    assert counted.kept() == {"job_gpu_s": 5.0}


@pytest.mark.parametrize("well", [True, False], ids=["late", "lost"])
async def test_a_disk_that_is_late_or_refuses_costs_nothing(well: bool) -> None:
    counted = Counted(Scene(24).job(job_spec(), "running"), "hangs")
    counted.after(10.0)
    counted.giving.keep()
    counted.after(10.0)
    counted.giving.keep()  # the first is still under way
    counted.store.speak(well)
    await asyncio.sleep(0)
    counted.giving.keep()
    assert counted.kept() == {"job_gpu_s": 20.0}
    counted.store.mode = "fails"
    counted.after(1.0)
    counted.giving.keep()
    await asyncio.sleep(0)
    counted.store.mode = "ok"
    counted.giving.keep()
    assert counted.kept() == {"job_gpu_s": 21.0}
