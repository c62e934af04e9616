"""Looks at the simulated devices from outside, every 20 ms: the witness that memory was never given away twice."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from demo.sim_device import Report, living

EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes held on one device at one time, by pid."""

    device: str
    by_pid: Mapping[int, int]

    @property
    def total_bytes(self) -> int:
        """The sum over all processes."""
        return sum(self.by_pid.values())


class MemoryWatch:
    """A thread from `with` to its end. `trace` has one entry per change of what a device's processes hold."""

    def __init__(self, reports: Path, devices: tuple[str, ...] = ("sim0",)) -> None:
        self.trace: list[Held] = []
        self.looks = 0
        self._reports, self._devices = reports, devices
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()

    def most_bytes(self, device: str = "sim0") -> int:
        """The most that was ever held at once on a device."""
        return max((held.total_bytes for held in list(self.trace) if held.device == device), default=0)

    def _watch(self) -> None:
        last: dict[str, Mapping[int, int]] = {device: {} for device in self._devices}
        while not self._ending.wait(EVERY_S):
            reports = self._look()
            self.looks += 1
            for device in self._devices:
                by_pid = {report.pid: report.bytes for report in reports if report.device == device}
                if by_pid != last[device]:
                    last[device] = by_pid
                    self.trace.append(Held(device, by_pid))

    def _look(self) -> list[Report]:
        """What was held in one moment: two readings that agree. Files are read one after the other, so a single
        reading may show one process before it let go and the next one after it took."""
        before = living(self._reports)
        while (now := living(self._reports)) != before:
            before = now
        return now
