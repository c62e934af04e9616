"""Memory, peers and clocks of a Linux machine."""

from __future__ import annotations

import os
import pwd
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from headway.core.model import HostRoom
from headway.core.rows import HostRow

LOOK_S = 0.5  # processor time over less than this says little: the look before counts


class LinuxHost:
    """What the daemon asks of the machine beside its processes."""

    def __init__(self) -> None:
        self._looked_s, self._times = float("-inf"), (0, 0)
        self._percent: float | None = None

    def room(self, directory: Path) -> HostRoom:
        """MemAvailable is what can be allocated without swapping; of the disk what this user may still write."""
        memory: dict[str, int] = {}
        disk_free, disk_total = None, None
        with suppress(OSError, ValueError):
            memory = _meminfo()
        with suppress(OSError):
            disk = os.statvfs(directory)
            disk_free, disk_total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        return HostRoom(
            memory_free_bytes=memory.get("MemAvailable"),
            memory_total_bytes=memory.get("MemTotal"),
            disk_free_bytes=disk_free,
            disk_total_bytes=disk_total,
        )

    def load(self) -> HostRow:
        """Processors and main memory. `cpu_percent` None: the first look."""
        now_s, memory = time.monotonic(), _meminfo()
        if now_s - self._looked_s >= LOOK_S:
            times, before = _processor_times(), self._times
            ticks = times[1] - before[1]
            if before[1] and ticks > 0:
                self._percent = round(100.0 * (times[0] - before[0]) / ticks, 1)
            self._looked_s, self._times = now_s, times
        return HostRow(
            cpus=os.cpu_count() or 1,
            cpu_percent=self._percent,
            memory_bytes=memory["MemTotal"],
            free_bytes=memory["MemAvailable"],
        )

    def peer_uid(self, sock: Any) -> int | None:
        """The user at the other end of a Unix socket; None when it is no such socket."""
        try:
            if sock.family != socket.AF_UNIX:
                return None
            shape = struct.Struct("3i")
            given = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, shape.size)
        except (AttributeError, OSError):
            return None
        uid: int = shape.unpack(given)[1]
        return uid


def _meminfo() -> dict[str, int]:
    """The lines of /proc/meminfo in bytes. Raises OSError where the two that are needed are missing."""
    with open("/proc/meminfo") as file:
        fields = (line.split() for line in file)
        found = {words[0].rstrip(":"): int(words[1]) * 1024 for words in fields if len(words) > 1}
    if not {"MemTotal", "MemAvailable"} <= found.keys():
        raise OSError("/proc/meminfo has no MemAvailable; Headway needs Linux 3.14 or newer")
    return found


def _processor_times() -> tuple[int, int]:
    """Ticks in which processors worked, and all ticks, since the machine started."""
    with open("/proc/stat") as file:
        user, nice, system, idle, iowait, *rest = (int(word) for word in file.readline().split()[1:9])
    busy = user + nice + system + sum(rest)
    return busy, busy + idle + iowait


class LinuxClock:
    """Boottime for every decision, the wall clock for people."""

    def now_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall_s(self) -> float:
        return time.time()


def user_name(uid: int) -> str:
    """The login name of a user, or its number in words."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
