"""The words between a meter program and the daemon: one JSON line per reading; a line `read` asks for one now."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable

from headway.core.codec import dumps, loads
from headway.ports import Reading

READ = b"read\n"
PERIOD_S = 1.0
BROKEN_EXIT = 3
"""Exit code of a meter program that cannot go on, after it printed why."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)  # Linux alone has it


def boottime_s() -> float:
    """Seconds since the machine started, sleep included; a reading is as old as this says."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


def encode(reading: Reading) -> bytes:
    """The reading as one line."""
    return dumps(reading).encode() + b"\n"


def decode(line: bytes) -> Reading:
    """The reading of one line.

    Raises:
        ValueError: it is none.
    """
    return loads(Reading, line.decode())


class Broken(Exception):
    """Only a new process can read again. `reading` says what is known: at least a trouble."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading.trouble)
        self.reading = reading


def serve(read: Callable[[], Reading], once: bool = False) -> int:
    """Print a reading a second, and one at once for each line on standard input, until that ends.

    Args:
        read: takes one reading; may raise Broken.
        once: print one reading and return.

    Returns:
        The exit code: 0, or BROKEN_EXIT.
    """
    asked: queue.SimpleQueue[None] = queue.SimpleQueue()
    if not once:
        threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    while True:
        began_s = time.monotonic()
        try:
            reading, code = read(), 0
        except Broken as broken:
            reading, code = broken.reading, BROKEN_EXIT
        try:
            _print(encode(reading))
        except BrokenPipeError:
            return 0  # nobody reads any more
        if once or code:
            return code
        _wait(asked, began_s + PERIOD_S)


def _listen(asked: queue.SimpleQueue[None]) -> None:
    """A thread of its own: the end of the input must end this process also while a reading hangs."""
    while chunk := os.read(0, 4096):
        if b"\n" in chunk:  # several lines at once ask for one reading
            asked.put(None)
    os._exit(0)


def _wait(asked: queue.SimpleQueue[None], until_s: float) -> None:
    try:
        asked.get(timeout=max(0.0, until_s - time.monotonic()))
        while True:  # what was asked up to now is answered by the reading that begins now
            asked.get_nowait()
    except queue.Empty:
        pass


def _print(line: bytes) -> None:
    while line:
        line = line[os.write(1, line) :]
