"""The fake GPUs, through the real pynvml."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.parts.fake_nvml import FUNCTION_NOT_FOUND, GPU_IS_LOST, Box, FakeGpu
from tests.parts.programs import GIB, LIMIT_S, sleeper
from tests.waiting import wait_for

pytestmark = pytest.mark.contract


READ = """
import json, sys
import pynvml as n
def read():
    n.nvmlInit()
    out = []
    for i in range(n.nvmlDeviceGetCount()):
        h = n.nvmlDeviceGetHandleByIndex(i)
        old, new = n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2)
        assert n.nvmlDeviceGetMigMode(h) == [0, 0] and n.nvmlDeviceGetIndex(h) == i
        assert n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(h))) == i
        lists = [n.nvmlDeviceGetComputeRunningProcesses, n.nvmlDeviceGetGraphicsRunningProcesses,
                 n.nvmlDeviceGetMPSComputeRunningProcesses, n.nvmlDeviceGetComputeRunningProcesses_v2]
        out.append({"uuid": n.nvmlDeviceGetUUID(h), "name": n.nvmlDeviceGetName(h),
            "old": [old.total, old.free, old.used], "new": [new.total, new.reserved, new.free, new.used],
            "util": n.nvmlDeviceGetUtilizationRates(h).gpu, "temp": n.nvmlDeviceGetTemperature(h, 0),
            "temp_v": n.nvmlDeviceGetTemperatureV(h, 0), "power": n.nvmlDeviceGetPowerUsage(h),
            "pci": n.nvmlDeviceGetPciInfo(h).busId,
            "procs": [[[p.pid, p.usedGpuMemory] for p in f(h)] for f in lists]})
    n.nvmlShutdown()
    return out
for line in sys.stdin:
    try: print(json.dumps(read()), flush=True)
    except Exception as error: print(json.dumps(type(error).__name__), flush=True)
"""


@contextmanager
def nvml_reader(box: Box) -> Iterator[Callable[[], Any]]:
    """Reads the box through the real pynvml in a process of its own: rows, or the name of an error."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", READ], env=box.environment(), text=True, **pipes)  # type: ignore[call-overload]

    def read() -> Any:
        process.stdin.write("read\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    try:
        yield read
    finally:
        process.kill()
        process.communicate()


def test_the_real_pynvml_reads_the_fake_gpus(tmp_path: Path) -> None:
    ada = FakeGpu("GPU-a", 24 * GIB, GIB, "NVIDIA RTX Fake", util_percent=37, temp_c=55, power_mw=212_000)
    box = Box(tmp_path, ada, FakeGpu("GPU-b", 6 * GIB, 0))
    box.hold(0, 2 * GIB)
    box.hold(0, GIB, kind="G")
    box.hold(1, None, kind="M")
    with nvml_reader(box) as read:
        first, second = read()
        me = os.getpid()
        assert first == {
            "uuid": "GPU-a",
            "name": "NVIDIA RTX Fake",
            "old": [24 * GIB, 20 * GIB, 4 * GIB],
            "new": [24 * GIB, GIB, 20 * GIB, 3 * GIB],
            "util": 37,
            "temp": 55,
            "temp_v": 55,
            "power": 212_000,
            "pci": "00000000:01:00.0",
            "procs": [[[me, 2 * GIB]], [[me, GIB]], [], [[me, 2 * GIB]]],
        }
        assert (second["uuid"], second["new"][3], second["procs"]) == ("GPU-b", 0, [[], [], [[me, None]], []])
        box.release(0)
        assert read()[0]["procs"] == [[], [[me, GIB]], [], []]
        box.gpus(ada)
        assert len(read()) == 1


def test_a_dead_process_leaves_the_fake_gpu(tmp_path: Path) -> None:
    box = Box(tmp_path, FakeGpu("GPU-a"))
    with sleeper() as process, nvml_reader(box) as read:
        box.hold(0, GIB, process.pid)
        process.send_signal(signal.SIGSTOP)
        assert read()[0]["procs"][0] == [[process.pid, GIB]]
        process.kill()
        wait_for(lambda: read()[0]["procs"][0] == [], LIMIT_S)
        assert Path(f"/proc/{process.pid}/stat").exists(), "a zombie until it is reaped"
    box.hold(0, GIB)
    report = tmp_path / "procs" / f"{os.getpid()}.0.C"
    report.write_text(report.read_text().rpartition(" ")[0] + " 1\n")  # the pid was reused
    with nvml_reader(box) as read:
        assert read()[0]["procs"][0] == []


@pytest.mark.parametrize(
    ("codes", "error"),
    [
        ({"nvmlDeviceGetMemoryInfo": GPU_IS_LOST}, "NVMLError_GpuIsLost"),
        ({"nvmlInitWithFlags": 9}, "NVMLError_DriverNotLoaded"),
        ({"*": 999}, "NVMLError_Unknown"),
        ({"nvmlDeviceGetComputeRunningProcesses_v3": FUNCTION_NOT_FOUND}, "NVMLLibraryMismatchError"),
    ],
)
def test_faults_of_the_fake_gpu(tmp_path: Path, codes: dict[str, int], error: str) -> None:
    box = Box(tmp_path, FakeGpu("GPU-a"))
    box.faults(codes)
    with nvml_reader(box) as read:
        assert read() == error
        box.faults()
        assert read()[0]["uuid"] == "GPU-a"
        box.faults(delays_ms={"nvmlDeviceGetCount_v2": 300})
        asked_s = time.monotonic()
        assert read()[0]["uuid"] == "GPU-a"
        assert time.monotonic() - asked_s >= 0.3
