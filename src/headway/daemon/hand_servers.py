"""Eyes for model servers that somebody else started: which processes are theirs, by the port they answer on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from headway.core.model import HolderId, Service, Snapshot
from headway.ports import Processes, Root

LOOK_AGAIN_S = (
    60.0  # for one that was not found: another user's, or in a container; a look walks all processes
)
HERE = ("127.0.0.1", "localhost", "::1")


class HandServers:
    """Looked for when memory is read, so that it counts as theirs and as nobody else's."""

    def __init__(
        self, processes: Processes, snapshot: Callable[[], Snapshot], now_s: Callable[[], float]
    ) -> None:
        self._processes, self._snapshot, self._now_s = processes, snapshot, now_s
        self._found: dict[
            HolderId, tuple[float, tuple[Root, ...]]
        ] = {}  # when it was looked for, and what it is

    def owner(self, pid: int) -> HolderId | None:
        """The service whose server that process is, or was started by."""
        roots = {root: sid for sid, root in self._roots()}
        root = self._processes.among(pid, roots) if roots else None
        return None if root is None else roots[root]

    def _roots(self) -> Iterator[tuple[HolderId, Root]]:
        s = self._snapshot()
        for sid in s.services:
            service = s.service(sid)
            if service is None or service.spec.argv or service.form in (None, service.bottom):
                continue
            for root in self._of(service):
                yield sid, root

    def _of(self, service: Service) -> tuple[Root, ...]:
        now_s = self._now_s()
        looked_s, roots = self._found.get(service.id, (-LOOK_AGAIN_S, ()))
        living = roots and all(self._processes.start_ticks(root.pid) == root.start_ticks for root in roots)
        if not living and (roots or now_s - looked_s >= LOOK_AGAIN_S or looked_s < service.since_s):
            pids = self._processes.listeners(port) if (port := _port(service)) is not None else ()
            ticks = ((pid, self._processes.start_ticks(pid)) for pid in pids)
            roots = tuple(Root(pid, started) for pid, started in ticks if started is not None)
            self._found[service.id] = (now_s, roots)
        return roots


def _port(service: Service) -> int | None:
    """Of an upstream on this machine."""
    try:
        url = urlsplit(service.spec.upstream)
        return url.port if url.hostname in HERE else None
    except ValueError:  # a port that is none
        return None
