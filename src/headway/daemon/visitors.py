"""Eyes for leases and claims: which processes are theirs, and when the last of them is gone. They are never touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headway.core.facts import Fact, LeaseGone
from headway.core.leases import mark
from headway.core.model import HolderId, Lease, Snapshot
from headway.ports import Processes, Root


class Visitors:
    """Looks at the processes of everybody who was granted something, or is counted."""

    def __init__(
        self, processes: Processes, snapshot: Callable[[], Snapshot], tell: Callable[[Fact], None]
    ) -> None:
        self._processes, self._snapshot, self._tell = processes, snapshot, tell
        self._found: dict[str, int] = {}  # pattern -> a process that it found

    def owner(self, pid: int) -> HolderId | None:
        """The lease or claim whose tree, or pattern, that process belongs to."""
        roots = {root: lease.id for lease in self._open() if (root := _root(lease)) is not None}
        if roots and (root := self._processes.among(pid, roots)) is not None:
            return roots[root]
        for lease in self._open():
            if lease.match is not None and self._processes.matches(pid, lease.match):
                return lease.id
        return None

    def look(self) -> None:
        """Say of whom no process lives any more."""
        for lease in self._open():
            if (root := _root(lease)) is not None:
                alive = self._processes.alive(root)
            else:
                alive = lease.match is None or self._matched(lease.match)
            if not alive:
                self._tell(LeaseGone(lease=lease.id))

    def _matched(self, pattern: str) -> bool:
        """Does any process match? The one that did last is looked at first, before all there are."""
        if (pid := self._found.get(pattern)) is not None and self._processes.matches(pid, pattern):
            return True
        found = self._processes.matching(pattern)
        if found:
            self._found[pattern] = min(found)
        return bool(found)

    def _open(self) -> Iterator[Lease]:
        s = self._snapshot()
        for hid in s.leases:
            if isinstance(holder := s.holders[hid], Lease) and holder.ended is None:
                yield holder


def _root(lease: Lease) -> Root | None:
    return None if lease.pid is None else Root(lease.pid, lease.start_ticks, mark(lease))
