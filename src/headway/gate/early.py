"""The beginning of a body that is too large to be read whole, or of a long form.

Its model often stands there, and can be replaced there.

A body whose model comes later has none here: with a service named by port or path it passes unchanged.
"""

import json
import re
from typing import Final

from headway.gate import bodies

WINDOW_BYTES = 1024 * 1024
_KEY: Final = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*:\s*')
_NEXT: Final = re.compile(r"\s*,")
_VALUE: Final = json.JSONDecoder()


class Window:
    """One body's beginning. `full`: nothing more belongs to it, and `data` has it."""

    __slots__ = ("_length", "_media", "_parts", "_span", "data", "full")

    def __init__(self, media: str, length: int) -> None:
        self._media, self._length = media, length
        self.data = b""
        self._parts: list[bytes] = []
        self._span: tuple[int, int] | None = None
        self.full = False

    def feed(self, data: bytes) -> None:
        """Take more of it. Not once it's full."""
        self._parts.append(data)
        if sum(map(len, self._parts)) >= WINDOW_BYTES:
            self.data = b"".join(self._parts)
            self._parts.clear()
            self.full = True

    def read(self) -> bodies.Read:
        """Look for the model. Call it once it's full."""
        form, data = bodies.is_form(self._media), self.data
        span = bodies.model_part(data, self._media) if form else _in_json(data)
        self._span = span
        if span is None:
            return bodies.Read(b"")
        model = data[span[0] : span[1]].decode("utf-8", "replace")
        return bodies.Read(b"", model if form else json.loads(model))

    def rewritten(self, model: str | None) -> bytes:
        """The beginning, with this model in place of the caller's where it was found."""
        if model is None or self._span is None:
            return self.data
        first, end = self._span
        value = model if bodies.is_form(self._media) else json.dumps(model)
        return self.data[:first] + value.encode() + self.data[end:]

    def length_of(self, data: bytes) -> int:
        """How long the whole body is when it begins with `data` instead."""
        return self._length - len(self.data) + len(data)


def _in_json(data: bytes) -> tuple[int, int] | None:
    """Where the top-level value of `model` begins and ends; None when it's no string, or not before the cut."""
    text = data.decode("latin-1")  # one character per byte: places stay the same
    at = len(text) - len(text.lstrip(" \t\r\n"))
    if text[at : at + 1] != "{":
        return None
    at += 1
    while (key := _KEY.match(text, at)) is not None:
        try:
            value, end = _VALUE.raw_decode(text, key.end())
        except (ValueError, RecursionError):
            return None
        if key[1] == "model":
            return (key.end(), end) if isinstance(value, str) else None
        comma = _NEXT.match(text, end)
        if comma is None:
            return None
        at = comma.end()
    return None
