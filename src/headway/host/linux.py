"""Memory, peers and clocks of a Linux machine."""

from __future__ import annotations

import pwd
import socket
import struct
import time
from typing import Any


class LinuxHost:
    """What the daemon asks of the machine beside its processes."""

    def free_host_bytes(self) -> int:
        """MemAvailable: what can be allocated without swapping."""
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        raise OSError("/proc/meminfo has no MemAvailable; Headway needs Linux 3.14 or newer")

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
