"""What one client gets: the server's answer framed for it, heartbeats while it waits, errors in its API's shape.

After the first heartbeat the status is sent; whatever fails then is one error event, then the end.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from headway.gate import local, refusals
from headway.gate.heads import RequestHead, ResponseHead, write_response
from headway.gate.lines import Refused
from headway.gate.record import Record
from headway.gate.usage import Usage, looks_into

if TYPE_CHECKING:
    from headway.gate.protocol import Client

ERROR_TEXT_MAX_BYTES = 64 * 1024
KEPT: Final = (b"Connection: keep-alive",)  # an HTTP/1.0 client must be told


class Answer:
    """One answer. `client` is None once it's gone: then everything is dropped."""

    started: bool = False  # bytes of an answer went out
    beating: bool = False  # its head was ours: heartbeats
    _recode: bool = False
    _clipped: bool = False
    _error: bytes = b""
    _unsent: bytes = b""
    _more: tuple[bytes, ...] = ()

    def __init__(self, client: "Client", head: RequestHead, record: Record) -> None:
        self.client: Client | None = client
        self.head, self.record = head, record
        self._chunked = head.minor == 1
        if b"origin" in head.fields:
            self._more = local.cors(head, client.hub.origins)

    @property
    def shape(self) -> refusals.Shape:
        """Whose API its client reads."""
        return refusals.shape_of(self.head.path)

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

    def begin(self, read: ResponseHead, framing: bytes, *, to_end: bool) -> None:
        """Its head, and the line that frames its body. `to_end`: the body ends with the connection.

        After heartbeats only the body can pass.
        """
        if not read.encoded and looks_into(read.media):
            self.record.usage = Usage()
        if self.beating:
            self._clipped, self._recode = read.status != 200 or not read.stream or read.encoded, True
            return
        self._recode = read.chunked and not self._chunked
        if to_end or self._recode:
            self.close_after()
        closes, more = self.closes(), self._more
        if self._recode:
            framing = b""
        if not self._chunked and not closes:
            more = (*more, *KEPT)
        self._unsent = write_response(read, self.record.id, framing=framing, close=closes, more=more)

    def data(self, data: bytes, parts: list[bytes]) -> None:
        """A piece of its body: `data` as it came, `parts` without the chunk framing."""
        record = self.record
        record.out_bytes += len(data)
        if record.usage is not None:
            for part in parts:
                record.usage.feed(part)
        client = self.client
        if not self._recode:
            if self._unsent:
                data, self._unsent = self._unsent + data, b""
            self.started = True
            if client is not None:
                client.write(data)
        elif self._unsent:
            first, self._unsent = self._unsent, b""
            self.write(first + b"".join(parts))
        elif self._clipped:
            self._error = (self._error + b"".join(parts))[:ERROR_TEXT_MAX_BYTES]
        elif self.beating:
            self._event(b"".join(parts))
        else:
            self.write(b"".join(parts))

    def flush(self) -> None:
        """Send the head, if it waits for the first piece of the body."""
        if self._unsent:
            first, self._unsent = self._unsent, b""
            self.write(first)

    def end(self) -> None:
        """Its last byte came."""
        self.flush()
        if self._clipped:
            self._fail(refusals.error_of(self.shape, self.record.status, self._error))
        elif self.beating and self._chunked:
            self.write(b"0\r\n\r\n")

    # The gate's own

    def heartbeat(self) -> None:
        """Say that the request lives; the first one sends the head."""
        if not self.beating:
            self.beating = True
            if not self._chunked:
                self.close_after()
            self.write(refusals.stream_head(self.record.id, chunked=self._chunked, more=self._more))
        self._event(refusals.heartbeat(self.shape))

    def refuse(self, refused: Refused) -> None:
        """An error of the gate's own."""
        self.record.refused(refused.code, refused.status)
        facts, extra = refused.facts, refusals.retry_headers(refused)
        if extra:
            facts = {**facts, "retry_after_s": int(extra["Retry-After"])}
        document = refusals.document(self.shape, refused.code, refused.status, facts)
        if self.beating:
            self._fail(document)
        else:
            self.reply(refused.status, refusals.encode(document), "application/json", extra)

    def reply(self, status: int, body: bytes, media: str, extra: dict[str, str]) -> None:
        """A whole answer of the gate's own."""
        closes = self.closes()
        more = self._more if self._chunked or closes else (*self._more, *KEPT)
        self.write(
            refusals.reply(status, body, media=media, request_id=self.record.id, close=closes,
                           head_only=self.head.method == "HEAD", extra=extra, more=more)
        )  # fmt: skip

    def _fail(self, document: Mapping[str, Any]) -> None:
        self.close_after()
        self._event(refusals.error_event(self.shape, document))
        if self._chunked:
            self.write(b"0\r\n\r\n")

    def _event(self, data: bytes) -> None:
        if data:
            self.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
