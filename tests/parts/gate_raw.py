"""HTTP/1 messages as raw bytes on both sides of a gate, and what must be the same of them."""

import asyncio
import contextlib
import functools
import hashlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

from headway.core import wire
from headway.gate.hub import Hub
from headway.gate.link import Identity
from headway.gate.protocol import Client

LIMIT_S = 20.0
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
# what belongs to one connection, and what the gate may add
HOP = {
    b"connection", b"keep-alive", b"te", b"upgrade", b"expect", b"host", b"x-request-id", b"x-accel-buffering",
    b"proxy-authorization", b"proxy-connection",
}  # fmt: skip
FRAMING = {b"content-length", b"transfer-encoding"}
Row = tuple[bytes, bytes]


@dataclass(frozen=True)
class Exchange:
    """What a client sends, in pieces, and what the server answers, in pieces. `to_end`: then it closes."""

    name: str
    request: tuple[bytes, ...]
    response: tuple[bytes, ...]
    to_end: bool = False

    @property
    def head_only(self) -> bool:
        return self.request[0].startswith(b"HEAD ")

    @property
    def waits(self) -> bool:
        """Whether its client sends the body only after `100 Continue`."""
        return b"\r\nExpect: 100-continue\r\n" in self.request[0]


@dataclass(frozen=True)
class Message:
    """One message: start line, header lines, and the body with all of its framing."""

    start: bytes
    lines: tuple[bytes, ...]
    body: bytes

    def named(self, name: bytes) -> bytes | None:
        found = [value.strip() for key, value in map(split, self.lines) if key == name]
        return found[0] if found else None

    def end_to_end(self) -> bytes:
        """Everything that a proxy must not change, hashed."""
        passing = [line for line in self.lines if split(line)[0] not in HOP | FRAMING]
        framing = sorted(split(line) for line in self.lines if split(line)[0] in FRAMING)
        seen = hashlib.sha256()
        for part in (self.start, *passing, *(value.strip() for _, value in framing), self.body):
            seen.update(b"%d:%b" % (len(part), part))
        return seen.digest()


def split(line: bytes) -> Row:
    name, _, value = line.partition(b":")
    return name.lower(), value


async def read(
    reader: asyncio.StreamReader,
    *,
    head_only: bool = False,
    response: bool = False,
    on_expect: Callable[[], None] = lambda: None,
) -> Message:
    """One whole message; of a response without a length, to the end of the connection."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        start, *lines = head[:-4].split(b"\r\n")
        if not (response and start[9:10] == b"1" and start[9:12] != b"101"):
            break
    made = Message(start, tuple(lines), b"")
    if made.named(b"expect") is not None:
        on_expect()
    status = start[9:12] if response else b""
    if head_only or status in (b"204", b"304"):
        return made
    length, coding = made.named(b"content-length"), made.named(b"transfer-encoding")
    if coding is not None:
        body = await read_chunks(reader)
    elif length is not None:
        body = await reader.readexactly(int(length))
    else:
        body = await reader.read() if response else b""
    return Message(start, tuple(lines), body)


async def read_chunks(reader: asyncio.StreamReader) -> bytes:
    out = []
    while True:
        line = await reader.readuntil(b"\r\n")
        out.append(line)
        size = int(line.partition(b";")[0], 16)
        if size == 0:
            break
        out.append(await reader.readexactly(size + 2))
    while out[-1] != b"\r\n":
        out.append(await reader.readuntil(b"\r\n"))
    return b"".join(out)


class Server:
    """Answers by script: the header X-Case names the exchange. Keeps what it got."""

    def __init__(self, exchanges: Iterable[Exchange]) -> None:
        self.exchanges = {exchange.name.encode(): exchange for exchange in exchanges}
        self.got: dict[bytes, Message] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """Its port."""
        listener = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=1 << 26)
        try:
            yield listener.sockets[0].getsockname()[1]
        finally:
            listener.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # its client left
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        message = await read(reader, on_expect=lambda: writer.write(CONTINUE))
        case = message.named(b"x-case") or b""
        self.got[case] = message
        for piece in self.exchanges[case].response:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        return not self.exchanges[case].to_end


async def ask(port: int, exchange: Exchange) -> Message:
    """Play the client's side on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    try:
        for number, piece in enumerate(exchange.request):
            writer.write(piece)
            await writer.drain()
            if number == 0 and exchange.waits:
                assert await reader.readuntil(b"\r\n\r\n") == CONTINUE
            await asyncio.sleep(0)
        async with asyncio.timeout(LIMIT_S):
            return await read(reader, head_only=exchange.head_only, response=True)
    finally:
        writer.close()


@contextlib.asynccontextmanager
async def gate(upstream: int, model: str | None) -> AsyncIterator[tuple[int, int]]:
    """A gate on real sockets: the ports of its front door and of its service `chat`."""
    loop = asyncio.get_running_loop()
    hub = Hub(loop, Identity("g", 1, "1", 0.0, "log"), lambda row: None)
    hub.start()
    row = wire.Service(
        "chat", 1, "open", "awake", upstream=f"http://127.0.0.1:{upstream}", names=("gpt",), model=model
    )
    hub.obey(hub.link.preload(wire.Table(wire.PROTO, "d", {"chat": row}), hub.now()))
    servers = [
        await loop.create_server(functools.partial(Client, hub, fixed), "127.0.0.1", 0)
        for fixed in (None, "chat")
    ]
    try:
        yield servers[0].sockets[0].getsockname()[1], servers[1].sockets[0].getsockname()[1]
    finally:
        for server in servers:
            server.close()
        for client in list(hub.clients):
            if client.transport is not None:
                client.transport.abort()
        hub.pool.sweep(float("inf"))
        await asyncio.sleep(0)


def cut(data: bytes, at: Iterable[int]) -> tuple[bytes, ...]:
    """The same bytes in pieces."""
    places = sorted({0, *(n for n in at if 0 < n < len(data)), len(data)})
    return tuple(data[a:b] for a, b in itertools.pairwise(places))
