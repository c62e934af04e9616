"""Intents on paper while the database is silent: one JSON line each, in the runtime directory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.errors import LineUnreadable, StoreFailed, aside
from headway.ports import Journal
from headway.store.cut_lines import is_beginning


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

    def read(self) -> dict[int, dict[str, Any]]:
        """Every whole line by its number, in the order written; a cut one is left out. No file is an empty journal.

        A write that was cut, by a kill or a full disk, leaves the beginning of a line of ours, which the next
        `append` closes: so only what is a beginning of a JSON object counts as cut, wherever it stands. That is never
        guessed: words are found that make an object of it. All else that is no object was damaged later.

        Raises:
            LineUnreadable: a line is neither an object nor the beginning of one.
            StoreFailed: the file cannot be read at all.
        """
        try:
            pieces = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StoreFailed(
                f"the journal {self._path} could not be read: {error.strerror or error}. Make it a file that this "
                f"user can read; or give up what it says: {aside(self.file)}.",
                reason="journal",
                path=self.file,
            ) from error
        found = {number: self._parsed(number, piece) for number, piece in enumerate(pieces, 1) if piece}
        return {number: doc for number, doc in found.items() if doc is not None}

    def _parsed(self, number: int, piece: bytes) -> dict[str, Any] | None:
        """None: it was cut."""
        why = "it is no JSON object"
        try:
            doc = json.loads(piece.decode())
            if isinstance(doc, dict):
                return doc
        except UnicodeDecodeError:
            pass
        except ValueError:
            # after a loss of power a file may end in zeros that nobody wrote
            if is_beginning(piece.rstrip(b"\0").decode()):
                return None
        except RecursionError:
            why = "it is nested too deep"
        raise LineUnreadable(number, self.file, why)

    def clear(self) -> None:
        """Forget everything: it is in the database now."""
        self._path.unlink(missing_ok=True)
