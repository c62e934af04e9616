"""Processes that Headway did not start, as /proc shows them. Looked at, never touched."""

from __future__ import annotations

import re
from collections.abc import Collection

from headway.host import linux_proc


class LinuxProcesses:
    """Implements ports.Processes."""

    def alive(self, pid: int, start_ticks: int | None) -> bool:
        one = linux_proc.process(pid)
        same = one is not None and start_ticks in (None, one.start_ticks)
        if one is not None and same and one.alive:
            return True
        return bool(linux_proc.descendants([pid], linux_proc.processes())) if same else False

    def among(self, pid: int, roots: Collection[int]) -> int | None:
        one = linux_proc.process(pid)
        above = linux_proc.ancestors(one) if one is not None else ()
        return next((found.pid for found in above if found.pid in roots), None)

    def matching(self, pattern: str) -> frozenset[int]:
        known = re.compile(pattern)
        found = set()
        for pid, one in linux_proc.processes().items():
            if one.alive and known.search(linux_proc.command_line(pid)):
                found.add(pid)
        return frozenset(found)
