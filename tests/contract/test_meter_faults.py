"""What goes wrong with meters: GPUs that are lost, drivers that are old, programs that hang or are none."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from headway.core.model import GIB
from headway.meters import child
from headway.meters.child import ChildMeter
from headway.meters.combined import CombinedMeter
from headway.meters.declared import DeclaredDevice, DeclaredMeter
from headway.meters.lines import decode
from headway.ports import DeviceReading, Meter, Reading
from tests.parts.fake_nvml import DRIVER_NOT_LOADED, FUNCTION_NOT_FOUND, GPU_IS_LOST, UNKNOWN, Box, FakeGpu
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

LIMIT_S = 30.0
SRC = str(Path(__file__).parents[2] / "src")
RESERVED_BYTES = 350 << 20
NO_PERMISSION = 4

GPUS = (FakeGpu(uuid="GPU-a", total_bytes=24 * GIB), FakeGpu(uuid="GPU-b", total_bytes=24 * GIB))


class Said:
    """All that a meter said."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []

    @property
    def last(self) -> Reading:
        return self.readings[-1]

    async def next(self, true: Callable[[Reading], Any], what: str) -> Reading:
        """The first reading from now on for which it is so."""
        seen = len(self.readings)

        def found() -> Reading | None:
            return next((reading for reading in self.readings[seen:] if true(reading)), None)

        return await wait_until(found, LIMIT_S, what)


def nvml_argv(*more: str) -> list[str]:
    return [sys.executable, "-m", "headway.meters.nvml", "--node", "n", *more]


def once(box: Box) -> dict[str, DeviceReading]:
    """One reading of the box, by a program of its own."""
    env = box.environment() | {"PYTHONPATH": SRC}
    done = subprocess.run(nvml_argv("--once"), env=env, capture_output=True, timeout=60, check=True)
    return {device.name: device for device in decode(done.stdout).devices}


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path / "box", *GPUS)


@pytest.fixture
async def said(box: Box) -> AsyncIterator[Said]:
    meter, heard = ChildMeter(nvml_argv(), env=box.environment() | {"PYTHONPATH": SRC}), Said()
    await meter.start(heard.readings.append)
    await heard.next(lambda r: len(r.devices) == 2, "both GPUs")
    yield heard
    await meter.stop()


async def running(tmp_path: Path, script: str) -> tuple[ChildMeter, Said]:
    """A meter over a program made for the test, which finds a directory in its first argument."""
    meter, heard = ChildMeter([sys.executable, "-c", script, str(tmp_path)]), Said()
    await meter.start(heard.readings.append)
    return meter, heard


# ---------------------------------------------------------------- NVML


async def test_one_gpu_that_fails_leaves_the_others_alone(box: Box, said: Said) -> None:
    box.hold(0, 5 * GIB)
    box.gpus(GPUS[0])  # the second one answers every call with an error
    reading = await said.next(lambda r: r.devices[1].trouble, "the trouble")
    first, second = reading.devices
    assert second.id == "n/GPU-b" and second.name == "gpu1"
    assert (second.used_bytes, second.free_bytes, second.processes) == (None, None, None)
    assert first.trouble is None and first.used_bytes == 5 * GIB + RESERVED_BYTES
    box.gpus(*GPUS)
    assert (await said.next(lambda r: not r.devices[1].trouble, "its return")).devices[1].free_bytes


async def test_a_lost_gpu_is_a_trouble_of_that_device(box: Box, said: Said) -> None:
    box.faults({"nvmlDeviceGetMemoryInfo": GPU_IS_LOST, "nvmlDeviceGetMemoryInfo_v2": GPU_IS_LOST})
    reading = await said.next(lambda r: r.devices and r.devices[0].trouble, "the trouble")
    assert "lost" in (reading.devices[0].trouble or "") and reading.devices[0].free_bytes is None
    box.faults()
    assert not any(r.trouble for r in said.readings)
    await said.next(lambda r: r.devices and r.devices[0].free_bytes, "its return")


async def test_a_session_that_is_broken_is_replaced(box: Box, said: Said) -> None:
    box.faults({"*": UNKNOWN})
    await said.next(lambda r: r.devices and all(d.trouble for d in r.devices), "the trouble of each device")
    assert "unknown error" in (await said.next(lambda r: r.trouble, "the failed new session")).trouble  # type: ignore[operator]
    box.faults()
    await said.next(lambda r: r.devices and not r.devices[0].trouble, "a session that works")


async def test_without_a_driver_there_is_a_reason_and_then_a_driver(box: Box) -> None:
    box.faults({"nvmlInitWithFlags": DRIVER_NOT_LOADED})
    meter, said = ChildMeter(nvml_argv(), env=box.environment() | {"PYTHONPATH": SRC}), Said()
    await meter.start(said.readings.append)
    reading = await said.next(lambda r: True, "a word")
    assert reading.devices == () and "driver is not loaded" in (reading.trouble or "")
    box.faults()
    assert len((await said.next(lambda r: r.devices, "devices")).devices) == 2
    assert all("driver is not loaded" in (r.trouble or "driver is not loaded") for r in said.readings)
    await meter.stop()


def test_without_the_library_there_is_a_reason(tmp_path: Path) -> None:
    env = {"PYTHONPATH": SRC, "LD_LIBRARY_PATH": str(tmp_path)}
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"")  # in front of a real one, should there be one
    done = subprocess.run(nvml_argv("--once"), env=env, capture_output=True, timeout=60)
    assert done.returncode == 3 and b"is missing" in done.stdout and done.stderr == b""


async def test_a_call_that_hangs_is_told_and_the_program_replaced(box: Box, said: Said) -> None:
    box.faults(delays_ms={"nvmlDeviceGetMemoryInfo_v2": 120_000})
    reading = await said.next(lambda r: r.trouble, "its silence")
    assert "said nothing for 3 s" in (reading.trouble or "")
    box.faults()
    await said.next(lambda r: len(r.devices) == 2, "readings again")


def test_bytes_that_are_not_available_are_none(box: Box) -> None:
    box.hold(0, None)
    box.hold(1, 2 * GIB)
    devices = once(box)
    assert devices["gpu0"].processes == ((os.getpid(), None),) and devices["gpu0"].confidence == "inferred"
    assert devices["gpu1"].processes == ((os.getpid(), 2 * GIB),) and devices["gpu1"].confidence == "measured"


def test_a_process_in_two_lists_counts_once(box: Box) -> None:
    box.hold(0, 2 * GIB, kind="C")
    box.hold(0, 3 * GIB, kind="G")
    box.hold(0, None, kind="M")
    assert once(box)["gpu0"].processes == ((os.getpid(), 3 * GIB),)


def test_an_older_driver_gives_the_same(box: Box) -> None:
    box.hold(0, 2 * GIB)
    new = once(box)
    kinds = ("Compute", "Graphics", "MPSCompute")
    old = {f"nvmlDeviceGet{kind}RunningProcesses_v3": FUNCTION_NOT_FOUND for kind in kinds}
    box.faults({"nvmlDeviceGetMemoryInfo_v2": FUNCTION_NOT_FOUND, **old})
    assert once(box) == new
    assert new["gpu0"].used_bytes == 2 * GIB + RESERVED_BYTES


def test_a_list_of_processes_that_is_refused_makes_it_inferred(box: Box) -> None:
    box.hold(0, 2 * GIB)
    names = [f"nvmlDeviceGetComputeRunningProcesses_v{number}" for number in (2, 3)]
    box.faults(dict.fromkeys(names, NO_PERMISSION))
    device = once(box)["gpu0"]
    assert device.processes is None and device.confidence == "inferred" and device.trouble is None
    assert device.used_bytes == 2 * GIB + RESERVED_BYTES


def test_memory_without_the_rights_to_see_it_is_a_trouble(box: Box) -> None:
    box.faults(dict.fromkeys(["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"], NO_PERMISSION))
    device = once(box)["gpu0"]
    assert (
        "more rights" in (device.trouble or "") and device.used_bytes is None and device.total_bytes is None
    )


def test_what_is_nice_to_know_may_be_missing(box: Box) -> None:
    box.gpus(FakeGpu(uuid="GPU-a", name="NVIDIA Fake", util_percent=37, temp_c=55, power_mw=212_500))
    full = {"model": "NVIDIA Fake", "util_percent": 37, "temp_c": 55, "power_w": 212.5}
    assert once(box)["gpu0"].extra == full
    box.faults({"nvmlDeviceGetUtilizationRates": 3, "nvmlDeviceGetPowerUsage": 3})
    assert once(box)["gpu0"].extra == {"model": "NVIDIA Fake", "temp_c": 55}


# ---------------------------------------------------------------- any program


ASKED = """
import pathlib, sys
log = pathlib.Path(sys.argv[1], "asked").open("a", buffering=1)
print('{"at_s":1.0,"devices":[]}', flush=True)
for line in sys.stdin:
    log.write(line)
    print('{"at_s":1.0,"devices":[]}', flush=True)
"""


async def test_many_wishes_are_one_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "ASK_EVERY_S", 0.05)
    meter, said = await running(tmp_path, ASKED)
    await said.next(lambda r: True, "its start")
    began_s = time.monotonic()
    while time.monotonic() - began_s < 0.5:
        for _ in range(100):
            meter.read_now()
        await asyncio.sleep(0)
    took_s = time.monotonic() - began_s
    seen = len(said.readings)
    meter.read_now()
    await wait_until(lambda: len(said.readings) > seen, LIMIT_S, "the answer to the last wish")
    await meter.stop()
    asked = (tmp_path / "asked").read_text()
    assert set(asked.split()) == {"read"}
    assert 3 <= len(asked.split()) <= took_s * 20 + 4


DEAF = 'import time; print(\'{"at_s":1.0,"devices":[]}\', flush=True); time.sleep(300)'


async def test_asking_a_deaf_program_never_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "ASK_EVERY_S", 0.0)
    meter, said = await running(tmp_path, DEAF)
    await said.next(lambda r: True, "its start")
    began_s = time.monotonic()
    for _ in range(100_000):
        meter.read_now()
    assert time.monotonic() - began_s < 2
    await said.next(lambda r: r.trouble, "its silence")
    await meter.stop()


async def test_a_slow_start_is_not_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "SILENT_S", 0.1)
    monkeypatch.setattr(child, "FIRST_SILENT_S", 20.0)
    slow = 'import time; time.sleep(0.6); print(\'{"at_s":1.0,"devices":[]}\', flush=True); time.sleep(300)'
    meter, said = await running(tmp_path, slow)
    assert (await said.next(lambda r: True, "a word")).trouble is None
    assert "0.1 s" in ((await said.next(lambda r: r.trouble, "its silence")).trouble or "")
    await meter.stop()


WORDS = {
    "ends":          ("raise SystemExit(7)", "ended with code 7"),
    "is killed":     ("import os; os.kill(os.getpid(), 9)", "ended by signal 9"),
    "talks":         ("import time; print('hello', flush=True); time.sleep(300)", "prints no readings"),
    "wrong types":   ("import time; print('{\"at_s\":\"x\",\"devices\":[]}', flush=True); time.sleep(300)", "prints no readings"),
    "never ends":    ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "without an end"),
    "closes output": ("import os, time; os.close(1); time.sleep(300)", "closed its output"),
}  # fmt: skip


@pytest.mark.parametrize(("script", "words"), WORDS.values(), ids=WORDS.keys())
async def test_a_program_that_is_no_meter_is_told(tmp_path: Path, script: str, words: str) -> None:
    meter, said = await running(tmp_path, script)
    reading = await said.next(lambda r: words in (r.trouble or ""), words)
    assert reading.devices == ()
    await meter.stop()


async def test_a_program_that_cannot_start_is_told_and_tried_again(tmp_path: Path) -> None:
    program = tmp_path / "meter"
    meter, said = ChildMeter([str(program)]), Said()
    await meter.start(said.readings.append)
    await said.next(lambda r: "cannot be started" in (r.trouble or ""), "the reason")
    program.write_text(f"#!{sys.executable}\n{DEAF}\n")
    program.chmod(0o700)
    await said.next(lambda r: r.trouble is None, "its start")
    await meter.stop()


async def test_a_crashing_program_is_started_less_and_less_often(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys; pathlib.Path(sys.argv[1], 'starts').open('a').write('x'); raise SystemExit(1)"
    )
    meter, _ = await running(tmp_path, script)
    starts = tmp_path / "starts"
    began_s = time.monotonic()
    await wait_until(lambda: starts.exists() and starts.stat().st_size >= 5, LIMIT_S, "five starts")
    assert time.monotonic() - began_s > 0.2 + 0.4 + 0.8 + 1.6
    await meter.stop()


async def test_its_complaints_go_to_a_file(tmp_path: Path) -> None:
    log = tmp_path / "meter.log"
    log.write_bytes(b"x" * (child.LOG_MAX + 1))
    meter = ChildMeter([sys.executable, "-c", "import sys; sys.exit('it hurts')"], log=log)
    await meter.start(lambda _reading: None)
    await wait_until(lambda: log.read_text().startswith("it hurts\n"), LIMIT_S, "the complaint in a new file")
    await meter.stop()


# ---------------------------------------------------------------- combined


class Scripted(Meter):
    """Says what it is told to."""

    async def start(self, on_reading: Callable[[Reading], None]) -> None:
        self.say = on_reading

    def read_now(self) -> None:
        pass

    async def stop(self) -> None:
        pass


def reading(*names: str, trouble: str | None = None) -> Reading:
    declared = DeclaredMeter([DeclaredDevice(name, 10) for name in names], "n")
    return Reading(at_s=1.0, devices=declared._devices, trouble=trouble)


async def test_a_meter_that_fails_beside_another_makes_only_its_devices_unknown() -> None:
    a, b, said = Scripted(), Scripted(), Said()
    await CombinedMeter([a, b]).start(said.readings.append)
    a.say(reading(trouble="first"))
    assert said.last.trouble == "first"  # nobody speaks yet
    b.say(reading("b"))
    a.say(reading("a"))
    a.say(reading(trouble="gone"))
    assert said.last.trouble is None
    assert [(d.id, d.trouble, d.free_bytes, d.total_bytes) for d in said.last.devices] == [
        ("n/a", "gone", None, 10)
    ]
    b.say(reading(trouble="gone too"))
    assert said.last.trouble == "gone too"
    a.say(reading("a"))
    assert said.last == reading("a")


async def test_a_meter_that_never_had_devices_is_no_trouble_for_another() -> None:
    a, b, said = Scripted(), Scripted(), Said()
    await CombinedMeter([a, b]).start(said.readings.append)
    b.say(reading("b"))
    a.say(reading(trouble="no driver"))
    assert said.readings == [reading("b")]
