"""What one client gets: the server's answer framed for it, heartbeats while it waits, errors in its API's shape.

After the first heartbeat the status is sent; whatever fails then is one error event, then the end.
"""

from typing import TYPE_CHECKING

from headway.gate import refusals
from headway.gate.heads import RequestHead, ResponseHead, write_response
from headway.gate.lines import Refused
from headway.gate.record import Record

if TYPE_CHECKING:
    from headway.gate.protocol import Client

HEARTBEAT = b": headway\n\n"
ERROR_TEXT_MAX_BYTES = 64 * 1024


class Answer:
    """One answer. `client` is None once it's gone: then everything is dropped."""

    __slots__ = (
        "_chunked",
        "_clipped",
        "_error",
        "_recode",
        "beating",
        "client",
        "head",
        "record",
        "started",
    )

    def __init__(self, client: "Client", head: RequestHead, record: Record) -> None:
        self.client: Client | None = client
        self.head, self.record = head, record
        self.started = False  # bytes of an answer went out
        self.beating = False  # its head was ours: heartbeats
        self._chunked = head.minor == 1
        self._recode = self._clipped = False
        self._error = b""

    def write(self, data: bytes) -> None:
        """Send bytes of the answer."""
        self.started = True
        if self.client is not None and data:
            self.client.write(data)

    def close_after(self) -> None:
        """The connection ends with this answer."""
        if self.client is not None:
            self.client.must_close = True

    def closes(self) -> bool:
        """Whether the connection ends with this answer."""
        return self.client is None or self.client.must_close

    # The server's

    def begin(self, read: ResponseHead, to_end: bool) -> None:
        """Its head. `to_end`: the body ends with the connection. After heartbeats only the body can pass."""
        if self.beating:
            self._clipped, self._recode = read.status != 200 or not read.stream, True
            return
        self._recode = read.chunked and not self._chunked
        if to_end or self._recode:
            self.close_after()
        framing = b"" if self._recode else read.framing
        self.write(write_response(read, self.record.id, framing=framing, close=self.closes()))

    def data(self, data: bytes, parts: list[bytes]) -> None:
        """A piece of its body: `data` as it came, `parts` without the chunk framing."""
        self.record.out_bytes += len(data)
        self.record.tail(data)
        if not self._recode:
            self.write(data)
        elif self._clipped:
            self._error = (self._error + b"".join(parts))[:ERROR_TEXT_MAX_BYTES]
        elif self.beating:
            self._event(b"".join(parts))
        else:
            self.write(b"".join(parts))

    def end(self) -> None:
        """Its last byte came."""
        if self._clipped:
            self._fail(self._error)
        elif self.beating and self._chunked:
            self.write(b"0\r\n\r\n")

    # The gate's own

    def heartbeat(self) -> None:
        """Say that the request lives; the first one sends the head."""
        if not self.beating:
            self.beating = True
            if not self._chunked:
                self.close_after()
            self.write(refusals.stream_head(self.record.id, chunked=self._chunked))
        self._event(HEARTBEAT)

    def refuse(self, refused: Refused) -> None:
        """An error of the gate's own."""
        self.record.refused(refused.code, refused.status)
        shape = refusals.shape_of(self.head.path)
        body = refusals.encode(refusals.document(shape, refused.code, refused.status, refused.facts))
        if self.beating:
            self._fail(body)
        else:
            self.reply(refused.status, body, "application/json", refusals.retry_headers(refused))

    def reply(self, status: int, body: bytes, media: str, extra: dict[str, str]) -> None:
        """A whole answer of the gate's own."""
        self.write(
            refusals.reply(status, body, media=media, request_id=self.record.id, close=self.closes(),
                           head_only=self.head.method == "HEAD", extra=extra)
        )  # fmt: skip

    def _fail(self, document: bytes) -> None:
        self.close_after()
        self._event(b"data: " + document.replace(b"\n", b" ") + b"\n\n")
        if self._chunked:
            self.write(b"0\r\n\r\n")

    def _event(self, data: bytes) -> None:
        if data:
            self.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
