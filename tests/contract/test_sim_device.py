"""The bookkeeping of the simulated device: who lives, who holds what, what still fits."""

import fcntl
import json
import os
import signal
import threading
from pathlib import Path

import pytest

from demo import sim_device
from tests.parts.programs import GIB, LIMIT_S, held, sleeper
from tests.waiting import wait_for

pytestmark = pytest.mark.contract


def test_a_report_is_one_json_line_under_pid_and_device(tmp_path: Path) -> None:
    sim_device.set_bytes(tmp_path, "sim0", 5)
    (name,) = os.listdir(tmp_path)
    assert name == f"{os.getpid()}.sim0"
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    assert json.loads((tmp_path / name).read_text()) == {
        "device": "sim0",
        "pid": os.getpid(),
        "bytes": 5,
        "start_ticks": ticks,
    }


def test_only_living_processes_are_counted(tmp_path: Path) -> None:
    with sleeper() as process:
        sim_device.set_bytes(tmp_path, "sim0", 7, process.pid)
        sim_device.set_bytes(tmp_path, "sim1", 1, process.pid)
        assert (held(tmp_path), held(tmp_path, "sim1")) == (7, 1)
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: ") T " in Path(f"/proc/{process.pid}/stat").read_text(), LIMIT_S)
        assert held(tmp_path) == 7, "a stopped process still holds its memory"
        process.kill()
        wait_for(lambda: held(tmp_path) == 0, LIMIT_S)  # a zombie: nobody has reaped it yet
        assert Path(f"/proc/{process.pid}/stat").exists()
        with pytest.raises(ProcessLookupError):
            sim_device.set_bytes(tmp_path, "sim0", 7, process.pid)
    assert held(tmp_path) == 0  # dead and reaped


def test_a_reused_pid_is_not_counted(tmp_path: Path) -> None:
    sim_device.set_bytes(tmp_path, "sim0", 7)
    report = tmp_path / f"{os.getpid()}.sim0"
    report.write_text(json.dumps({**json.loads(report.read_text()), "start_ticks": 1}))
    assert held(tmp_path) == 0


def test_names_with_a_dot_are_not_reports(tmp_path: Path) -> None:
    (tmp_path / ".half").write_text("{")
    assert sim_device.living(tmp_path) == []
    assert sim_device.living(tmp_path / "missing") == []


def test_what_exactly_fits_is_given_and_one_byte_more_is_not(tmp_path: Path) -> None:
    with sleeper() as other:
        sim_device.set_bytes(tmp_path, "sim0", 10, other.pid)
        sim_device.allocate(tmp_path, "sim0", 14, total_bytes=24)
        with pytest.raises(sim_device.FakeOutOfMemory):
            sim_device.allocate(tmp_path, "sim0", 15, total_bytes=24)
        assert held(tmp_path) == 24, "what was held before stays"
        sim_device.clear(tmp_path, "sim0")
        sim_device.clear(tmp_path, "sim0")
        assert held(tmp_path) == 10


def test_who_allocates_waits_for_the_one_before_and_sees_what_it_took(tmp_path: Path) -> None:
    refused: list[sim_device.FakeOutOfMemory] = []

    def second() -> None:
        try:
            sim_device.allocate(tmp_path, "sim0", 15, total_bytes=24)
        except sim_device.FakeOutOfMemory as error:
            refused.append(error)

    thread = threading.Thread(target=second)
    with sleeper() as first, open(tmp_path / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive(), "it did not wait"
        sim_device.set_bytes(tmp_path, "sim0", 10, first.pid)
        fcntl.flock(lock, fcntl.LOCK_UN)
        thread.join(LIMIT_S)
        assert [error.held_bytes for error in refused] == [10]


@pytest.mark.parametrize(("text", "size"), [("16GiB", 16 * GIB), ("1.5 MiB", 3 << 19), ("7", 7), ("0B", 0)])
def test_sizes(text: str, size: int) -> None:
    assert sim_device.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "16GB", "1e3"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        sim_device.parse_size(text)
