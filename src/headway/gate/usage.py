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

_REASON: Final = re.compile(rb'_reason"\s*:\s*"([a-z_]{1,32})"')  # a literal first: four times as fast
_REASONS: Final = (b'"finish', b'"stop', b'"done')
_TOKENS: Final = re.compile(
    rb'"(?:completion_tokens|output_tokens|eval_count|tokens_predicted|generated_tokens)"\s*:\s*(\d{1,9})'
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
        tokens = _TOKENS.findall(before + self._scan())  # they stand at the end, or a little before it
        found: dict[str, str | int] = {}
        if self._finish:
            found["finish"] = self._finish.decode()
        if tokens:
            found["output_tokens"] = int(tokens[-1])
        if self._tool:
            found["tool"] = self._tool.decode("latin-1")
        return found

    def _scan(self) -> bytes:
        """Look through what came, and return it with a little of what stood before."""
        window = self._seen[-self._kept :] + b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        for found in _REASON.finditer(window):
            at = found.start()
            if window[max(0, at - 7) : at].endswith(_REASONS):
                self._finish = found[1]
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


def looks_into(media: bytes) -> bool:
    """Whether an answer of this media type (lower case) is looked into."""
    return media.startswith(LOOKED_INTO)
