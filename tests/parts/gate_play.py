"""A gate without sockets: memory transports, a scripted server, a clock that can jump."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from headway.core import wire
from headway.gate.hub import Hub
from headway.gate.link import Identity
from headway.gate.protocol import Client
from headway.gate.upstream import Address, Upstream


class Pipe(asyncio.Transport):
    """One end of a connection: what was written to it, and what the gate did with it."""

    def __init__(self, on_write: Callable[[bytes], None] = lambda data: None) -> None:
        super().__init__()
        self.out = bytearray()
        self.closed = self.aborted = self.paused = self.ended = False
        self.on_write = on_write
        self.left_bytes = 0  # what the other side has not taken yet, as the test says

    def get_write_buffer_size(self) -> int:
        return self.left_bytes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "written after close"
        self.out += data
        self.on_write(bytes(data))

    def take(self) -> bytes:
        out = bytes(self.out)
        self.out.clear()
        return out

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        assert not self.paused, "paused twice"
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 50000), "sockname": ("127.0.0.1", 8491)}.get(name, default)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True


class JumpLoop(asyncio.SelectorEventLoop):
    """A real loop whose clock can be moved on."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


class Server:
    """One connection to the scripted server."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.pipe = Pipe()

    def say(self, data: bytes) -> None:
        self.upstream.data_received(data)

    def leave(self, error: Exception | None = None) -> None:
        self.upstream.connection_lost(error)


class Play:
    """One gate; `chat` is its service, reached as model `gpt`."""

    def __init__(self, gate: Any = "open", state: Any = "awake", **more: Any) -> None:
        self.loop = JumpLoop()
        self.rows: list[dict[str, Any]] = []
        self.servers: list[Server] = []
        self.refuse: Exception | None = None
        self.link: list[wire.Message] = []
        self.hub = Hub(self.loop, Identity("g", 1, "1.0", 0.0, "log"), self.rows.append, connect=self._dial)
        self.hub.send = self._sent
        table = {key: more.pop(key) for key in ("tokens", "hosts", "origins", "mode", "salt") if key in more}
        self.service = wire.Service(
            "chat", 1, gate, state, **{"upstream": "http://127.0.0.1:9000", "names": ("gpt",), **more}
        )
        self.hub.start()
        self.hub.link.connect(self.hub.now())
        self.tell(wire.Table(wire.PROTO, "d", {"chat": self.service}, **table))

    def close(self) -> None:
        self.loop.close()

    def _sent(self, data: bytes) -> None:
        self.link += [wire.decode(line) for line in data.splitlines()]

    async def _dial(self, address: Address, make: Callable[[], Upstream]) -> Upstream:
        if self.refuse is not None:
            raise self.refuse
        server = Server(make())
        server.upstream.connection_made(server.pipe)
        self.servers.append(server)
        return server.upstream

    def tell(self, message: wire.Message) -> None:
        """The daemon says something."""
        self.hub.obey(self.hub.link.feed(wire.encode(message), self.hub.now()))
        self._sent(self.hub.link.take_out())

    def spin(self, jump_s: float = 0.0) -> None:
        """Let everything run that's due, after moving the clock."""
        self.loop.ahead_s += jump_s
        for _ in range(6):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def client(self, fixed: str | None = None) -> tuple[Client, Pipe]:
        client, pipe = Client(self.hub, fixed), Pipe()
        client.connection_made(pipe)
        return client, pipe

    def ask(self, data: bytes, fixed: str | None = None) -> tuple[Client, Pipe]:
        """A new client sends this."""
        client, pipe = self.client(fixed)
        client.data_received(data)
        self.spin()
        return client, pipe

    @property
    def line(self) -> Any:
        return self.hub.holding.lines["chat"]

    @property
    def idle(self) -> bool:
        """Whether nothing is counted any more."""
        return not self.line.forwarded and not len(self.line.order) and not self.line.active


def said(play: Play, kind: type[Any]) -> list[Any]:
    """What the gate said on the link, of one kind."""
    return [message for message in play.link if isinstance(message, kind)]


def document(out: bytes | bytearray) -> dict[str, Any]:
    """The JSON body of an answer."""
    row: dict[str, Any] = json.loads(bytes(out).partition(b"\r\n\r\n")[2])
    return row


def post(body: bytes, path: str = "/v1/chat/completions", *fields: str, length: bool = True) -> bytes:
    rows = [f"POST {path} HTTP/1.1", "Host: localhost", *fields]
    if length:
        rows.append(f"Content-Length: {len(body)}")
    if not any(row.lower().startswith("content-type") for row in fields):
        rows.append("Content-Type: application/json")
    return "\r\n".join([*rows, "", ""]).encode() + body


def get(path: str, *fields: str, method: str = "GET", version: str = "1.1") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/{version}", "Host: localhost", *fields, "", ""]).encode()
