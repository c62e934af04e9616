"""The Unix socket that gates connect to: bytes to and from links.py, which knows what they mean."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from headway.core.wire import WireError
from headway.daemon.links import Links, Peer
from headway.ports import Clock

READ_BYTES = 1 << 16
UNREAD_MAX_BYTES = 8 << 20  # a gate that reads nothing is cut; it gets the whole table when it connects again


class LinkServer:
    """Accepts gates of the same user on a bound socket."""

    def __init__(self, links: Links, clock: Clock, peer_uid: Callable[[Any], int | None], uid: int) -> None:
        self._links, self._clock, self._peer_uid, self._uid = links, clock, peer_uid, uid
        self._server: asyncio.Server | None = None

    async def start(self, sock: socket.socket) -> None:
        self._server = await asyncio.start_unix_server(self._serve, sock=sock)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._peer_uid(writer.get_extra_info("socket")) not in (self._uid, 0):
            writer.close()
            return
        peer = Peer(send=lambda line: _send(writer, line))
        try:
            while data := await reader.read(READ_BYTES):
                self._links.feed(peer, data, self._clock.now_s())
        except (WireError, OSError, asyncio.CancelledError):
            pass  # its permission to forward stays as it was; it connects again
        finally:
            self._links.lost(peer, self._clock.now_s())
            writer.close()

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()


def _send(writer: asyncio.StreamWriter, line: bytes) -> None:
    if writer.is_closing():
        return
    writer.write(line)
    if writer.transport.get_write_buffer_size() > UNREAD_MAX_BYTES:
        writer.transport.abort()
