"""What reports of the simulated device count for."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from headway.meters.simulated import SimulatedDevice, parse_device, read_devices, start_ticks
from headway.ports import DeviceReading

pytestmark = pytest.mark.contract


def reported(directory: Path, name: str, **change: Any) -> None:
    ticks = start_ticks(os.getpid())
    report = {"device": "sim0", "pid": os.getpid(), "bytes": 5, "start_ticks": ticks} | change
    (directory / name).write_text(json.dumps(report) + "\n")


def sim(directory: Path) -> DeviceReading:
    return read_devices([SimulatedDevice("sim0", 100, directory)], "n").devices[0]


def test_reports_add_up(tmp_path: Path) -> None:
    reported(tmp_path, "a")
    reported(tmp_path, "b", bytes=7)
    reported(tmp_path, "c", device="another")
    reported(tmp_path, ".half", bytes=50)
    device = sim(tmp_path)
    assert (device.used_bytes, device.free_bytes) == (12, 88)
    assert device.processes == ((os.getpid(), 12),)


def test_a_reused_pid_counts_for_nothing(tmp_path: Path) -> None:
    reported(tmp_path, "a", start_ticks=(start_ticks(os.getpid()) or 0) - 1)
    assert sim(tmp_path).used_bytes == 0


def test_the_start_is_read_behind_the_last_bracket(tmp_path: Path) -> None:
    """A program may call itself anything."""
    script = "import pathlib, time; pathlib.Path('/proc/self/comm').write_text(') Z 1 (x'); print(1, flush=True); time.sleep(60)"
    odd = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert odd.stdout is not None and odd.stdout.readline() == b"1\n"
        hz = os.sysconf("SC_CLK_TCK")
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - (start_ticks(odd.pid) or 0) / hz
        assert -1 < age_s < 60
    finally:
        odd.kill()
        odd.wait(timeout=10)
    assert start_ticks(odd.pid) is None


@pytest.mark.parametrize(
    "text", ['{"device": "sim0", "pi', "", "[]", '{"device": "sim0", "pid": 1}', '{"pid": "1"}']
)
def test_a_report_that_cannot_be_read_makes_the_device_unknown(tmp_path: Path, text: str) -> None:
    reported(tmp_path, "a")
    (tmp_path / "b").write_text(text)
    device = sim(tmp_path)
    assert (device.used_bytes, device.free_bytes, device.processes) == (None, None, None)
    assert "b: " in (device.trouble or "")
    (tmp_path / "b").unlink()
    assert sim(tmp_path).used_bytes == 5


def test_a_report_that_was_being_written_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("{")
    monkeypatch.setattr("headway.meters.simulated.time.sleep", lambda _s: reported(tmp_path, "a"))
    assert sim(tmp_path).used_bytes == 5


def test_a_missing_directory_is_unknown(tmp_path: Path) -> None:
    assert sim(tmp_path / "none").free_bytes is None and sim(tmp_path / "none").trouble


def test_it_never_writes(tmp_path: Path) -> None:
    reported(tmp_path, "a", pid=1 << 22, start_ticks=1)  # dead
    before = [(path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir()]
    sim(tmp_path)
    assert [(path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir()] == before


def test_a_device_is_named_sized_and_placed() -> None:
    assert parse_device("sim0=24=/a=b") == SimulatedDevice("sim0", 24, Path("/a=b"))
    for wrong in ("sim0", "sim0=24", "sim0=x=/a", "=24=/a"):
        with pytest.raises(ValueError):
            parse_device(wrong)
