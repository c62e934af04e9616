"""Reads the gates' request logs from where the last saved offset ends. Each line counts once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from headway.ports import RequestLine, RequestLog

CHUNK_BYTES = 1 << 17  # of each file at once: what it takes to read more would hold up a turn


class Tail:
    """All log files. What is handed out counts as read once its offset is saved with it."""

    def __init__(self, log: RequestLog, offsets: Mapping[str, int]) -> None:
        self._log, self._offsets = log, dict(offsets)

    def offsets(self) -> dict[str, int]:
        """Up to where each file was read."""
        return dict(self._offsets)

    def drop_before(self, month: str) -> None:
        """Delete the files of the months before `month` ("2026-05") of which every byte was read; saved is the caller's
        to know."""
        for name, size_bytes in self._log.files():
            if name[: len(month)] < month and self._offsets.get(name, 0) >= size_bytes:
                with suppress(OSError):  # it is tried again
                    self._log.remove(name)

    def read(self) -> tuple[list[RequestLine], dict[str, int]]:
        """New whole lines of every file, and the offset behind the last of each. A cut last line waits for its end."""
        lines: list[RequestLine] = []
        moved: dict[str, int] = {}
        for name, size_bytes in self._log.files():
            start = self._offsets.get(name, 0)
            if size_bytes <= start:
                continue
            try:
                data = self._log.read(name, start, CHUNK_BYTES)
            except OSError:
                continue
            whole, end, _ = data.rpartition(b"\n")
            offset = start
            if not end and len(data) == CHUNK_BYTES:
                self._offsets[name] = moved[name] = start + len(data)
                continue  # no line of ours is that long: it is passed over, or nothing behind it would ever be read
            for line in whole.split(b"\n") if end else ():
                if text := line.decode("utf-8", "replace").strip():
                    lines.append(RequestLine(source=name, offset=offset, doc=text))
                offset += len(line) + 1
            if offset != start:
                self._offsets[name] = moved[name] = offset
        return lines, moved
