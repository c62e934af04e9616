"""What processes have used so far, as the kernel counts it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from bench.gate_parts.tools import BenchFailed

KIB = 1024


def cpu_s(pids: Iterable[int]) -> float:
    """Seconds of CPU that all threads of these processes have had, to the nanosecond."""
    total_ns = 0
    for pid in pids:
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            total_ns += int(path.read_text().split()[0])
    if total_ns == 0:
        raise BenchFailed("/proc/PID/schedstat says nothing: this needs a kernel with CONFIG_SCHED_INFO")
    return total_ns / 1e9


def held_bytes(pids: Iterable[int]) -> int:
    """Memory of these processes (PSS: what they share is counted once among those that share it)."""
    return sum(_field(Path(f"/proc/{pid}/smaps_rollup"), "Pss") for pid in pids)


def forget_peak(pids: Iterable[int]) -> int:
    """Begin to look for a new peak; the memory of now (RSS), in bytes."""
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    return sum(_field(Path(f"/proc/{pid}/status"), "VmRSS") for pid in pids)


def peak_bytes(pids: Iterable[int]) -> int:
    """The most memory (RSS) since the last `forget_peak`."""
    return sum(_field(Path(f"/proc/{pid}/status"), "VmHWM") for pid in pids)


def _field(path: Path, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", path.read_text(), re.MULTILINE)
    if found is None:
        raise BenchFailed(f"{path} does not say {name}")
    return int(found[1]) * KIB
