"""What an answer says about itself while it passes: why it ended, how many tokens, the last tool it called.

Bytes are only collected, and looked through every 4 KiB: a stream of small events pays half a microsecond for each.
An answer in another form than JSON, NDJSON or server-sent events is not looked into.
"""

import re
from typing import Final

SCAN_BYTES = 4096
OVERLAP_BYTES = 512  # kept from one look to the next: a word may be cut in two
CALL_MAX_BYTES = 64 * 1024  # a call whose arguments are longer is not looked at to its end
LOOKED_INTO: Final = (b"text/event-stream", b"application/x-ndjson", b"application/json")

_Found = tuple[
    bytes, tuple[bytes, ...], re.Pattern[bytes]
]  # a word, what may stand before it, the value after it
_REASON: Final[_Found] = (
    b'_reason"', (b'"finish', b'"stop', b'"done'), re.compile(rb'\s*:\s*"([a-z_]{1,32})"')
)  # fmt: skip
_NUMBER: Final = re.compile(rb"\s*:\s*(\d{1,9})")
_TOKENS: Final[tuple[_Found, ...]] = (
    (b'_tokens"', (b'"completion', b'"output', b'"generated'), _NUMBER),
    (b'"eval_count"', (b"",), _NUMBER),
    (b'"tokens_predicted"', (b"",), _NUMBER),
)
_SKIP: Final = (
    rb'(?:[^{}"]|"(?:[^"\\]|\\.)*")*?'  # the rest of an object up to its first inner one, strings whole
)
_NAME: Final = _SKIP + rb'"name"\s*:\s*"([\w.:/-]{1,128})"'
_TOOLS: Final = (  # (a word that stands in every event which names a tool, the name)
    (b'"tool_calls"', re.compile(rb'"function"\s*:\s*\{' + _NAME)),  # OpenAI's chat, Ollama
    (b'"tool_use"', re.compile(rb'"tool_use"' + _NAME)),  # Anthropic
    (b'"function_call"', re.compile(rb'"function_call"' + _NAME)),  # OpenAI's responses
)


class Usage:
    """One answer's. Reading it looks at the rest first."""

    __slots__ = ("_finish", "_kept", "_parts", "_seen", "_size", "_tool")

    def __init__(self) -> None:
        self._finish = self._tool = self._seen = b""
        self._parts: list[bytes] = []
        self._size = 0
        self._kept = OVERLAP_BYTES

    def feed(self, part: bytes) -> None:
        """A piece of the body, without any framing of the transfer."""
        self._parts.append(part)
        self._size += len(part)
        if self._size >= SCAN_BYTES:
            self._scan()

    def row(self) -> dict[str, str | int]:
        """What was found: `finish`, `output_tokens`, `tool`."""
        before = self._seen
        window = before + self._scan() if before else self._scan()
        found: dict[str, str | int] = {}
        if self._finish:
            found["finish"] = self._finish.decode()
        for words in _TOKENS:  # they stand at the end, or a little before it
            if tokens := _last(window, words):
                found["output_tokens"] = int(tokens)
                break
        if self._tool:
            found["tool"] = self._tool.decode("latin-1")
        return found

    def _scan(self) -> bytes:
        """Look through what came, and return it with a little of what stood before."""
        window = b"".join((self._seen[-self._kept :], *self._parts))
        self._parts.clear()
        self._size = 0
        self._finish = _last(window, _REASON) or self._finish
        kept = OVERLAP_BYTES
        for word, pattern in _TOOLS:
            at = window.rfind(word)
            if at < 0:
                continue
            named_at = -1
            for named in pattern.finditer(window):
                self._tool, named_at = named[1], named.start()
            if named_at < at and len(window) - at <= CALL_MAX_BYTES:
                kept = max(kept, len(window) - at)  # its name may stand behind its arguments
        self._seen, self._kept = window[-max(SCAN_BYTES, kept) :], kept
        return window


def _last(window: bytes, found: _Found) -> bytes:
    """The last value of that kind; b"": none."""
    word, before, value = found
    at = window.rfind(word)
    while at >= 0:
        if window.endswith(before, 0, at) and (match := value.match(window, at + len(word))) is not None:
            return match[1]
        at = window.rfind(word, 0, at)
    return b""


def looks_into(media: bytes) -> bool:
    """Whether an answer of this media type (lower case) is looked into."""
    return media.startswith(LOOKED_INTO)
