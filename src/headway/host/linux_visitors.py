"""Processes that Headway did not start, as /proc shows them. Looked at, never touched."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import PurePath

from headway.core import patterns
from headway.host import linux_net
from headway.host.linux_proc import (
    MARK_NAME,
    Process,
    ancestors,
    command_line,
    descendants,
    process,
    processes,
    token,
)
from headway.ports import Root

LINE_MAX = 16 * 1024  # letters of a command line that are looked at


class LinuxProcesses:
    """Implements ports.Processes."""

    def __init__(self) -> None:
        self._carriers: dict[str, tuple[int, int]] = {}  # mark -> (pid, start ticks) of one that carries it

    def alive(self, root: Root) -> bool:
        one = process(root.pid)
        if one is not None and _is(one, root) and (one.alive or descendants([root.pid], processes())):
            return True
        return root.mark is not None and self._carried(root.mark)

    def among(self, pid: int, roots: Collection[Root]) -> Root | None:
        by_pid = {root.pid: root for root in roots}
        by_mark = {root.mark: root for root in roots if root.mark is not None}
        one = process(pid)
        for found in ancestors(one) if one is not None else ():
            if (root := by_pid.get(found.pid)) is not None and _is(found, root):
                return root
            if by_mark and (root := by_mark.get(token(found.pid, MARK_NAME) or "")) is not None:
                return root
        return None

    def matching(self, pattern: str) -> frozenset[int]:
        return frozenset(
            pid for pid, one in processes().items() if one.alive and found_in(command_line(pid), pattern)
        )

    def matches(self, pid: int, pattern: str) -> bool:
        one = process(pid)
        return one is not None and one.alive and found_in(command_line(pid), pattern)

    def above(self, pid: int) -> frozenset[int]:
        one = process(pid)
        return frozenset(found.pid for found in ancestors(one)) if one is not None else frozenset((pid,))

    def start_ticks(self, pid: int) -> int | None:
        one = process(pid)
        return one.start_ticks if one is not None and one.alive else None

    def listeners(self, port: int) -> tuple[int, ...]:
        return linux_net.listeners(port) or ()

    def called(self, pid: int) -> str:
        first, *_ = command_line(pid).split() or [""]
        return PurePath(first).name

    def _carried(self, mark: str) -> bool:
        """Does anything that carries the mark live? The one that was found last is looked at first."""
        pid, ticks = self._carriers.get(mark, (0, 0))
        one = process(pid) if pid else None
        if one is not None and one.alive and one.start_ticks == ticks:
            return True
        for one in processes().values():
            if one.alive and token(one.pid, MARK_NAME) == mark:
                self._carriers[mark] = (one.pid, one.start_ticks)
                return True
        self._carriers.pop(mark, None)
        return False


def _is(one: Process, root: Root) -> bool:
    """Is it that very process, not another one with its number?"""
    return root.start_ticks in (None, one.start_ticks)


def found_in(line: str, pattern: str) -> bool:
    """Is the pattern found in a command line? The time that takes grows with the line, whatever the pattern says."""
    parts = _compiled(pattern)
    if parts is None:
        return False
    at, line = 0, line[:LINE_MAX]
    for part in parts:
        if (match := part.search(line, at)) is None:
            return False
        at = match.end()
    return True


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> tuple[re.Pattern[str], ...] | None:
    """None: none that may be looked for, as only an earlier version let in."""
    try:
        return tuple(re.compile(part, re.DOTALL) for part in patterns.parts(pattern))
    except (ValueError, re.error):
        return None
