"""An answer without an end whose client has to take it: one that takes nothing keeps others out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from fastapi.responses import StreamingResponse

from headway.api.auth import Send

TRANSPORT = "headway_transport"  # of the connection, in the state of a request
TAKES_NOTHING_S = 30.0


class Taken(StreamingResponse):
    """Ends its connection once the client has taken no byte for TAKES_NOTHING_S, though some wait for it.

    What the kernel holds for a client counts as taken: a few hundred kilobytes.
    """

    def __init__(self, pieces: AsyncIterator[bytes], transport: asyncio.Transport, **more: Any) -> None:
        super().__init__(pieces, **more)
        self._pieces, self._transport = pieces, transport

    async def stream_response(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._pieces) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                if not await self._sent(
                    send, {"type": "http.response.body", "body": piece, "more_body": True}
                ):
                    self._transport.abort()
                    return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _sent(self, send: Send, message: dict[str, Any]) -> bool:
        """False: nothing was taken meanwhile. The server waits before it writes, never in the middle of it."""
        while True:
            left_bytes = self._transport.get_write_buffer_size()
            try:
                async with asyncio.timeout(TAKES_NOTHING_S):
                    await send(message)
                    return True
            except TimeoutError:
                if self._transport.get_write_buffer_size() >= left_bytes:
                    return False
