"""The daemon's own log: to stdout as ever, and into a file that is bounded."""

from __future__ import annotations

import logging
import logging.handlers
import sys
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

LOG_BYTES = 10 << 20  # of the file, before it becomes the second one; the second one before it is dropped
OURS = "headway"


class _Lines(logging.Formatter):
    """Our own lines are whole already; those of libraries get time, level and name."""

    def format(self, record: logging.LogRecord) -> str:
        return record.getMessage() if record.name == OURS else super().format(record)


def _writable(text: str, encoding: str) -> str:
    """What the encoding has no letter for becomes an escape."""
    return text.encode(encoding, "backslashreplace").decode(encoding)


class _Stdout:
    """Prints lines. Where nobody reads any more, or the disk is full, a line is dropped: the file has it."""

    def __init__(self, *_: object) -> None:
        pass

    def msg(self, line: str) -> None:
        with suppress(OSError, ValueError):
            print(_writable(line, sys.stdout.encoding), flush=True)

    debug = info = warning = error = critical = exception = msg


def log_to(path: Path) -> None:
    """Send what structlog says to stdout and to `path`, for the rest of this process.

    An event may bring `said`, which makes its sentence: a terminal shows that one in place of the facts.
    What libraries say from WARNING on, tracebacks of the API among it, goes to stderr and to `path`.
    """
    file = logging.handlers.RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8")
    file.setFormatter(_Lines("%(asctime)s [%(levelname)s] %(name)s: %(message)s"))
    logging.basicConfig(handlers=[file, logging.StreamHandler()], level=logging.WARNING)
    dev = structlog.dev
    plain = dev.ConsoleRenderer(colors=False, exception_formatter=dev.plain_traceback)
    people = sys.stdout.isatty()
    shown = dev.ConsoleRenderer(colors=people, exception_formatter=dev.plain_traceback)

    def both(logger: Any, name: str, event: MutableMapping[str, Any]) -> str:
        said: Callable[[], str] | None = event.pop("said", None)
        line = _writable(plain(logger, name, dict(event)), "utf-8")
        file.handle(logging.makeLogRecord({"name": OURS, "msg": line}))
        if people and said is not None:
            sentence = "".join(sign if sign.isprintable() else "\ufffd" for sign in said())
            return f"{event['timestamp']}  {event['event']:<20} {sentence}"
        return str(shown(logger, name, event))

    structlog.configure(
        logger_factory=_Stdout,
        processors=[
            structlog.processors.add_log_level,
            dev.set_exc_info,
            structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
            both,
        ],
    )
