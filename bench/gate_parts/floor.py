"""The least that a Python proxy can do: uvloop passes bytes on, unread. What ours costs above this is its own work.

python -m bench.gate_parts.floor PORT UPSTREAM_PORT: every client has a connection to the model server of its own.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import uvloop

BACKLOG = 4096


class Back(asyncio.Protocol):
    """The connection to the model server."""

    def __init__(self, client: asyncio.Transport) -> None:
        self.client = client

    def data_received(self, data: bytes) -> None:
        self.client.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.client.close()


class Front(asyncio.Protocol):
    """A client's. What comes before the model server is reached waits."""

    def __init__(self, upstream_port: int) -> None:
        self.upstream_port = upstream_port
        self.early = b""
        self.back: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        client = cast(asyncio.Transport, transport)
        self.dialling = asyncio.get_running_loop().create_task(self._dial(client))

    async def _dial(self, client: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        self.back, _ = await loop.create_connection(lambda: Back(client), "127.0.0.1", self.upstream_port)
        self.back.write(self.early)

    def data_received(self, data: bytes) -> None:
        if self.back is None:
            self.early += data
        else:
            self.back.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.back is not None:
            self.back.close()


async def serve(port: int, upstream_port: int) -> None:
    """Until it's killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Front(upstream_port), "127.0.0.1", port, backlog=BACKLOG)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
