"""Main memory and disks of the machine: told when that changes something."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

from headway.core import floors, host_fit
from headway.core.facts import Fact, HostRead
from headway.core.model import DiskRoom, HostRoom, Snapshot
from headway.ports import Clock

OLD_S = 5.0  # what was read of a disk that does not answer any more says nothing after this long


async def no_disk(directory: str) -> DiskRoom | None:
    """Nothing is read."""
    return None


class RoomLook:
    """Args:
    room: main memory, and the disk with Headway's own files. Microseconds.
    disk: the disk of a directory; it may take for ever.
    """

    def __init__(
        self,
        room: Callable[[], HostRoom],
        disk: Callable[[str], Awaitable[DiskRoom | None]],
        clock: Clock,
        tell: Callable[[Fact], None],
        snapshot: Callable[[], Snapshot],
        spawn: Callable[[str, Coroutine[Any, Any, Any]], None],
    ) -> None:
        self._room, self._disk, self._clock = room, disk, clock
        self._tell, self._snapshot, self._spawn = tell, snapshot, spawn
        self._asked: set[str] = set()  # directories that have not answered yet
        self._disks: dict[str, tuple[float, DiskRoom]] = {}  # when that was read

    def look(self) -> None:
        """Read what can be read at once; disks of jobs are asked, and told with the next look."""
        s, now_s = self._snapshot(), self._clock.now_s()
        wanted = sorted(set(host_fit.directories(s)))
        for directory in wanted:
            if directory not in self._asked:
                self._asked.add(directory)
                self._spawn(f"disk {directory}", self._ask(directory))
        disks = {
            directory: known[1]
            for directory in wanted
            if (known := self._disks.get(directory)) and now_s - known[0] < OLD_S
        }
        found = replace(self._room(), disks=disks)
        if floors.is_news(found, s.host, s.policy):
            self._tell(HostRead(room=found))

    async def _ask(self, directory: str) -> None:
        try:
            found = await self._disk(directory)
        finally:
            self._asked.discard(directory)
        if found is None:
            self._disks.pop(directory, None)
        else:
            self._disks[directory] = self._clock.now_s(), found
