"""Heads of HTTP/1 messages as bytes: read once, checked, and written again without what must not pass.

Lines that pass keep their bytes. Anything two servers could read differently is refused, never repaired.
"""

from typing import Final

import httptools

HEAD_MAX_BYTES = 64 * 1024
BODYLESS_STATUS = (204, 304)

# Hop by hop, or ours: never passed on. Transfer-Encoding is written by whoever frames the body.
DROPPED: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te",
     b"upgrade", b"expect", b"host", b"content-length", b"transfer-encoding", b"x-request-id", b"x-prio", b"x-wait")
)  # fmt: skip
READ: Final = DROPPED | {b"content-type", b"content-encoding", b"origin", b"authorization", b"x-api-key"}
ONCE: Final = frozenset((b"host", b"content-length", b"transfer-encoding", b"authorization", b"expect"))
OURS: Final = b"x-headway-"


class BadRequest(Exception):
    """A request that is refused before it is read further; the connection is closed after the answer."""

    def __init__(self, code: str, status: int = 400) -> None:
        self.code, self.status = code, status
        super().__init__(code)


class BadResponse(Exception):
    """An upstream's answer that is not HTTP/1."""


class RequestHead:
    """One request head. `lines` are the header lines that may pass; `fields` the values the gate looks at."""

    __slots__ = ("chunked", "fields", "keep", "length", "lines", "method", "minor", "target", "upgrade")

    def __init__(self, method: str, target: bytes, minor: int) -> None:
        self.method, self.target, self.minor = method, target, minor
        self.lines: list[bytes] = []
        self.fields: dict[bytes, bytes] = {}
        self.length: int | None = None
        self.chunked = self.upgrade = False
        self.keep = minor == 1

    @property
    def path(self) -> str:
        """The target in origin form, as text."""
        target = self.target.decode("latin-1")
        if target.startswith(("http://", "https://")):
            rest = target.partition("://")[2]
            return "/" + rest.partition("/")[2]
        return target

    def text(self, name: bytes) -> str:
        """A header's value as text, "" when absent."""
        return self.fields.get(name, b"").decode("latin-1")


class _Nothing:
    """llhttp checks a head's grammar; nobody listens."""


def read_request(head: bytes) -> RequestHead:
    """Read a request head (request line to empty line).

    Raises:
        BadRequest: not HTTP/1, or a framing that could be read in two ways.
    """
    try:
        httptools.HttpRequestParser(_Nothing()).feed_data(head)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError:
        raise BadRequest("bad_request") from None
    rows = head[:-4].split(b"\r\n")
    words = rows[0].split(b" ")
    if (
        len(words) != 3
        or not words[2].startswith(b"HTTP/1.")
        or head.count(b"\n") != len(rows) + 1
        or b"\0" in head
    ):
        raise BadRequest("bad_request")
    read = RequestHead(words[0].decode("latin-1"), words[1], 0 if words[2] == b"HTTP/1.0" else 1)
    _read_fields(read, rows)
    _read_framing(read)
    return read


def _read_fields(read: RequestHead, rows: list[bytes]) -> None:
    fields, lines = read.fields, read.lines
    for row in rows[1:]:
        name, colon, value = row.partition(b":")
        key = name.lower()
        if not colon or key[:1] in (b" ", b"\t") or key[-1:] in (b" ", b"\t"):
            raise BadRequest("bad_request")
        if key in READ or key.startswith(OURS):
            if key in ONCE and key in fields:
                raise BadRequest("header_twice")
            value = value.strip(b" \t")
            fields[key] = fields[key] + b", " + value if key in fields else value
            if key in DROPPED or key.startswith(OURS):
                continue
        lines.append(row)
    named = tokens(fields.get(b"connection", b""))
    if named:
        read.lines = [row for row in lines if row.partition(b":")[0].lower() not in named]
        read.keep = b"keep-alive" in named if read.minor == 0 else b"close" not in named
        read.upgrade = b"upgrade" in named and b"upgrade" in fields


def _read_framing(read: RequestHead) -> None:
    length, coding = read.fields.get(b"content-length"), read.fields.get(b"transfer-encoding")
    if length is not None and coding is not None:
        raise BadRequest("length_and_chunked")  # the two readings of request smuggling
    if coding is not None:
        if coding.lower() != b"chunked" or read.minor == 0:
            raise BadRequest("transfer_encoding", 501)
        read.chunked = True
    if length is not None:
        if not length.isdigit() or len(length) > 15:
            raise BadRequest("content_length")
        read.length = int(length)
    if read.upgrade and (read.length or read.chunked):
        read.upgrade = False  # an upgrade with a body is a plain request


def tokens(value: bytes) -> frozenset[bytes]:
    """The words of a list header, in lower case."""
    return frozenset(word.strip(b" \t").lower() for word in value.split(b",") if word.strip(b" \t"))


def write_request(
    read: RequestHead,
    path: bytes,
    host: bytes,
    request_id: str,
    *,
    length: int | None,
    key: bytes | None,
    strip: bool,
) -> bytes:
    """The head for the upstream.

    Args:
        path: request target there.
        host: value of Host.
        request_id: value of X-Request-Id.
        length: bytes of a body that was read whole; None passes the caller's framing on.
        key: the service's own key, put in as `Authorization: Bearer`.
        strip: the caller's credentials were ours: none of them passes.
    """
    out = [b"%b %b HTTP/1.1" % (read.method.encode("latin-1"), path), b"Host: " + host]
    for row in read.lines:
        if strip or key is not None:
            name = row.partition(b":")[0].lower()
            if name == b"authorization" or (strip and name == b"x-api-key"):
                continue
        out.append(row)
    if key is not None:
        out.append(b"Authorization: Bearer " + key)
    if read.upgrade:
        out += [b"Connection: Upgrade", b"Upgrade: " + read.fields[b"upgrade"]]
    if length is not None:
        out.append(b"Content-Length: %d" % length)
    elif read.chunked:
        out.append(b"Transfer-Encoding: chunked")
    elif read.length is not None:
        out.append(b"Content-Length: %d" % read.length)
    out.append(b"X-Request-Id: " + request_id.encode("latin-1"))
    out += [b"", b""]
    return b"\r\n".join(out)


class ResponseHead:
    """One response head, and what its framing means for the connection."""

    __slots__ = ("chunked", "framing", "keep", "length", "lines", "media", "start", "status", "upgrade")

    def __init__(self, start: bytes, status: int, keep: bool) -> None:
        self.start, self.status, self.keep = start, status, keep
        self.lines: list[bytes] = []
        self.length: int | None = None
        self.chunked = False
        self.framing = self.media = self.upgrade = b""

    @property
    def stream(self) -> bool:
        """Whether proxies behind must not buffer it."""
        return self.media.startswith((b"text/event-stream", b"application/x-ndjson"))


def read_response(head: bytes) -> ResponseHead:
    """Read a response head. Raises BadResponse."""
    rows = head[:-4].split(b"\r\n")
    start = rows[0]
    if not start.startswith(b"HTTP/1.") or not start[9:12].isdigit() or start[8:9] != b" ":
        raise BadResponse("status line")
    read = ResponseHead(start, int(start[9:12]), start[:8] != b"HTTP/1.0")
    named: frozenset[bytes] = frozenset()
    for row in rows[1:]:
        name, colon, value = row.partition(b":")
        key = name.lower()
        if not colon:
            raise BadResponse("header line")
        if key == b"connection":
            named |= tokens(value)
        elif key == b"upgrade":
            read.upgrade = value.strip()
        elif key == b"content-length":
            if read.length is not None or not value.strip().isdigit():
                raise BadResponse("content-length")
            read.length, read.framing = int(value), row
        elif key == b"transfer-encoding":
            if value.strip().lower() != b"chunked":
                raise BadResponse("transfer-encoding")
            read.chunked, read.framing = True, row
        elif key == b"content-type":
            read.media = value.strip().lower()
            read.lines.append(row)
        elif key not in (b"keep-alive", b"proxy-connection", b"proxy-authenticate"):
            read.lines.append(row)
    if named:
        read.lines = [row for row in read.lines if row.partition(b":")[0].lower() not in named]
        read.keep = b"close" not in named if read.keep else b"keep-alive" in named
    if read.chunked and read.length is not None:
        raise BadResponse("length and chunked")
    return read


def write_response(read: ResponseHead, request_id: str, *, framing: bytes, close: bool) -> bytes:
    """The head for the client. `framing` is its framing header line, empty for none."""
    out = [read.start, *read.lines]
    if framing:
        out.append(framing)
    lower = [row[:18].lower() for row in read.lines]
    if read.stream and not any(row.startswith(b"x-accel-buffering:") for row in lower):
        out.append(b"X-Accel-Buffering: no")
    if not any(row.startswith(b"x-request-id:") for row in lower):
        out.append(b"X-Request-Id: " + request_id.encode("latin-1"))
    if read.status == 101:
        out += [b"Connection: Upgrade", b"Upgrade: " + read.upgrade]
    elif close:
        out.append(b"Connection: close")
    out += [b"", b""]
    return b"\r\n".join(out)
