"""Clients that left while their reading was paused: nobody reads there, so the end must be asked for.

An end that stands behind bytes the system has no room for is seen only once these are read.
"""

import select
from collections.abc import Iterable, Iterator

from headway.gate.upstream import Transport


def find(transports: Iterable[Transport | None]) -> Iterator[Transport]:
    """Those whose peer has closed its side. Nothing where the system has no POLLRDHUP."""
    if not hasattr(select, "POLLRDHUP"):
        return
    poll = select.poll()
    by_fd: dict[int, Transport] = {}
    for transport in transports:
        sock = transport.get_extra_info("socket") if transport is not None else None
        if sock is not None and transport is not None and sock.fileno() >= 0:
            by_fd[sock.fileno()] = transport
            poll.register(sock.fileno(), select.POLLRDHUP)
    for fd, _ in poll.poll(0) if by_fd else ():
        yield by_fd[fd]
