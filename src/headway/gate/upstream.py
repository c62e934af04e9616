"""Connections to model servers: dialled, kept while idle, used by one request at a time.

Answers pass raw; a parser only finds where a chunked one ends. Connections idle for 4 s are not used again: common
servers close theirs after 5 s.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import httptools

from headway.gate.heads import BODYLESS_STATUS, HEAD_MAX_BYTES, BadResponse, ResponseHead, read_response

if TYPE_CHECKING:
    from headway.gate.call import Call

CONNECT_LIMIT_S = 5.0
IDLE_MAX_S = 4.0
IDLE_MAX = 64  # per address
HIGH_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """Where a service listens; made by `read_address`, once for each URL.

    `prefix` is put before every path; `path` is a Unix socket.
    """

    host: str
    port: int
    prefix: str = ""
    path: str = ""
    tls: bool = False

    @property
    def host_header(self) -> bytes:
        """The value of Host there."""
        if self.path:
            return b"localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = self.port == (443 if self.tls else 80)
        return (host if default else f"{host}:{self.port}").encode("latin-1")


@lru_cache(maxsize=256)
def read_address(base: str) -> Address | None:
    """An upstream's base URL; None when it's empty or no URL that can be dialled."""
    if base.startswith("unix:"):
        return Address("", 0, path=base.removeprefix("unix:"))
    try:
        parts = urlsplit(base)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    return Address(parts.hostname, port, parts.path.rstrip("/"), tls=parts.scheme == "https")


class Transport(Protocol):
    """What the gate uses of a transport; asyncio's and uvloop's have it."""

    def write(self, data: bytes, /) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def is_closing(self) -> bool: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def get_extra_info(self, name: str, default: Any = None, /) -> Any: ...
    def can_write_eof(self) -> bool: ...
    def write_eof(self) -> None: ...
    def get_write_buffer_size(self) -> int: ...


Dial = Callable[[Address, Callable[[], "Upstream"]], Awaitable["Upstream"]]


async def dial(address: Address, make: Callable[[], "Upstream"]) -> "Upstream":
    """Connect within 5 s. Raises OSError, or TimeoutError when nobody answered."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(CONNECT_LIMIT_S):
        if address.path:
            _, made = await loop.create_unix_connection(make, address.path)
        else:
            tls = True if address.tls else None  # the system's certificates
            _, made = await loop.create_connection(make, address.host, address.port, ssl=tls)
    return made


class Upstream(asyncio.Protocol):
    """One connection. `exchange` is the request it serves, None while idle."""

    __slots__ = (
        "_buffer", "_extra", "_keep", "_left", "_parser", "_parts", "address", "closed", "exchange", "head",
        "head_only", "idle_since_s", "over", "paused", "pool", "responded", "reused", "transport", "tunnel",
    )  # fmt: skip

    def __init__(self, pool: "Pool", address: Address) -> None:
        self.pool, self.address = pool, address
        self.transport: Transport | None = None
        self.exchange: Call | None = None
        self.closed = self.reused = self.tunnel = self.paused = False
        self.idle_since_s = 0.0
        self._reset()

    def _reset(self) -> None:
        self.head: ResponseHead | None = None
        self.responded = self.over = self._extra = self._keep = self.head_only = False
        self._buffer = b""
        self._left: int | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._parts: list[bytes] = []

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        transport.set_write_buffer_limits(HIGH_BYTES)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if self.exchange is None:
            self.drop()  # bytes that nobody asked for
        elif self.tunnel:
            self.exchange.tunnel_data(data)
        else:
            self.responded = True
            try:
                self._head(data) if self.head is None else self._body(data)
            except (BadResponse, httptools.HttpParserError):
                self._broken()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        exchange, self.exchange = self.exchange, None
        if exchange is None:
            self.pool.forget(self)
        elif self.head is not None and self._to_end() and exc is None and not self.tunnel:
            exchange.response_over(None)
        else:
            exchange.upstream_lost(self)

    def pause_writing(self) -> None:
        if self.exchange is not None:
            self.exchange.upload_full()

    def resume_writing(self) -> None:
        if self.exchange is not None:
            self.exchange.upload_free()

    # One request

    def start(self, exchange: "Call", data: bytes, *, head_only: bool) -> None:
        """Send a request; `exchange` gets the answer."""
        self._reset()
        self.exchange, self.head_only = exchange, head_only
        if self.transport is not None and not self.closed and not self.transport.is_closing():
            self.transport.write(data)

    def write(self, data: bytes) -> None:
        """Send more."""
        if self.transport is not None and not self.closed and not self.transport.is_closing():
            self.transport.write(data)

    def drop(self) -> None:
        """Cut the connection; its request, if any, hears nothing more."""
        self.exchange, self.closed = None, True
        if self.transport is not None:
            self.transport.abort()

    def pause(self) -> None:
        """Stop reading: the client is slower."""
        if not self.paused:
            self.paused = True
            if self.transport is not None and not self.closed and not self.transport.is_closing():
                self.transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self.paused:
            self.paused = False
            if self.transport is not None and not self.closed and not self.transport.is_closing():
                self.transport.resume_reading()

    def flow(self, *, paused: bool) -> None:
        """Begin as the client is: the request before may have left it the other way."""
        if paused:
            self.pause()
        else:
            self.resume()

    # Inside

    def _to_end(self) -> bool:
        return self.head is not None and self._left is None and not self.head.chunked

    def _head(self, data: bytes) -> None:
        data = self._buffer + data if self._buffer else data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if len(data) > HEAD_MAX_BYTES:
                raise BadResponse("head too large")
            self._buffer = data
            return
        head, rest = data[: end + 4], data[end + 4 :]
        self._buffer = b""
        read, length, framing = read_response(head)
        assert self.exchange is not None
        if read.status == 101:
            self.exchange.tunnel_open(read, rest)
            self.head, self.tunnel = read, True
            return
        if 100 <= read.status < 200:  # an interim answer; the final one follows
            self.exchange.interim(head, read)
            if rest:
                self._head(rest)
            return
        self.head = read
        if self.head_only or read.status in BODYLESS_STATUS:
            self._left = 0
        elif read.chunked:
            self._parser = httptools.HttpResponseParser(self)
            self._parser.feed_data(head)
        else:
            self._left = length
        self._keep = read.keep
        self.exchange.response_head(read, self._left, framing, alone=not rest)
        if rest:
            self._body(rest)
        elif self._left == 0:
            self._finish()

    def _body(self, data: bytes) -> None:
        exchange, head = self.exchange, self.head
        if exchange is None or head is None:
            return
        if self._parser is not None:
            self._parser.feed_data(data)
            if self._extra:
                raise BadResponse("bytes after the answer")
            parts, self._parts = self._parts, []
            exchange.response_data(data, parts)
        elif self._left is None:
            exchange.response_data(data, [data])
        else:
            if len(data) > self._left:
                self._keep, data = False, data[: self._left]
            self._left -= len(data)
            self.over = self._left == 0
            if data:
                exchange.response_data(data, [data])
        if self.over or self._left == 0:
            self._finish()

    def on_body(self, part: bytes) -> None:
        """The parser's: a piece of a chunked body."""
        self._parts.append(part)

    def on_message_complete(self) -> None:
        """The parser's: the last chunk was read."""
        self.over = True

    def on_message_begin(self) -> None:
        """The parser's: a second answer begins, which nobody asked for."""
        self._extra = self.over

    def _finish(self) -> None:
        exchange, self.exchange = self.exchange, None
        keep = self._keep
        if exchange is not None:
            exchange.response_over(self if keep else None)
        if not keep:
            self.close()

    def close(self) -> None:
        """Close after what was written."""
        self.closed = True
        if self.transport is not None:
            self.transport.close()

    def _broken(self) -> None:
        exchange = self.exchange
        self.drop()
        if exchange is not None:
            exchange.upstream_broken()


class Pool:
    """Idle connections by address."""

    def __init__(self) -> None:
        self._idle: dict[Address, deque[Upstream]] = {}

    def take(self, address: Address, now_s: float) -> Upstream | None:
        """The most recently used idle connection; None: dial."""
        idle = self._idle.get(address)
        while idle:
            found = idle.pop()
            if not found.closed and now_s - found.idle_since_s < IDLE_MAX_S:
                found.reused = True
                return found
            found.close()
        return None

    def put(self, upstream: Upstream, now_s: float) -> None:
        """Keep a connection whose request is over."""
        idle = self._idle.setdefault(upstream.address, deque())
        if upstream.closed or len(idle) >= IDLE_MAX:
            upstream.close()
            return
        upstream.idle_since_s = now_s
        idle.append(upstream)

    def forget(self, upstream: Upstream) -> None:
        """It was closed."""
        idle = self._idle.get(upstream.address)
        if idle is not None and upstream in idle:
            idle.remove(upstream)

    def sweep(self, now_s: float, address: Address | None = None) -> None:
        """Close what was idle too long; with an address, all of its idle connections."""
        for key, idle in list(self._idle.items()):
            while idle and (key == address or now_s - idle[0].idle_since_s >= IDLE_MAX_S):
                idle.popleft().close()
            if not idle:
                del self._idle[key]
