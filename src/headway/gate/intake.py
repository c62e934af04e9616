"""Reading one request's body: whole, where the gate must know what it says; its beginning, where it's too large for
that; else piece by piece, unread.
"""

from dataclasses import dataclass
from typing import Final

from headway.core.wire import Service
from headway.gate import bodies, early
from headway.gate.heads import BadRequest, RequestHead

SMALL_JSON_BYTES = 1024 * 1024  # a JSON body up to this is kept whole so that it can be sent once more
ENCODING: Final = frozenset((b"content-encoding",))
TRAILER: Final = frozenset((b"trailer",))
NOTHING: Final[frozenset[bytes]] = frozenset()


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What is sent of a body: the header line that frames it, its bytes (or its first ones), and the names of header
    lines that aren't true any more."""

    framing: bytes
    data: bytes
    without: frozenset[bytes] = NOTHING


class Intake:
    """One body. `what` is what it says, once it was read; `buffered` says whether it's read whole.

    `expects`: its client waits for `100 Continue`. `streams`: it's passed on as it comes, so it can be sent only
    once. This and `buffered` are false while its beginning is read.
    """

    __slots__ = (
        "_body", "_coding", "_early", "_raw", "bound", "buffered", "expects", "head", "in_bytes", "media", "streams",
        "what",
    )  # fmt: skip

    def __init__(self, head: RequestHead, bound: bool, row: Service | None) -> None:
        """Decide how it is read. `bound`: port or path already name the service, `row`, unless it's unknown.

        Raises BadRequest when it must be read and can't be.
        """
        self.head, self.bound = head, bound
        self.media = head.text(b"content-type")
        self.what = bodies.Read(b"")
        self.in_bytes = 0
        self.buffered = self.streams = False
        self._raw: list[bytes] = []  # as it came, framing and all
        self._body: bodies.Length | bodies.Chunked | None = None
        self._early: early.Window | None = None
        self.expects = head.minor == 1 and head.fields.get(b"expect", b"").lower() == b"100-continue"
        self._coding = head.text(b"content-encoding").lower()
        if self._coding == "identity":
            self._coding = ""
        if head.chunked or head.length:
            self._body = bodies.Chunked(None) if head.chunked else bodies.Length(head.length or 0, None)
            self._decide(row)

    def _decide(self, row: Service | None) -> None:
        length = self.head.length
        is_json, is_form = "json" in self.media.lower(), bodies.is_form(self.media)
        readable = not self._coding or self._coding in bodies.CODINGS
        renamed = row is not None and row.model is not None and (is_form or is_json)
        must = not self.bound or renamed
        fits = length is None or length <= (bodies.BUFFER_MAX_BYTES if must else SMALL_JSON_BYTES)
        if fits and (readable if must else is_json and length is not None):
            self.buffered = True
        elif must and not fits and not self._coding:
            self._early = early.Window(self.media, length or 0)
        elif not self.bound:
            raise BadRequest("content_encoding", 415) if not readable else BadRequest("body_too_large", 413)
        else:
            self.streams = True

    @property
    def done(self) -> bool:
        """Whether the request is here to its end."""
        return self._body is None or self._body.done

    @property
    def broken(self) -> bool:
        """Whether it should be JSON and is not. A server would refuse it, so nobody has to step aside for it."""
        empty = self._body is None and self.head.method == "POST" and bodies.says_json(self.media)
        return empty or (self.buffered and self.what.broken)

    @property
    def reads_first(self) -> bool:
        """Whether the body must be read before it's known where the request goes or that it's wanted.

        A client that waits for `100 Continue` and named its service is admitted first.
        """
        return not self.read and not (self.expects and self.bound)

    @property
    def read(self) -> bool:
        """Whether all was read of it that must be."""
        return self.streams or self.done

    def feed(self, data: bytes) -> int:
        """Take bytes; returns how many belong to this body. Raises BadRequest."""
        body = self._body
        if body is None or body.done:
            return 0
        used = body.feed(data)
        self.in_bytes += used
        if self.buffered:
            self._raw.append(data if used == len(data) else data[:used])
            if self.in_bytes > bodies.BUFFER_MAX_BYTES:
                raise BadRequest("body_too_large", 413)
            if self.done:
                self._read_whole()
        elif self._early is not None and not self.streams:
            self._early.feed(data[:used])
            if self._early.full:
                self._read_early(self._early)
        return used

    def outgoing(self, model: str | None, *, ollama: bool) -> Outgoing:
        """What to send to a server that knows the service as `model` (None: as the caller does)."""
        head = self.head
        if self._early is not None:
            data = self._early.rewritten(model)
            return Outgoing(b"Content-Length: %d" % (self._early.length_of(data)), data)
        if self.buffered:
            body = bodies.rewrite(self.what, self.media, model, ollama=ollama)
            if body is not self.what.body:
                return self._changed(body)
        framing = b""
        if head.chunked:
            framing = b"Transfer-Encoding: chunked"
        elif head.length is not None:
            framing = b"Content-Length: %d" % head.length
        return Outgoing(framing, self._raw[0] if len(self._raw) == 1 else b"".join(self._raw))

    def forget(self) -> None:
        """Let its bytes go: it was answered, and won't be sent again."""
        self.what = bodies.Read(b"", self.what.model, self.what.stream)
        self._raw, self._early = [], None

    def take_continue(self) -> bytes:
        """The interim answer that lets the client send its body, once, if it waits for it."""
        wanted, self.expects = self.expects and not self.done, False
        return b"HTTP/1.1 100 Continue\r\n\r\n" if wanted else b""

    # Inside

    def _read_whole(self) -> None:
        body: bytes | None = self._raw[0] if len(self._raw) == 1 else b"".join(self._raw)
        self._raw = [body] if body else []
        if self.head.chunked and body:
            parts: list[bytes] = []
            bodies.Chunked(parts).feed(body)
            body = b"".join(parts)
        if self._coding and body is not None:
            if self._coding not in bodies.CODINGS:
                self.what = bodies.Read(body)
                return
            body = bodies.unpack(body, self._coding)
        self.what = bodies.Read(b"", broken=True) if body is None else bodies.read_body(body, self.media)

    def _read_early(self, window: early.Window) -> None:
        self.what = window.read()
        self.streams = True
        if self.what.model is None and not self.bound:
            raise BadRequest("body_too_large", 413)

    def _changed(self, body: bytes) -> Outgoing:
        without = ENCODING if self._coding else NOTHING
        trailer = self._body.trailer if isinstance(self._body, bodies.Chunked) else b""
        if trailer:
            return Outgoing(
                b"Transfer-Encoding: chunked",
                b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(body), body, trailer),
                without,
            )
        return Outgoing(b"Content-Length: %d" % len(body), body, without | TRAILER)
