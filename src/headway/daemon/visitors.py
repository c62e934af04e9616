"""Eyes for leases and claims: which processes are theirs, and when the last of them is gone. They are never touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headway.core.facts import Fact, LeaseGone
from headway.core.model import HolderId, Lease, Snapshot
from headway.ports import Processes


class Visitors:
    """Looks at the processes of everybody who was granted something, or is counted."""

    def __init__(
        self, processes: Processes, snapshot: Callable[[], Snapshot], tell: Callable[[Fact], None]
    ) -> None:
        self._processes, self._snapshot, self._tell = processes, snapshot, tell

    def owner(self, pid: int) -> HolderId | None:
        """The lease or claim whose tree, or pattern, that process belongs to."""
        roots = {lease.pid: lease.id for lease in self._open() if lease.pid is not None}
        if roots and (root := self._processes.among(pid, roots)) is not None:
            return roots[root]
        for lease in self._open():
            if lease.match is not None and pid in self._processes.matching(lease.match):
                return lease.id
        return None

    def look(self) -> None:
        """Say of whom no process lives any more."""
        for lease in self._open():
            if lease.pid is not None:
                alive = self._processes.alive(lease.pid, lease.start_ticks)
            else:
                alive = lease.match is None or bool(self._processes.matching(lease.match))
            if not alive:
                self._tell(LeaseGone(lease=lease.id))

    def _open(self) -> Iterator[Lease]:
        for holder in self._snapshot().holders.values():
            if isinstance(holder, Lease) and holder.ended is None:
                yield holder
