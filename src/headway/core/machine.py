"""What is read of the machine beside the memory of its devices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """What is nice to see of a device and decides nothing. None: its meter does not say."""

    model: str | None = None
    util_percent: float | None = None
    temp_c: float | None = None
    power_w: float | None = None


NO_GAUGES = Gauges()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRoom:
    """Main memory of the machine, and the disk that Headway's own files are on. None: unknown."""

    memory_free_bytes: int | None = None  # what programs can still have without swapping
    memory_total_bytes: int | None = None
    disk_free_bytes: int | None = None
    disk_total_bytes: int | None = None


NO_ROOM = HostRoom()
