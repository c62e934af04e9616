"""What is read of the machine beside the memory of its devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """What is nice to see of a device and decides nothing. None: its meter does not say."""

    model: str | None = None
    util_percent: float | None = None
    temp_c: float | None = None
    power_w: float | None = None


NO_GAUGES = Gauges()


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRoom:
    """The disk that a directory is on."""

    free_bytes: int  # what this user may still write
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRoom:
    """Main memory of the machine, and the disk that Headway's own files are on. None: unknown."""

    memory_free_bytes: int | None = None  # what programs can still have without swapping
    memory_total_bytes: int | None = None
    disk_free_bytes: int | None = None
    disk_total_bytes: int | None = None
    disks: Mapping[str, DiskRoom] = field(default_factory=dict)  # by directory: where jobs park to


NO_ROOM = HostRoom()
