"""Reading one request's body: whole, where the gate must know what it says; its beginning, where it's too large for
that; else piece by piece, unread.
"""

from typing import Final, NamedTuple

from headway.gate import bodies, early
from headway.gate.heads import BadRequest
from headway.gate.look import Look

SMALL_JSON_BYTES = 1024 * 1024  # a JSON body up to this is kept whole so that it can be sent once more
ENCODING: Final = frozenset((b"content-encoding",))
TRAILER: Final = frozenset((b"trailer",))
NOTHING: Final[frozenset[bytes]] = frozenset()


class Outgoing(NamedTuple):
    """What is sent of a body: the header line that frames it, its bytes (or its first ones), and the names of header
    lines that aren't true any more."""

    framing: bytes
    data: bytes
    without: frozenset[bytes] = NOTHING


class Intake:
    """One body. `what` is what it says, once it was read; `buffered` says whether it's read whole.

    `done`: it's here to its end. `expects`: its client waits for `100 Continue`. `streams`: it's passed on as it
    comes, so it can be sent only once. This and `buffered` are false while its beginning is read.
    """

    __slots__ = (
        "_chunks", "_early", "_left", "_length", "_look", "_raw", "buffered", "done", "expects", "in_bytes", "streams",
        "what",
    )  # fmt: skip

    def __init__(self, look: Look, length: int | None) -> None:
        """Raises BadRequest when the body must be read and can't be."""
        self._look, self._length = look, length
        self.what = bodies.NOTHING
        self.in_bytes = self._left = 0
        self.buffered = self.streams = False
        self.expects = look.expects
        self._raw: bytes | list[bytes] = b""  # as it came, framing and all
        self._early: early.Window | None = None
        self._chunks: bodies.Chunked | None = None
        self.done = not length and not look.head.chunked
        if not self.done:
            self._left = length or 0
            self._chunks = bodies.Chunked(None) if look.head.chunked else None
            self._decide(look, length)

    def _decide(self, look: Look, length: int | None) -> None:
        must, coding = look.must, look.coding
        readable = not coding or coding in bodies.CODINGS
        fits = length is None or length <= (bodies.BUFFER_MAX_BYTES if must else SMALL_JSON_BYTES)
        long_form = look.form and length is not None and length > early.WINDOW_BYTES
        if must and not coding and (long_form or not fits):
            self._early = early.Window(look.media, length or 0)
        elif fits and (readable if must else look.is_json and length is not None):
            self.buffered = True
        elif not look.bound:
            raise BadRequest("content_encoding", 415) if not readable else BadRequest("body_too_large", 413)
        else:
            self.streams = True

    @property
    def broken(self) -> bool:
        """Whether it should be JSON and is not. A server would refuse it, so nobody has to step aside for it."""
        if self.buffered:
            return self.what.broken
        look = self._look
        empty = not self._length and not look.head.chunked and look.head.method == "POST"
        return empty and bodies.says_json(look.media)

    @property
    def reads_first(self) -> bool:
        """Whether the body must be read before it's known where the request goes or that it's wanted.

        A client that waits for `100 Continue` and named its service is admitted first.
        """
        return not self.read and not (self.expects and self._look.bound)

    @property
    def read(self) -> bool:
        """Whether all was read of it that must be."""
        return self.streams or self.done

    def feed(self, data: bytes) -> int:
        """Take bytes; returns how many belong to this body. Raises BadRequest."""
        if self.done:
            return 0
        chunks = self._chunks
        if chunks is None:
            used = min(self._left, len(data))
            self._left -= used
            self.done = not self._left
        else:
            used = chunks.feed(data)
            self.done = chunks.done
        self.in_bytes += used
        if self.buffered:
            self._keep(data if used == len(data) else data[:used])
        elif self._early is not None and not self.streams:
            self._early.feed(data[:used])
            if self._early.full:
                self._read_early(self._early)
        return used

    def _keep(self, data: bytes) -> None:
        if self.done and not self._raw:  # all of it at once
            self._raw = data
            if self._chunks is None and not self._look.coding:
                self.what = bodies.read_body(data, self._look.media, form=self._look.form)
            else:
                self._read_whole(data)
            return
        if not isinstance(self._raw, list):
            self._raw = []
        self._raw.append(data)
        if self.in_bytes > bodies.BUFFER_MAX_BYTES:
            raise BadRequest("body_too_large", 413)
        if self.done:
            self._raw = b"".join(self._raw)
            self._read_whole(self._raw)

    def outgoing(self, model: str | None, *, ollama: bool) -> Outgoing:
        """What to send to a server that knows the service as `model` (None: as the caller does)."""
        look = self._look
        if self._early is not None:
            data = self._early.rewritten(model)
            return Outgoing(b"Content-Length: %d\r\n" % (self._early.length_of(data)), data)
        if self.buffered:
            body = bodies.rewrite(self.what, look.media, model, ollama=ollama)
            if body is not self.what.body:
                return self._changed(body)
        framing = b""
        if look.head.chunked:
            framing = b"Transfer-Encoding: chunked\r\n"
        elif self._length is not None:
            framing = b"Content-Length: %d\r\n" % self._length
        raw = self._raw
        return Outgoing(framing, raw if isinstance(raw, bytes) else b"".join(raw))

    def forget(self) -> None:
        """Let its bytes go: it was answered, and won't be sent again."""
        self.what = bodies.STREAM if self.what.stream else bodies.NOTHING
        self._raw, self._early = b"", None

    def take_continue(self) -> bytes:
        """The interim answer that lets the client send its body, once, if it waits for it."""
        wanted, self.expects = self.expects and not self.done, False
        return b"HTTP/1.1 100 Continue\r\n\r\n" if wanted else b""

    # Inside

    def _read_whole(self, raw: bytes) -> None:
        look, body = self._look, raw
        if self._chunks is not None and body:
            parts: list[bytes] = []
            bodies.Chunked(parts).feed(body)
            body = b"".join(parts)
        if look.coding:
            if look.coding not in bodies.CODINGS:
                self.what = bodies.Read(body)
                return
            content = bodies.unpack(body, look.coding)
            if content is None:
                self.what = bodies.Read(b"", broken=True)
                return
            body = content
        self.what = bodies.read_body(body, look.media, form=look.form)

    def _read_early(self, window: early.Window) -> None:
        self.what = window.read()
        if self.what.model is None and (self._length or 0) <= bodies.BUFFER_MAX_BYTES:
            self.buffered, self._early = (
                True,
                None,
            )  # it stands further on: such a form is kept whole after all
            self._keep(window.data)
            return
        self.streams = True
        if self.what.model is None and not self._look.bound:
            raise BadRequest("body_too_large", 413)

    def _changed(self, body: bytes) -> Outgoing:
        without = ENCODING if self._look.coding else NOTHING
        trailer = self._chunks.trailer if self._chunks is not None else b""
        if trailer:
            return Outgoing(
                b"Transfer-Encoding: chunked\r\n",
                b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(body), body, trailer),
                without,
            )
        return Outgoing(b"Content-Length: %d\r\n" % len(body), body, without | TRAILER)
