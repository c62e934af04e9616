"""Intents on paper while the database is silent: one JSON line each, in the runtime directory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.errors import StoreFailed
from headway.ports import Journal


class FileJournal(Journal):
    """An append-only file. A line written is there after a kill of this process; a loss of power may take it.

    That is enough: after a loss of power nothing runs that a line could speak of.
    """

    def __init__(self, path: Path) -> None:
        self._path, self.file = path, str(path)

    def append(self, doc: Mapping[str, Any]) -> None:
        """Add one line.

        Raises:
            StoreFailed: it could not be written whole.
        """
        line = json.dumps(dict(doc), separators=(",", ":")).encode() + b"\n"
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                if size and os.pread(descriptor, 1, size - 1) != b"\n":
                    line = b"\n" + line  # the line before was cut: it must not take this one with it
                if os.write(descriptor, line) != len(line):
                    raise OSError("only a part was written")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreFailed(
                f"the journal {self._path} could not be written: {error.strerror or error}. "
                "Free space there, or make its directory writable for this user.",
                reason="journal",
                path=str(self._path),
            ) from error

    def read(self) -> list[dict[str, Any]]:
        """Every whole line, in the order written; a cut one is left out. No file is an empty journal."""
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return []
        found = (_parsed(line) for line in text.split(b"\n"))
        return [doc for doc in found if doc is not None]

    def clear(self) -> None:
        """Forget everything: it is in the database now."""
        self._path.unlink(missing_ok=True)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        doc = json.loads(line)
    except ValueError:
        return None
    return doc if isinstance(doc, dict) else None
