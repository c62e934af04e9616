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


def _meminfo() -> dict[str, int]:
    """Bytes by name; empty where it cannot be read."""
    found = {}
    with suppress(OSError, ValueError, IndexError), open("/proc/meminfo") as file:
        for line in file:
            name, _, figure = line.partition(":")
            if name in ("MemTotal", "MemAvailable"):
                found[name] = int(figure.split()[0]) * 1024
    return found


class LinuxHost:
    """What the daemon asks of the machine beside its processes."""

    def room(self, directory: Path) -> HostRoom:
        """MemAvailable is what can be allocated without swapping; of the disk what this user may still write."""
        memory, disk_free, disk_total = _meminfo(), None, None
        with suppress(OSError):
            disk = os.statvfs(directory)
            disk_free, disk_total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        return HostRoom(
            memory_free_bytes=memory.get("MemAvailable"),
            memory_total_bytes=memory.get("MemTotal"),
            disk_free_bytes=disk_free,
            disk_total_bytes=disk_total,
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
