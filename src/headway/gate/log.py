"""The request log: one JSON line per request, appended by a thread. Never prompts, never answers.

The loop only puts a row into a list; a writer thread appends every 100 ms. A full disk drops rows and counts them,
and the next row that can be written carries the count. Files are `YYYY-MM.GATE.ndjson`, by UTC month.
"""

import contextlib
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Final

import msgspec

WRITE_EVERY_S = 0.1
PENDING_MAX = 100_000
_encode: Final = msgspec.json.Encoder().encode


class RequestLog:
    """Appends rows for one gate. `put` never blocks and never fails."""

    def __init__(self, folder: Path, gate: str) -> None:
        self._folder, self._gate = folder, gate
        self._rows: deque[bytes] = deque()  # popleft and append are safe between two threads
        self._wake = threading.Event()
        self._stop = False
        self._torn = False  # a write stopped inside a line
        self.dropped = 0  # and not told in the log yet
        self.dropped_total = 0
        self._thread = threading.Thread(target=self._run, name="request-log", daemon=True)

    def start(self) -> None:
        """Start the writer."""
        self._thread.start()

    def path(self) -> Path:
        """The file of this month."""
        return self._folder / f"{time.strftime('%Y-%m', time.gmtime())}.{self._gate}.ndjson"

    def put(self, row: dict[str, Any]) -> None:
        """Add a row; over 100,000 unwritten ones it's dropped and counted."""
        if len(self._rows) < PENDING_MAX:
            self._rows.append(_encode(row) + b"\n")  # here: two threads that compute get in each other's way
        else:
            self._drop(1)

    def close(self) -> None:
        """Write what is left and end the thread; waits at most 2 s."""
        self._stop = True
        self._wake.set()
        self._thread.join(2.0)

    def _run(self) -> None:
        while True:
            stop = self._stop
            rows = [self._rows.popleft() for _ in range(len(self._rows))]
            if rows:
                self._write(rows)
            if stop:
                return
            self._wake.wait(WRITE_EVERY_S)

    def _write(self, rows: list[bytes]) -> None:
        data = b"".join(rows)
        if self.dropped:
            data = b'{"dropped_before":%d,' % self.dropped + data[1:]
        if self._torn:
            data = b"\n" + data  # readers skip the torn line
        written = 0
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with self.path().open("ab", buffering=0) as file:
                while written < len(data):
                    written += file.write(data[written:])
        whole = written == len(data)
        self._torn = self._torn if written == 0 else not whole
        if whole:
            self.dropped = 0
        else:
            self._drop(len(rows) - data[:written].count(b"\n"))

    def _drop(self, rows: int) -> None:
        self.dropped += rows
        self.dropped_total += rows
