"""A strict reader of requests, as the server behind a proxy: what arrived whole, and what could not be read."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import h11

from headway.gate.upstream import Address, Upstream
from tests.parts.gate_play import Play

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
OK_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"

Seen = tuple[bytes, bytes, bytes]  # method, target, body


@dataclass
class Strict:
    """One connection. `seen` are whole requests; `broken` says what was not HTTP/1.1."""

    seen: list[Seen] = field(default_factory=list)
    broken: str = ""
    _reader: h11.Connection = field(default_factory=lambda: h11.Connection(h11.SERVER))
    _request: h11.Request | None = None
    _body: bytes = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes; returns one answer for each request that ended."""
        answers: list[bytes] = []
        if self.broken:
            return answers
        self._reader.receive_data(data)
        while True:
            try:
                event = self._reader.next_event()
            except h11.RemoteProtocolError as error:
                self.broken = str(error)
                return answers
            if isinstance(event, h11.Request):
                self._request, self._body = event, b""
            elif isinstance(event, h11.Data):
                self._body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                assert self._request is not None
                self.seen.append((self._request.method, self._request.target, self._body))
                answers.append(OK_HEAD if self._request.method == b"HEAD" else OK)
                self._again()
            else:
                return answers

    def _again(self) -> None:
        rest, _ = self._reader.trailing_data
        self._reader = h11.Connection(h11.SERVER)
        if rest:
            self._reader.receive_data(rest)


class StrictPlay(Play):
    """A gate in memory before strict readers, one per connection to the server."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: list[Strict] = []

    async def _dial(self, address: Address, make: Callable[[], Upstream]) -> Upstream:
        upstream = await super()._dial(address, make)
        server, reader = self.servers[-1], Strict()
        self.readers.append(reader)

        def say(said: bytes) -> None:
            if not upstream.closed:
                server.say(said)

        def answer(data: bytes) -> None:
            for said in reader.feed(data):
                self.loop.call_soon(say, said)

        server.pipe.on_write = answer
        return upstream

    def send(self, pieces: Iterable[bytes]) -> tuple[list[Seen], list[str], bytes]:
        """What one client sends. Returns what arrived whole, what could not be read, and what the client got."""
        self.readers.clear()
        self.servers.clear()
        client, pipe = self.client("chat")
        for piece in pieces:
            if not pipe.closed:
                client.data_received(piece)
        for _ in range(10):
            self.spin()
        client.connection_lost(None)
        self.spin()
        for server in self.servers:  # the next stream begins on connections of its own
            server.leave()
        seen = [request for reader in self.readers for request in reader.seen]
        return seen, [reader.broken for reader in self.readers if reader.broken], bytes(pipe.out)
