"""Processes as /proc shows them, and signals that never reach a reused pid."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

WATCHED_MAX = 64  # pidfds open at once for one wait
TOKEN_NAME = b"HEADWAY_RUN="
MARK_NAME = b"HEADWAY_LEASE="


@dataclass(frozen=True, slots=True)
class Process:
    """One process at one moment. (pid, start_ticks) names it for as long as the machine is up."""

    pid: int
    parent: int
    start_ticks: int  # clock ticks after boot
    state: str
    threads: int
    busy_ticks: int = 0  # clock ticks of processor time, its ended children included

    @property
    def alive(self) -> bool:
        """A zombie is dead. One whose first thread ended while others go on only looks like a zombie."""
        return self.state not in "ZX" or self.threads > 1


def process(pid: int) -> Process | None:
    """None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # the name before may hold blanks and brackets
    return Process(
        pid,
        int(fields[1]),
        int(fields[19]),
        fields[0].decode(),
        int(fields[17]),
        sum(map(int, fields[11:15])),
    )


def ticks_now() -> int:
    """The moment as start ticks: what has more than this was started later."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def processes() -> dict[int, Process]:
    """Every process there is, by pid."""
    found = (process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {one.pid: one for one in found if one is not None}


def descendants(pids: Iterable[int], table: Mapping[int, Process]) -> list[Process]:
    """Living descendants of `pids`, parents before children, `pids` themselves left out."""
    children: dict[int, list[Process]] = {}
    for one in table.values():
        children.setdefault(one.parent, []).append(one)
    roots = set(pids)
    open_ends, found = list(roots), []
    while open_ends:
        for child in children.get(open_ends.pop(0), ()):
            if child.pid not in roots:
                found.append(child)
                open_ends.append(child.pid)
    return [one for one in found if one.alive]


def ancestors(one: Process) -> Iterator[Process]:
    """`one`, its parent, and so on up."""
    seen: set[int] = set()
    above: Process | None = one
    while above is not None and above.pid not in seen:
        seen.add(above.pid)
        yield above
        above = process(above.parent)


def token(pid: int, name: bytes = TOKEN_NAME) -> str | None:
    """The run token, or another word, in a process's environment; None: it has none, or it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return None
    for entry in entries:
        if entry.startswith(name):
            return entry[len(name) :].decode(errors="replace")
    return None


def command_line(pid: int) -> str:
    """Its words with blanks between them; empty when there are none to see."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def words(pid: int) -> str:
    """A process in words: `pid 4711 (python server.py)`."""
    line = command_line(pid)
    return f"pid {pid} ({line[:120]})" if line else f"pid {pid}"


def open_pidfd(pid: int, start_ticks: int) -> int | None:
    """A pidfd of exactly that process; None when it is gone, whoever has its number now."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    now = process(pid)  # looked at after the opening: the fd can only be of this one
    if now is None or now.start_ticks != start_ticks:
        os.close(fd)
        return None
    return fd


def send(one: Process, *numbers: signal.Signals) -> None:
    """Signal exactly that process; one that is gone or belongs to another user is left alone."""
    fd = open_pidfd(one.pid, one.start_ticks)
    if fd is None:
        return
    try:
        for number in numbers:
            signal.pidfd_send_signal(fd, number)
    except (ProcessLookupError, PermissionError):
        pass
    finally:
        os.close(fd)


async def first_death(names: Iterable[tuple[int, int]], limit_s: float) -> set[tuple[int, int]]:
    """Wait until one of the processes (pid, start ticks) has ended, at most `limit_s`; returns those that have."""
    fds = {name: open_pidfd(*name) for name in sorted(names)[:WATCHED_MAX]}
    dead = {name for name, fd in fds.items() if fd is None}
    loop = asyncio.get_running_loop()
    woken = loop.create_future()

    def wake(name: tuple[int, int]) -> None:
        dead.add(name)
        if not woken.done():
            woken.set_result(None)

    watched = {name: fd for name, fd in fds.items() if fd is not None}
    try:
        if not dead:
            for name, fd in watched.items():
                loop.add_reader(fd, wake, name)
            async with asyncio.timeout(limit_s):
                await woken
    except TimeoutError:
        pass
    finally:
        for fd in watched.values():
            loop.remove_reader(fd)
            os.close(fd)
    return dead
