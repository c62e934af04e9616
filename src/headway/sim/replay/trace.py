"""Reads what is replayed: Headway's own request log, or the CSV format of request traces."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TextIO

from headway.core.answers import END_OF_TURN, TOOL_CALL, logged, read_line
from headway.errors import LogUnreadable

COLUMNS: Final = ("arrival_s", "service_s", "finish", "conversation", "out_tokens")
NAME_ANOTHER: Final = "Name a request log or a .csv(.gz)."
LATEST_S: Final = 1e12  # an instant or a length of time beyond this is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request: when it came, and how long an awake model was busy with it."""

    arrived_s: float
    service_s: float
    conversation: str | None = None
    finish: int = 0  # 0 unknown, 1 tool call, 2 end of turn
    tokens: int = 0  # output tokens; 0 unknown


@dataclass(slots=True, kw_only=True)
class Skipped:
    """Lines of a log that are left out."""

    cut: int = 0  # short, by a full disk or a crash
    unread: int = 0  # no line of a request log, or with values that no request has

    def told(self) -> str | None:
        """As people read it; None: there is none."""
        said = [
            f"{n} {'line' if n == 1 else 'lines'} {what}"
            for n, what in ((self.cut, "cut short"), (self.unread, "that could not be read"))
            if n
        ]
        return f"left out: {' and '.join(said)}" if said else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Requests by arrival, the first at 0."""

    name: str
    requests: tuple[Request, ...]
    service: str | None = None  # whose; None: a trace says nothing of it
    skipped: Skipped = field(default_factory=Skipped)


def read(path: Path, service: str | None = None) -> Trace:
    """A trace (`.csv`, `.csv.gz`), a file of the request log, or the folder of it.

    Args:
        service: whose requests, where a log has those of several.

    Raises:
        LogUnreadable: there is no such file, it is neither, or it has no request that could be replayed.
    """
    skipped = Skipped()
    try:
        if path.name.endswith((".csv", ".csv.gz")):
            if service is not None:
                raise LogUnreadable(f"{path} is a trace: it names no services. Leave --service out.")
            with _opened(path) as file:
                requests = list(_rows(file, path))
        else:
            service, requests = _of_log(path, service, skipped)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise LogUnreadable(
            f"{path} is cut short or damaged: it cannot be unpacked. {NAME_ANOTHER}"
        ) from None
    except UnicodeDecodeError:
        raise LogUnreadable(f"{path} is no text. {NAME_ANOTHER}") from None
    except OSError as error:
        why = (error.strerror or "it is no file").lower()
        raise LogUnreadable(f"{path} cannot be read: {why}. {NAME_ANOTHER}") from None
    if not requests:
        left_out = f" ({told})" if (told := skipped.told()) else ""
        raise LogUnreadable(
            f"{path} has no attended request that was answered{left_out}. The log of a running Headway is in "
            "the folder `requests` of its state."
        )
    requests.sort(key=lambda one: one.arrived_s)
    first_s = requests[0].arrived_s
    moved = tuple(replace(one, arrived_s=one.arrived_s - first_s) for one in requests)
    return Trace(name=path.name, requests=moved, service=service, skipped=skipped)


def _opened(path: Path, errors: str = "strict") -> TextIO:
    """Spreadsheets put a mark before the first column, which is none of its name."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors=errors, newline="")
    return path.open(encoding="utf-8-sig", errors=errors, newline="")


def _rows(file: Iterable[str], path: Path) -> Iterator[Request]:
    """Of a trace. Nothing in it is guessed: a bad line is an error with its number."""
    records = _records(file, path)
    _, head = next(records, (1, []))
    if tuple(head) != COLUMNS:
        raise LogUnreadable(f"{path}, line 1: the columns are to be {','.join(COLUMNS)}.")
    for number, row in records:
        try:
            arrival, service, finish, conversation, tokens = row
            one = Request(
                arrived_s=float(arrival),
                service_s=float(service),
                conversation=conversation if conversation != "0" else None,
                finish=int(finish),
                tokens=int(tokens),
            )
        except ValueError:
            raise LogUnreadable(f"{path}, line {number}: five numbers are expected.") from None
        if not _possible(one) or one.tokens < 0:
            raise LogUnreadable(f"{path}, line {number}: a time or size is no such thing.")
        if one.finish not in (0, TOOL_CALL, END_OF_TURN):
            raise LogUnreadable(f"{path}, line {number}: finish is to be 0, 1 or 2.")
        yield one


def _records(file: Iterable[str], path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its first line: a quote that is left open takes all lines behind it along."""
    reader = csv.reader(file)
    while True:
        number = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error:
            raise LogUnreadable(
                f"{path}, line {number}: five numbers are expected; look for a quote that is left open."
            ) from None
        if row is None:
            return
        yield number, row


def _possible(one: Request) -> bool:
    """Are its times such that they can be added up? Not-a-number fails here too."""
    return abs(one.arrived_s) <= LATEST_S and 0 <= one.service_s <= LATEST_S


def _of_log(path: Path, service: str | None, skipped: Skipped) -> tuple[str | None, list[Request]]:
    """Whose requests these are, and the requests. A cut goes through letters too: the lines beside it are read."""
    rows: list[Mapping[str, Any]] = []
    for file_path in sorted(path.glob("*.ndjson")) if path.is_dir() else [path]:
        with _opened(file_path, errors="replace") as file:
            _lines(file, rows, skipped)
    found: dict[str, list[Request]] = {}
    for name, one in _logged(rows, service, skipped):
        found.setdefault(name, []).append(one)
    if len(found) > 1:
        names = ", ".join(sorted(found))
        raise LogUnreadable(f"{path} has requests of {names}. Say whose: `--service NAME`.")
    return next(iter(found.items()), (service, []))


def _lines(file: Iterable[str], rows: list[Mapping[str, Any]], skipped: Skipped) -> None:
    """Of the request log, into `rows`."""
    for line in file:
        text = line.strip()
        if not text:
            continue
        if (row := read_line(text)) is not None:
            rows.append(row)
        elif text.startswith("{") and not text.endswith("}"):
            skipped.cut += 1
        else:
            skipped.unread += 1


def _logged(
    rows: Iterable[Mapping[str, Any]], service: str | None, skipped: Skipped
) -> Iterator[tuple[str, Request]]:
    """Attended requests that were sent, each with its service. Times are those of the boot's clock: a wall clock that
    is set moves none."""
    offsets: dict[str, float] = {}
    for row in rows:
        one = logged(row)
        if one is None and row.get("demand") and row.get("class") == "attended":
            skipped.unread += 1
        if one is None or one.sent_after_s is None or service not in (None, one.service):
            continue
        offset_s = offsets.get(one.boot, one.wall_s - one.at_s)
        request = Request(
            arrived_s=one.at_s + offset_s,
            service_s=max(0.0, one.took_s - one.sent_after_s),
            conversation=one.conversation,
            finish=one.finish,
            tokens=one.tokens,
        )
        if not _possible(request):
            skipped.unread += 1
            continue
        offsets[one.boot] = offset_s
        yield one.service, request
