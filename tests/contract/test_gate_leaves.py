"""A gate that stops accepting drops nobody whom it accepted, at whatever step it's told to, on both kinds of loop."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import cast

import pytest
import uvloop

from headway.gate.child import stop_accepting

pytestmark = pytest.mark.contract

CLIENTS = 20
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


class Hello(asyncio.Protocol):
    """One accepted connection: it is greeted."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(b"x")


async def told_after(steps: int) -> tuple[int, int]:
    """How many clients are greeted, and how many are left for the next gate."""
    with socket.create_server(("127.0.0.1", 0), backlog=CLIENTS) as listener, contextlib.ExitStack() as stack:
        own = listener.dup()
        own.setblocking(False)
        server = await asyncio.get_running_loop().create_server(Hello, sock=own, backlog=CLIENTS)
        clients = [
            stack.enter_context(socket.create_connection(listener.getsockname())) for _ in range(CLIENTS)
        ]
        for _ in range(steps):
            await asyncio.sleep(0)
        await stop_accepting([server])
        greeted = 0
        for client in clients:
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                greeted += client.recv(1) == b"x"
        left = 0
        listener.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                listener.accept()[0].close()
                left += 1
        return greeted, left


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("steps", range(6))
def test_nobody_who_was_accepted_is_dropped(kind: str, steps: int) -> None:
    with asyncio.Runner(loop_factory=LOOPS[kind]) as runner:
        greeted, left = runner.run(told_after(steps))
    assert greeted + left == CLIENTS
