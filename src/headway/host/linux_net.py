"""Who listens on a TCP port of this machine, from /proc/net/tcp and /proc/PID/fd."""

from __future__ import annotations

import os
from collections.abc import Iterable

from headway.host.linux_proc import words

LISTEN = "0A"
# Addresses that a connection to 127.0.0.1 can reach, as /proc writes them (little-endian words), most exact first.
REACHED = (
    ("0100007F",),
    ("0000000000000000FFFF00000100007F",),  # ::ffff:127.0.0.1
    ("00000000",),
    ("00000000000000000000000000000000",),
)


def listening_inodes(port: int) -> frozenset[str]:
    """Socket inodes that a connection to 127.0.0.1:`port` would reach: those bound to the most exact address."""
    wanted = f"{port:04X}"
    found: dict[str, set[str]] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as file:
                next(file)
                for line in file:
                    fields = line.split()
                    if fields[3] != LISTEN:
                        break  # the kernel lists listeners first; there may be 30,000 connections behind them
                    address, _, number = fields[1].partition(":")
                    if number == wanted:
                        found.setdefault(address, set()).add(fields[9])
        except (FileNotFoundError, StopIteration):  # a kernel without IPv6
            continue
    for group in REACHED:
        if inodes := set().union(*(found.get(address, set()) for address in group)):
            return frozenset(inodes)
    return frozenset()


def sockets_of(pid: int) -> frozenset[str]:
    """Inodes of the sockets a process has open; empty when it is gone or not ours to look into."""
    found = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{name}")
            except OSError:  # closed meanwhile
                continue
            if target.startswith("socket:["):
                found.add(target[8:-1])
    except OSError:
        return frozenset()
    return frozenset(found)


def owned(port: int, pids: Iterable[int]) -> bool:
    """Do `pids` own every socket that 127.0.0.1:`port` reaches, and is there one?"""
    left = set(listening_inodes(port))
    if not left:
        return False
    for pid in pids:
        left -= sockets_of(pid)
        if not left:
            return True
    return False


def listeners(port: int) -> tuple[int, ...] | None:
    """The processes that listen on 127.0.0.1:`port`; None: nobody. Those of other users are not to be seen."""
    inodes = listening_inodes(port)
    if not inodes:
        return None
    return tuple(int(n) for n in os.listdir("/proc") if n.isdigit() and inodes & sockets_of(int(n)))


def listener_words(port: int) -> str | None:
    """Who listens there, in words; None: nobody."""
    inodes = listening_inodes(port)
    if not inodes:
        return None
    for name in os.listdir("/proc"):
        if name.isdigit() and inodes & sockets_of(int(name)):
            return words(int(name))
    return "a program of another user"
