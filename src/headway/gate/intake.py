"""Reading one request's body: whole, where the gate must know what it says, else piece by piece."""

from headway.core.wire import Service
from headway.gate import bodies
from headway.gate.heads import BadRequest, RequestHead

SMALL_JSON_BYTES = 1024 * 1024  # a JSON body up to this is kept whole so that it can be sent once more


class Intake:
    """One body. `what` is what it says, once it was read whole; `buffered` says whether it's read whole."""

    __slots__ = ("_body", "_expects", "_parts", "bound", "buffered", "head", "in_bytes", "media", "what")

    def __init__(self, head: RequestHead, bound: bool, row: Service | None) -> None:
        """Decide how it is read. `bound`: port or path already name the service, `row`, unless it's unknown.

        Raises BadRequest when it must be read whole and is larger than that.
        """
        self.head, self.bound = head, bound
        self.media = head.text(b"content-type")
        self.what = bodies.Read(b"")
        self.in_bytes = 0
        self._parts: list[bytes] = []
        self._expects = b"expect" in head.fields and head.minor == 1
        media = self.media.lower()
        is_json, is_form = "json" in media, media.startswith("multipart/form-data")
        must = not bound or (row is not None and row.model is not None and (is_form or is_json))
        limit = bodies.BUFFER_MAX_BYTES if must else SMALL_JSON_BYTES
        fits = head.length is None or head.length <= limit
        has_body = head.chunked or bool(head.length)
        self.buffered = has_body and (must or (is_json and head.length is not None and fits))
        self._body: bodies.Length | bodies.Chunked | None = None
        if has_body:
            parts = self._parts if self.buffered else None
            self._body = bodies.Chunked(parts) if head.chunked else bodies.Length(head.length or 0, parts)
        if self.buffered and not fits:
            raise BadRequest("body_too_large", 413)

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
    def streams(self) -> bool:
        """Whether a body is passed on as it comes: it can be sent only once."""
        return self._body is not None and not self.buffered

    @property
    def reads_first(self) -> bool:
        """Whether the body must be here before it's known where the request goes or that it's wanted.

        A client that waits for `100 Continue` and named its service is admitted first.
        """
        return self.buffered and not (self._expects and self.bound)

    def feed(self, data: bytes) -> int:
        """Take bytes; returns how many belong to this body. Raises BadRequest."""
        body = self._body
        if body is None or body.done:
            return 0
        used = body.feed(data)
        self.in_bytes += used
        if self.buffered and self.in_bytes > bodies.BUFFER_MAX_BYTES:
            raise BadRequest("body_too_large", 413)
        if self.buffered and self.done:
            self.what = bodies.read_body(b"".join(self._parts), self.media)
            self._parts.clear()
        return used

    def take_continue(self) -> bytes:
        """The interim answer that lets the client send its body, once, if it waits for it."""
        wanted, self._expects = self._expects and not self.done, False
        return b"HTTP/1.1 100 Continue\r\n\r\n" if wanted else b""
