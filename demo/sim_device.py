"""The writing side of the simulated device: programs report here what they hold.

A report is one file `PID.DEVICE` in a directory, one JSON line:
`{"device": "sim0", "pid": 1234, "bytes": 123, "start_ticks": 456}`. `start_ticks` is field 22 of
`/proc/PID/stat`, so the report of a process that died, is a zombie, or whose pid now belongs to another one,
counts for nothing: what a driver does when a process dies, SIGKILL included. Names that begin with a dot are not
reports.

Headway's `simulated` meter only reads this directory. Nothing in the package writes to it.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

OUT_OF_MEMORY_EXIT = 12
"""Exit code of the demo's programs when their memory does not fit."""

_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


class FakeOutOfMemory(RuntimeError):
    """An allocation that the simulated device has no room for."""

    def __init__(self, device: str, need_bytes: int, held_bytes: int, total_bytes: int) -> None:
        self.device, self.need_bytes, self.held_bytes, self.total_bytes = (
            device,
            need_bytes,
            held_bytes,
            total_bytes,
        )
        super().__init__(
            f"out of memory on {device}: {need_bytes} bytes asked, others hold {held_bytes} of {total_bytes}"
        )


@dataclass(frozen=True, slots=True)
class Report:
    """What one process holds on one device. `start_ticks`: clock ticks after boot at which it started."""

    device: str
    pid: int
    bytes: int
    start_ticks: int


def parse_size(text: str) -> int:
    """Bytes meant by `text`: a whole or decimal number with KiB, MiB or GiB behind it, or plain bytes.

    Raises:
        ValueError: `text` is no such size.

    >>> parse_size("1.5GiB")
    1610612736
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]iB|B|)", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size; write it like 16GiB or 400MiB")
    return int(float(found[1]) * _UNITS[found[2]])


def split_devices(text: str) -> tuple[str, ...]:
    """The device names in a list with commas, as in CUDA_VISIBLE_DEVICES.

    Raises:
        ValueError: no name at all, or one that cannot be part of a file name.
    """
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names or any("/" in name or "\0" in name for name in names):
        raise ValueError(f"{text!r} names no device")
    return names


def visible_devices(fallback: str = "sim0") -> tuple[str, ...]:
    """The devices this process was given: CUDA_VISIBLE_DEVICES, or `fallback` where that is unset."""
    return split_devices(os.environ.get("CUDA_VISIBLE_DEVICES") or fallback)


def start_ticks(pid: int) -> int | None:
    """When `pid` started, in clock ticks after boot; None when dead or a zombie: it holds nothing then."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before the bracket may hold spaces and brackets
    return None if fields[0] in "ZX" else int(fields[19])


def set_bytes(directory: Path, device: str, held_bytes: int, pid: int | None = None) -> None:
    """Report that `pid` (this process by default) holds `held_bytes` on `device`, whether or not they fit.

    Raises:
        ProcessLookupError: `pid` is dead or a zombie.
    """
    pid = os.getpid() if pid is None else pid
    ticks = start_ticks(pid)
    if ticks is None:
        raise ProcessLookupError(f"process {pid} does not live, it can hold nothing")
    directory.mkdir(parents=True, exist_ok=True)
    line = json.dumps(asdict(Report(device, pid, held_bytes, ticks)))
    half_written = directory / f".{pid}.{device}.{os.getpid()}"
    half_written.write_text(line + "\n")
    half_written.rename(directory / f"{pid}.{device}")


def clear(directory: Path, device: str, pid: int | None = None) -> None:
    """Take back what `pid` (this process by default) reported for `device`. No report is no error."""
    (directory / f"{os.getpid() if pid is None else pid}.{device}").unlink(missing_ok=True)


def living(directory: Path) -> list[Report]:
    """Every report whose process still lives, sorted by device and pid. A missing directory has none."""
    found = []
    for name in os.listdir(directory) if directory.is_dir() else ():
        if name.startswith("."):
            continue
        try:
            report = Report(**json.loads((directory / name).read_text()))
        except FileNotFoundError:  # taken back since the listing
            continue
        if start_ticks(report.pid) == report.start_ticks:
            found.append(report)
    return sorted(found, key=lambda report: (report.device, report.pid))


def total_held(directory: Path, device: str) -> int:
    """Bytes that living processes hold on `device`."""
    return sum(report.bytes for report in living(directory) if report.device == device)


def allocate(directory: Path, device: str, need_bytes: int, total_bytes: int, pid: int | None = None) -> None:
    """Let `pid` hold `need_bytes` on a device of `total_bytes`, in place of what it held there before.

    Two processes that allocate in the same instant cannot both pass on the same free bytes.

    Raises:
        FakeOutOfMemory: the others hold too much; what `pid` held before stays as it was.
        ProcessLookupError: `pid` is dead or a zombie.
    """
    pid = os.getpid() if pid is None else pid
    with _locked(directory):
        others = sum(r.bytes for r in living(directory) if r.device == device and r.pid != pid)
        if others + need_bytes > total_bytes:
            raise FakeOutOfMemory(device, need_bytes, others, total_bytes)
        set_bytes(directory, device, need_bytes, pid)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # let go by the close, so a killed process leaves no lock
        yield
