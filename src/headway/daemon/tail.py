"""Reads the gates' request logs from where the last saved offset ends. Each line counts once."""

from __future__ import annotations

from pathlib import Path

from headway.ports import RequestLine

CHUNK_BYTES = 1 << 20


class Tail:
    """All log files of one directory. What is handed out counts as read once its offset is saved with it."""

    def __init__(self, directory: Path, offsets: dict[str, int]) -> None:
        self._directory, self._offsets = directory, dict(offsets)

    def read(self) -> tuple[list[RequestLine], dict[str, int]]:
        """New whole lines of every file, and the offset behind the last of each. A cut last line waits for its end."""
        lines: list[RequestLine] = []
        moved: dict[str, int] = {}
        for path in sorted(self._directory.glob("*.ndjson")):
            start = self._offsets.get(path.name, 0)
            try:
                if path.stat().st_size <= start:
                    continue
                with path.open("rb") as log:
                    log.seek(start)
                    data = log.read(CHUNK_BYTES)
            except OSError:
                continue
            whole, end, _ = data.rpartition(b"\n")
            offset = start
            if not end and len(data) == CHUNK_BYTES:
                self._offsets[path.name] = moved[path.name] = start + len(data)
                continue  # no line of ours is that long: it is passed over, or nothing behind it would ever be read
            for line in whole.split(b"\n") if end else ():
                if text := line.decode("utf-8", "replace").strip():
                    lines.append(RequestLine(source=path.name, offset=offset, doc=text))
                offset += len(line) + 1
            if offset != start:
                self._offsets[path.name] = moved[path.name] = offset
        return lines, moved
