"""One suite over every meter: what a reading holds, when it comes, and who dies with whom."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import psutil
import pytest

from demo import sim_device
from headway.meters.child import ChildMeter
from headway.meters.combined import CombinedMeter
from headway.meters.declared import DeclaredDevice, DeclaredMeter
from headway.meters.lines import boottime_s
from headway.ports import DeviceReading, Meter, Reading
from tests.parts.fake_nvml import Box, FakeGpu
from tests.processes import alive, end
from tests.waiting import wait_for, wait_until

pytestmark = pytest.mark.contract

GIB = 1 << 30
LIMIT_S = 20.0
ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
TOTALS = (24 * GIB, 16 * GIB)


class World(Protocol):
    """Two devices, and who holds what on them."""

    ids: tuple[str, str]
    names: tuple[str, str]
    reads: bool  # there is more to read than the totals
    base_bytes: tuple[int, int]  # used when nobody holds anything

    def meter(self) -> Meter: ...
    def hold(self, number: int, pid: int, held_bytes: int) -> None: ...


class NvmlWorld:
    ids, names, reads = ("n/GPU-a", "n/GPU-b"), ("gpu0", "gpu1"), True
    base_bytes = (350 << 20, 300 << 20)

    def __init__(self, directory: Path) -> None:
        first, second = (
            FakeGpu(uuid=f"GPU-{letter}", total_bytes=total, reserved_bytes=reserved)
            for letter, total, reserved in zip("ab", TOTALS, self.base_bytes, strict=True)
        )
        self.gpus = first, second
        self.box = Box(directory / "box", *self.gpus)

    def meter(self) -> ChildMeter:
        env = self.box.environment() | {"PYTHONPATH": ENV["PYTHONPATH"]}
        return ChildMeter([sys.executable, "-m", "headway.meters.nvml", "--node", "n"], env=env)

    def hold(self, number: int, pid: int, held_bytes: int) -> None:
        self.box.hold(number, held_bytes, pid)


class SimulatedWorld:
    ids, names, reads, base_bytes = ("n/sim0", "n/sim1"), ("sim0", "sim1"), True, (0, 0)

    def __init__(self, directory: Path) -> None:
        self.reports = directory / "reports=here"
        self.reports.mkdir()

    def meter(self) -> ChildMeter:
        argv = [sys.executable, "-m", "headway.meters.simulated", "--node", "n"]
        for name, total in zip(self.names, TOTALS, strict=True):
            argv += ["--device", f"{name}={total}={self.reports}"]
        return ChildMeter(argv, env=ENV)

    def hold(self, number: int, pid: int, held_bytes: int) -> None:
        sim_device.set_bytes(self.reports, self.names[number], held_bytes, pid)


class DeclaredWorld:
    ids, names, reads, base_bytes = ("n/a", "n/b"), ("a", "b"), False, (0, 0)

    def __init__(self, directory: Path) -> None:
        self.devices = [DeclaredDevice(name, total) for name, total in zip(self.names, TOTALS, strict=True)]

    def meter(self) -> DeclaredMeter:
        return DeclaredMeter(self.devices, "n")

    def hold(self, number: int, pid: int, held_bytes: int) -> None:
        raise AssertionError("nothing can be seen on a declared device")


class CombinedWorld:
    """A meter over two; each of its readings holds one device, so `Watched` puts them together."""

    ids, names, reads, base_bytes = ("n/a", "n/b"), ("a", "b"), False, (0, 0)

    def __init__(self, directory: Path) -> None:
        pass

    def meter(self) -> CombinedMeter:
        pairs = zip(self.names, TOTALS, strict=True)
        return CombinedMeter([DeclaredMeter([DeclaredDevice(name, total)], "n") for name, total in pairs])

    def hold(self, number: int, pid: int, held_bytes: int) -> None:
        raise AssertionError("nothing can be seen on a declared device")


WORLDS: dict[str, Callable[[Path], World]] = {
    "nvml": NvmlWorld,
    "simulated": SimulatedWorld,
    "declared": DeclaredWorld,
    "combined": CombinedWorld,
}


class Watched:
    """A running meter and all that it said."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.readings: list[Reading] = []
        self.devices: dict[str, DeviceReading] = {}

    def take(self, reading: Reading) -> None:
        self.readings.append(reading)
        self.devices |= {device.id: device for device in reading.devices}

    async def until(self, true: Callable[[], bool], what: str) -> None:
        """Ask until it is so."""

        def ask() -> bool:
            self.meter.read_now()
            return true()

        await wait_until(ask, LIMIT_S, what)

    async def used(self, device: str, used_bytes: int) -> DeviceReading:
        await self.until(
            lambda: device in self.devices and self.devices[device].used_bytes == used_bytes,
            f"{used_bytes} bytes used on {device}",
        )
        return self.devices[device]


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return WORLDS[request.param](tmp_path)


@pytest.fixture(params=[name for name in WORLDS if name in ("nvml", "simulated")])
def read_world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return WORLDS[request.param](tmp_path)


async def watch(world: World) -> AsyncIterator[Watched]:
    watched = Watched(world.meter())
    await watched.meter.start(watched.take)
    try:
        await wait_until(lambda: len(watched.devices) == 2, LIMIT_S, f"both devices; {watched.readings}")
        yield watched
    finally:
        await watched.meter.stop()


@pytest.fixture
async def watched(world: World) -> AsyncIterator[Watched]:
    async for made in watch(world):
        yield made


@pytest.fixture
async def reads(read_world: World) -> AsyncIterator[Watched]:
    async for made in watch(read_world):
        yield made


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[bytes]]:
    """A process whose name holds what /proc uses as a mark."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    yield child
    child.kill()
    child.wait(timeout=10)


def programs() -> list[psutil.Process]:
    """The meter programs that this process runs. It may have other children, and ended ones among them."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # also of one that has ended, and is not waited for yet
            found += [child] if any("headway.meters" in word for word in child.cmdline()) else []
    return found


# ---------------------------------------------------------------- what is read, and when


async def test_it_names_its_devices(world: World, watched: Watched) -> None:
    for number, id_ in enumerate(world.ids):
        device = watched.devices[id_]
        assert (device.name, device.total_bytes) == (world.names[number], TOTALS[number])
        assert device.trouble is None
        assert watched.readings[-1].trouble is None


async def test_unknown_is_none_never_zero(world: World, watched: Watched) -> None:
    for device in watched.devices.values():
        if world.reads:
            assert device.confidence == "measured" and device.processes == ()
        else:
            assert (device.used_bytes, device.free_bytes, device.processes) == (None, None, None)
            assert device.confidence == "declared"


async def test_a_reading_comes_every_second_by_itself(watched: Watched) -> None:
    before = len(watched.readings)
    await wait_until(lambda: len(watched.readings) >= before + 4, LIMIT_S, "readings by themselves")


async def test_asked_it_answers_at_once(watched: Watched) -> None:
    """Ten in a row would take ten seconds at one a second."""
    began_s = time.monotonic()
    for _ in range(10):
        asked_s, known = boottime_s(), len(watched.readings)
        watched.meter.read_now()
        await wait_until(
            lambda asked_s=asked_s, known=known: any(r.at_s >= asked_s for r in watched.readings[known:]),
            LIMIT_S,
            "a reading begun after it was asked for",
        )
        assert watched.readings[-1].at_s <= boottime_s()
    assert time.monotonic() - began_s < 7


async def test_nothing_is_said_after_the_stop(world: World) -> None:
    watched = Watched(world.meter())
    await watched.meter.stop()  # before it was started: nothing to stop
    watched = Watched(world.meter())
    watched.meter.read_now()
    await watched.meter.start(watched.take)
    await wait_until(lambda: watched.readings != [], LIMIT_S)
    running = programs()
    watched.meter.read_now()
    await watched.meter.stop()
    said = len(watched.readings)
    await watched.meter.stop()
    watched.meter.read_now()
    await asyncio.sleep(0)
    assert len(watched.readings) == said
    assert not any(alive(program.pid) for program in running)


# ---------------------------------------------------------------- who holds what


async def test_bytes_are_seen_by_process(
    read_world: World, reads: Watched, holder: subprocess.Popen[bytes]
) -> None:
    me, base = os.getpid(), read_world.base_bytes[1]
    read_world.hold(1, me, 3 * GIB)
    read_world.hold(1, holder.pid, 2 * GIB)
    device = await reads.used(read_world.ids[1], 5 * GIB + base)
    assert device.free_bytes == TOTALS[1] - 5 * GIB - base
    assert device.processes == tuple(sorted([(me, 3 * GIB), (holder.pid, 2 * GIB)]))
    assert reads.devices[read_world.ids[0]].processes == ()
    read_world.hold(1, me, 1 * GIB)
    await reads.used(read_world.ids[1], 3 * GIB + base)


async def test_a_dead_process_holds_nothing_not_even_as_a_zombie(
    read_world: World, reads: Watched, holder: subprocess.Popen[bytes]
) -> None:
    base = read_world.base_bytes[0]
    read_world.hold(0, holder.pid, 4 * GIB)
    await reads.used(read_world.ids[0], 4 * GIB + base)
    holder.kill()  # and not waited for: it stays a zombie
    assert (await reads.used(read_world.ids[0], base)).processes == ()
    assert psutil.Process(holder.pid).status() == psutil.STATUS_ZOMBIE


# ---------------------------------------------------------------- who dies with whom


async def test_a_killed_program_is_started_again(read_world: World, reads: Watched) -> None:
    (program,) = programs()
    before = len(reads.readings)
    program.kill()
    await wait_until(lambda: any(r.trouble for r in reads.readings[before:]), LIMIT_S, "its end being told")
    known = len(reads.readings)
    await wait_until(lambda: any(r.devices for r in reads.readings[known:]), LIMIT_S, "readings again")
    assert [p.pid for p in programs()] != [program.pid]


PARENT = """
import asyncio, sys
from headway.meters.child import ChildMeter

async def main():
    await ChildMeter(sys.argv[1:]).start(lambda reading: print(len(reading.devices), flush=True))
    await asyncio.sleep(300)

asyncio.run(main())
"""


@pytest.mark.parametrize("hangs", [False, True], ids=["idle", "hanging in a call"])
def test_it_dies_with_its_daemon(tmp_path: Path, hangs: bool) -> None:
    world = NvmlWorld(tmp_path)
    env = world.box.environment() | {"PYTHONPATH": ENV["PYTHONPATH"]}
    argv = [sys.executable, "-c", PARENT, sys.executable, "-m", "headway.meters.nvml"]
    parent = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None and parent.stdout.readline() == b"2\n"
        (program,) = psutil.Process(parent.pid).children()
        if hangs:
            world.box.faults(delays_ms={"*": 30_000})
        parent.kill()
        parent.wait(timeout=10)
        wait_for(lambda: not alive(program.pid), 10, "the end of the meter")
    finally:
        end(parent.pid)
        end(program.pid)
