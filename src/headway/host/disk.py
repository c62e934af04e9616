"""What the disk of a directory has left. A network file system may never answer, so nobody waits for its thread."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress

from headway.core.model import DiskRoom


async def disk_room(directory: str) -> DiskRoom | None:
    """What this user may still write there; None: it cannot be read. Not in the pool, which is waited for."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[DiskRoom | None] = loop.create_future()

    def told(found: DiskRoom | None) -> None:
        if not answered.done():
            answered.set_result(found)

    def look() -> None:
        found = None
        with suppress(OSError):
            disk = os.statvfs(directory)
            found = DiskRoom(
                free_bytes=disk.f_bavail * disk.f_frsize, total_bytes=disk.f_blocks * disk.f_frsize
            )
        with suppress(RuntimeError):  # the loop is over
            loop.call_soon_threadsafe(told, found)

    threading.Thread(target=look, daemon=True, name=f"disk {directory}").start()
    return await answered
