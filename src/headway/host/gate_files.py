"""Files that gates and daemon share: the table a new gate reads, and the logs the gates append to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class RoutesFile:
    """Implements ports.Routes: one file, replaced by rename."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes:
        return self._path.read_bytes()

    def write(self, document: bytes) -> None:
        temporary = self._path.with_name(f".{self._path.name}.new")
        temporary.write_bytes(document)
        temporary.rename(self._path)


class RequestFiles:
    """Implements ports.RequestLog over a directory of `*.ndjson`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def files(self) -> Sequence[tuple[str, int]]:
        found = []
        for path in sorted(self._directory.glob("*.ndjson")):
            try:
                found.append((path.name, path.stat().st_size))
            except OSError:
                continue  # removed in this moment
        return found

    def read(self, name: str, start: int, count_bytes: int) -> bytes:
        with (self._directory / name).open("rb") as log:
            log.seek(start)
            return log.read(count_bytes)

    def remove(self, name: str) -> None:
        (self._directory / name).unlink(missing_ok=True)
