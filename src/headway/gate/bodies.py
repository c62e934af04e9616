"""Request bodies: where one ends, and what the gate must know of a JSON or multipart one.

The gate passes bodies raw. Only the top level of a JSON object is looked at (values keep their exact bytes), and
only the part named `model` of a multipart form.
"""

import hashlib
import json
import re
import zlib
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from headway.gate.heads import BadRequest

BUFFER_MAX_BYTES = 64 * 1024 * 1024
LINE_MAX_BYTES = 16 * 1024
SECOND_LOOK_MAX_BYTES = 1024 * 1024
CODINGS: Final = ("gzip", "x-gzip", "deflate")


class _Message(msgspec.Struct):
    """What is looked at of one message. msgspec reads these annotations, and compiled `Any` would be none."""

    role: msgspec.Raw = msgspec.Raw(b"")
    content: msgspec.Raw = msgspec.Raw(b"")


_Object = dict[str, msgspec.Raw]
_OBJECT: Final = msgspec.json.Decoder(_Object)
_MESSAGES: Final = msgspec.json.Decoder(list[_Message])
_STRING: Final = msgspec.json.Decoder(str)
_ENCODER: Final = msgspec.json.Encoder()
_HEX: Final = re.compile(rb"[0-9A-Fa-f]{1,15}\Z")
_FIELD: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00-\x08\x0a-\x1f\x7f]*\r\n\Z")
_PART: Final = re.compile(rb'[\r\n;]\s*name="?model"?[\r\n;]', re.IGNORECASE)


class Chunked:
    """A chunked body: finds its end, and collects what it carries when `parts` is a list."""

    __slots__ = ("_line", "_state", "done", "left", "parts", "trailer")

    def __init__(self, parts: list[bytes] | None) -> None:
        self.parts, self.done, self.left = parts, False, 0
        self.trailer = b""  # its lines, without the empty one at the end
        self._line, self._state = b"", "size"

    def feed(self, data: bytes) -> int:
        """How many of these bytes belong to the body. Raises BadRequest on a framing that is not exact."""
        at = 0
        while at < len(data) and not self.done:
            if self.left:
                used = min(self.left, len(data) - at)
                if self.parts is not None:
                    self.parts.append(data[at : at + used])
                self.left -= used
                at += used
                continue
            end = data.find(b"\n", at)
            stop = len(data) if end < 0 else end + 1
            self._line += data[at:stop]
            at = stop
            if len(self._line) > LINE_MAX_BYTES:
                raise BadRequest("chunk")
            if end >= 0:
                line, self._line = self._line, b""
                self._take(line)
        return at

    def _take(self, line: bytes) -> None:
        if not line.endswith(b"\r\n") or line.count(b"\r") != 1:
            raise BadRequest("chunk")
        if self._state == "after":
            if line != b"\r\n":
                raise BadRequest("chunk")
            self._state = "size"
        elif self._state == "trailer":
            self.done = line == b"\r\n"
            if not self.done:
                self._take_trailer(line)
        else:
            size = line[:-2].partition(b";")[0]
            if not _HEX.match(size):
                raise BadRequest("chunk")
            self.left = int(size, 16)
            self._state = "after" if self.left else "trailer"

    def _take_trailer(self, line: bytes) -> None:
        self.trailer += line
        if not _FIELD.match(line) or len(self.trailer) > LINE_MAX_BYTES:
            raise BadRequest("chunk")


class Read(NamedTuple):
    """What a whole body says. `fields` is None for a body that is not a JSON object, `broken` for no JSON at all."""

    body: bytes
    model: str | None = None
    stream: bool = False
    fields: dict[str, msgspec.Raw] | None = None
    form: bool = False
    broken: bool = False


NOTHING: Final = Read(b"")
STREAM: Final = Read(b"", stream=True)  # all that is remembered of a body that was let go


def read_body(body: bytes, media: str, *, form: bool) -> Read:
    """Look at a whole body. One that cannot be read names no model and is passed as it is."""
    if form:
        span = model_part(body, media)
        model = body[span[0] : span[1]].decode("utf-8", "replace") if span is not None else None
        return Read(body, model, form=True)
    try:
        fields = _OBJECT.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Read(body, broken=says_json(media) and not _is_json(body))
    stream = fields.get("stream")
    return Read(body, _text(fields.get("model")), stream is not None and bytes(stream) == b"true", fields)


def unpack(data: bytes, coding: str) -> bytes | None:
    """The content of a compressed body; None when it's broken. `coding` is one of CODINGS.

    Raises BadRequest when it has more than BUFFER_MAX_BYTES.
    """
    out: list[bytes] = []
    room = BUFFER_MAX_BYTES
    raw = coding == "deflate" and data[:1] not in (
        b"\x78",
        b"\x58",
        b"\x18",
    )  # some send it without zlib's frame
    while data:
        inflate = zlib.decompressobj(-15 if raw else 47)  # 47: gzip's frame or zlib's, as it comes
        try:
            out.append(inflate.decompress(data, room + 1))
        except zlib.error:
            return None
        room -= len(out[-1])
        if room < 0:
            raise BadRequest("body_too_large", 413)
        if not inflate.eof:
            return None  # cut off
        data = inflate.unused_data
    return b"".join(out)


def is_form(media: str) -> bool:
    """Whether a body of this type is a multipart form."""
    return media[:19].lower() == "multipart/form-data"


def says_json(media: str) -> bool:
    """Whether a body of this type should be JSON. The type that curl gives to `-d` says nothing."""
    media = media.lower()
    return not media or "json" in media or media.startswith("application/x-www-form-urlencoded")


def _is_json(body: bytes) -> bool:
    """A second look with a reader that is as lenient as those of the servers. Above 1 MiB they are asked."""
    if len(body) > SECOND_LOOK_MAX_BYTES:
        return True
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def rewrite(read: Read, media: str, model: str | None, *, ollama: bool) -> bytes:
    """The body with the service's `model` in place of the caller's; the same bytes when nothing changes.

    With `ollama` the field `keep_alive` is taken out: how long a model stays is not the caller's to say.
    """
    if read.form:
        span = model_part(read.body, media)
        if model is None or span is None:
            return read.body
        return read.body[: span[0]] + model.encode() + read.body[span[1] :]
    if read.fields is None:
        return read.body
    swap = model is not None and "model" in read.fields and read.model != model
    drop = ollama and "keep_alive" in read.fields
    if not swap and not drop:
        return read.body
    fields = read.fields.copy()
    if drop:
        del fields["keep_alive"]
    if swap:
        fields["model"] = _raw(model)
    return _ENCODER.encode(fields)


@lru_cache(maxsize=256)
def _raw(model: str | None) -> msgspec.Raw:
    return msgspec.Raw(_ENCODER.encode(model))


def conversation(read: Read, salt: str, client: str) -> str | None:
    """A salted hash of system prompt, first user message and client; None without messages or salt."""
    fields = read.fields
    messages = None if fields is None else fields.get("messages", fields.get("input"))
    if not salt or fields is None or messages is None:
        return None
    seen: list[Any] = [salt.encode(), client.encode()]
    system = fields.get("system", fields.get("instructions"))
    if system is not None:
        seen.append(system)
    try:
        for message in _MESSAGES.decode(messages):
            seen.append(message.content)
            if bytes(message.role) == b'"user"':
                return _digest(seen)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # the input of a response may be just what the user says
        return _digest([*seen, messages]) if memoryview(messages)[0] == ord('"') else None
    return None


def _digest(parts: list[Any]) -> str:
    """Of bytes and Raws: the type stubs call a Raw bytes, which it's not, and compiled code believes them."""
    return hashlib.sha256(b"".join(parts)).hexdigest()[:24]


def _text(raw: msgspec.Raw | None) -> str | None:
    if raw is None:
        return None
    try:
        return _STRING.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def model_part(body: bytes, media: str) -> tuple[int, int] | None:
    """Where the content of the part named `model` begins and ends."""
    found = re.search(r'boundary="?([^";]+)"?', media, re.IGNORECASE)
    if found is None:
        return None
    mark = b"--" + found.group(1).encode("latin-1")
    at = 0 if body.startswith(mark) else body.find(b"\r\n" + mark) + 2
    while at >= 2 or body.startswith(mark):
        head_end = body.find(b"\r\n\r\n", at)
        if head_end < 0 or body.startswith(mark + b"--", at):
            return None
        end = body.find(b"\r\n" + mark, head_end + 2)
        if end < 0:
            return None
        if _PART.search(body[at:head_end] + b"\r"):
            return min(head_end + 4, end), end
        at = end + 2
    return None
