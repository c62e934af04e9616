"""What systemd is told of a service of its own (`Type=notify`): that it is ready, that it goes on, that it leaves."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress

PER_LIMIT = 4  # signs of life within the time after which systemd acts


class Systemd:
    """Silent where systemd did not ask. Its variables are taken out: they are not for what this process starts."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._address = environ.pop("NOTIFY_SOCKET", "")
        limit_us, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        asked = limit_us.isdigit() and pid in ("", str(os.getpid()))
        self._every_s = int(limit_us) / 1e6 / PER_LIMIT if asked else None
        self._next_s = 0.0

    def say(self, state: str) -> None:
        """`READY=1` and the like. One that cannot be told is not told."""
        if not self._address:
            return
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock,
        ):
            sock.connect("\0" + self._address[1:] if self._address.startswith("@") else self._address)
            sock.send(state.encode())

    def alive(self, now_s: float) -> None:
        """Call it with every step of what must go on; systemd hears it as often as it needs to."""
        if self._every_s is not None and now_s >= self._next_s:
            self._next_s = now_s + self._every_s
            self.say("WATCHDOG=1")
