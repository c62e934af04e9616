"""Heads of HTTP/1 messages as bytes: read once, checked, and written again without what must not pass.

Lines that pass keep their bytes. Anything two servers could read differently is refused, never repaired.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import httptools

from headway.gate.known import Known, cut

HEAD_MAX_BYTES = 64 * 1024
BODYLESS_STATUS = (204, 304)

# Hop by hop, or ours: never passed on. Transfer-Encoding is written by whoever frames the body.
DROPPED: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te",
     b"upgrade", b"expect", b"host", b"content-length", b"transfer-encoding", b"x-request-id", b"x-prio", b"x-wait")
)  # fmt: skip
READ: Final = DROPPED | {
    b"content-type", b"content-encoding", b"origin", b"authorization", b"x-api-key", b"anthropic-version"
}  # fmt: skip
REFUSED: Final = (
    b"CONNECT",
    b"TRACE",
)  # one makes a tunnel past every check, one shows keys that were put in
ONCE: Final = frozenset((b"host", b"content-length", b"transfer-encoding", b"authorization", b"expect"))
OURS: Final = b"x-headway-"
SYNONYMS: Final = frozenset((b"x-prio", b"x-wait"))
ROWS_KEPT, ROW_KEPT_BYTES = 4096, 256
_PLACE: Final = re.compile(rb"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_ABSOLUTE: Final = re.compile(rb"(?i:https?)://(%b)(/.*)?" % _PLACE.pattern, re.DOTALL)
_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})|%00")


class BadRequest(Exception):
    """A request that is refused before it is read further; the connection is closed after the answer."""

    def __init__(self, code: str, status: int = 400) -> None:
        self.code, self.status = code, status
        super().__init__(code)


class BadResponse(Exception):
    """An upstream's answer that is not HTTP/1."""


class RequestHead:
    """One request head. `lines` are the header lines that may pass; `fields` the values the gate looks at.

    Requests that come with the same bytes share it, so nothing of it changes once it was read; of theirs only the
    length may differ. `seen` is what the gate made of it the last time.
    """

    __slots__ = (
        "asks", "chunked", "fields", "keep", "length", "lines", "method", "minor", "path", "seen", "upgrade",
    )  # fmt: skip

    def __init__(self, method: str, target: bytes, minor: int) -> None:
        self.method, self.minor = method, minor
        self.path = _path(target)  # the target in origin form, as text
        self.lines: list[bytes] = []
        self.fields: dict[bytes, bytes] = {}
        self.length: int | None = None
        self.chunked = self.upgrade = False
        self.seen: Any = None
        self.asks = False  # it has headers that are for us
        self.keep = minor == 1

    def text(self, name: bytes) -> str:
        """A header's value as text, "" when absent."""
        return self.fields.get(name, b"").decode("latin-1")


def _path(target: bytes) -> str:
    text = target.decode("latin-1")
    if text.startswith("/"):
        return text
    place, slash, rest = text.partition("://")[2].partition("/")
    return "/" + rest if slash else "/" + place[place.find("?") :] if "?" in place else "/"


class _Nothing:
    """llhttp checks a head's grammar; nobody listens."""


_REQUESTS: Final[Known[RequestHead]] = Known()


def read_request(head: bytes) -> tuple[RequestHead, int | None]:
    """Read a request head (request line to empty line), and its Content-Length.

    Raises:
        BadRequest: not HTTP/1, or a framing that could be read in two ways.
    """
    key, row, length = cut(head)
    read = (_REQUESTS.cut if row else _REQUESTS.whole).get(key)
    if read is None:
        read = _parse_request(head)
        if b"upgrade" not in read.fields:  # one with a body is none: that depends on the length
            _REQUESTS.keep(key, read, cut=bool(row))
    elif row:
        return read, length
    return read, read.length


def _parse_request(head: bytes) -> RequestHead:
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
        or b"\r" in words[0]  # the parser steps over one before the method
    ):
        raise BadRequest("bad_request")
    if words[0] in REFUSED:
        raise BadRequest("method_refused", 405)
    target = words[1]
    if target[:1] != b"/" or b"%" in target or b"/." in target:
        _check_target(target)
    read = RequestHead(words[0].decode("latin-1"), words[1], 0 if words[2] == b"HTTP/1.0" else 1)
    _read_fields(read, rows)
    _read_framing(read)
    return read


@lru_cache(maxsize=1024)
def _is_place(host: bytes) -> bool:
    return _PLACE.fullmatch(host) is not None


def _check_target(target: bytes) -> None:
    """Refuse a target that is no path, or whose path could not be decoded or climbs above the root."""
    path = target.partition(b"?")[0]
    if path[:1] != b"/":
        absolute = _ABSOLUTE.fullmatch(path)
        if absolute is None:
            raise BadRequest("bad_request")
        path = absolute[2] or b"/"
    if _ESCAPE.search(path):
        raise BadRequest("bad_request")
    depth = 0
    for step in unquote_to_bytes(path.partition(b"#")[0]).split(b"/")[1:]:
        depth += -1 if step == b".." else step not in (b"", b".")
        if depth < 0:
            raise BadRequest("bad_request")


class _Rows(dict[bytes, tuple[bytes, bytes | None, bool, bool]]):
    """What a header line is, remembered: clients send the same ones again and again.

    line -> (name in lower case, value if it's looked at, whether the line passes, whether it's for us). Raises
    BadRequest for a line that is no field.
    """

    def __missing__(self, row: bytes) -> tuple[bytes, bytes | None, bool, bool]:
        name, colon, value = row.partition(b":")
        key = name.lower()
        if not colon or key[:1] in (b" ", b"\t") or key[-1:] in (b" ", b"\t"):
            raise BadRequest("bad_request")
        ours = key.startswith(OURS)
        looked_at = ours or key in READ
        read = (
            key,
            value.strip(b" \t") if looked_at else None,
            not ours and key not in DROPPED,
            ours or key in SYNONYMS,
        )
        if len(row) <= ROW_KEPT_BYTES:
            if len(self) >= ROWS_KEPT:
                self.clear()
            self[row] = read
        return read


_ROWS: Final = _Rows()


def _read_fields(read: RequestHead, rows: list[bytes]) -> None:
    fields, lines = read.fields, read.lines
    for row in rows[1:]:
        key, value, passes, ours = _ROWS[row]
        if value is not None:
            if key in fields:
                if key in ONCE:
                    raise BadRequest("header_twice")
                value = fields[key] + b", " + value
            fields[key] = value
            read.asks = read.asks or ours
        if passes:
            lines.append(row)
    host = fields.get(b"host")
    if host is None:
        if read.minor:
            raise BadRequest("host_missing")
    elif not _is_place(host):
        raise BadRequest("bad_request")
    named = tokens(fields.get(b"connection", b""))
    if named:
        read.lines = [row for row in lines if row.partition(b":")[0].lower() not in named]
        read.keep = b"close" not in named and (read.minor == 1 or b"keep-alive" in named)
        # another protocol than this one would be a tunnel past every check
        read.upgrade = b"upgrade" in named and fields.get(b"upgrade", b"").lower() == b"websocket"


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


def begin_request(
    read: RequestHead, target: bytes, host: bytes, key: bytes | None, without: frozenset[bytes]
) -> bytes:
    """The head for the upstream, up to the line that frames the body.

    Args:
        target: request target there.
        host: value of Host.
        key: the service's own key, put in as `Authorization: Bearer`.
        without: names (lower case) of lines that must not pass.
    """
    out = [b"%b %b HTTP/1.1" % (read.method.encode("latin-1"), target), b"Host: " + host]
    if without:
        out += [row for row in read.lines if row.partition(b":")[0].lower() not in without]
    else:
        out += read.lines
    if key is not None:
        out.append(b"Authorization: Bearer " + key)
    if read.upgrade:
        out += [b"Connection: Upgrade", b"Upgrade: " + read.fields[b"upgrade"]]
    out.append(b"")
    return b"\r\n".join(out)


class ResponseHead:
    """One response head, and what its framing means for the connection. Answers that come with the same bytes share
    it, so nothing of it changes once it was read; of theirs only the length may differ.

    `plain` is how it is passed on, up to the line that frames the body; `said` are the names of its lines there.
    """

    __slots__ = (
        "chunked", "encoded", "framing", "keep", "length", "media", "plain", "said", "status", "stream", "upgrade",
    )  # fmt: skip

    def __init__(self, start: bytes) -> None:
        self.status, self.keep = int(start[9:12]), start[:8] != b"HTTP/1.0"
        self.length: int | None = None
        self.chunked = self.encoded = False
        self.framing = self.media = self.upgrade = b""

    def pass_on(self, start: bytes, lines: list[bytes]) -> None:
        """Note what passes."""
        self.stream = self.media.startswith((b"text/event-stream", b"application/x-ndjson"))
        self.said = frozenset(row.partition(b":")[0].lower() for row in lines)
        self.plain = b"\r\n".join((start, *lines, b""))


_RESPONSES: Final[Known[ResponseHead]] = Known()


def read_response(head: bytes) -> tuple[ResponseHead, int | None, bytes]:
    """Read a response head, its Content-Length, and the line that frames the body (b"": none). Raises BadResponse."""
    key, row, length = cut(head)
    read = (_RESPONSES.cut if row else _RESPONSES.whole).get(key)
    if read is None:
        read = _parse_response(head)
        _RESPONSES.keep(key, read, cut=bool(row))
    elif row:
        return read, length, row
    return read, read.length, read.framing


def _parse_response(head: bytes) -> ResponseHead:
    rows = head[:-4].split(b"\r\n")
    start = rows[0]
    if not start.startswith(b"HTTP/1.") or not start[9:12].isdigit() or start[8:9] != b" ":
        raise BadResponse("status line")
    read, lines = ResponseHead(start), []
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
        elif key not in (b"keep-alive", b"proxy-connection", b"proxy-authenticate"):
            if key == b"content-type":
                read.media = value.strip().lower()
            elif key == b"content-encoding":
                read.encoded = True
            lines.append(row)
    if named:
        lines = [row for row in lines if row.partition(b":")[0].lower() not in named]
        read.keep = b"close" not in named if read.keep else b"keep-alive" in named
    if read.chunked and read.length is not None:
        raise BadResponse("length and chunked")
    read.pass_on(start, lines)
    return read


def write_response(
    read: ResponseHead, request_id: str, *, framing: bytes, close: bool, more: Sequence[bytes] = ()
) -> bytes:
    """The head for the client.

    Args:
        framing: its framing header line, empty for none.
        close: the connection ends with this answer.
        more: lines of ours, each added unless the server says the same header itself.
    """
    said, out = read.said, read.plain
    if framing:
        out += framing + b"\r\n"
    if read.stream and b"x-accel-buffering" not in said:
        out += b"X-Accel-Buffering: no\r\n"
    if b"x-request-id" not in said:
        out += b"X-Request-Id: %b\r\n" % request_id.encode("latin-1")
    if more:
        out += b"".join(row + b"\r\n" for row in more if row.partition(b":")[0].lower() not in said)
    if read.status == 101:
        out += b"Connection: Upgrade\r\nUpgrade: %b\r\n" % read.upgrade
    elif close:
        out += b"Connection: close\r\n"
    return out + b"\r\n"
