"""Reads what is replayed: Headway's own request log, or the CSV format of request traces."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TextIO

from headway.core.answers import END_OF_TURN, TOOL_CALL, logged
from headway.errors import LogUnreadable

COLUMNS: Final = ("arrival_s", "service_s", "finish", "conversation", "out_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request: when it came, and how long an awake model was busy with it."""

    arrived_s: float
    service_s: float
    conversation: str | None = None
    finish: int = 0  # 0 unknown, 1 tool call, 2 end of turn
    tokens: int = 0  # output tokens; 0 unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Requests by arrival, the first at 0."""

    name: str
    requests: tuple[Request, ...]
    skipped: int = 0  # lines that were cut short by a full disk or a crash


def read(path: Path, service: str | None = None) -> Trace:
    """A trace (`.csv`, `.csv.gz`), a file of the request log, or the folder of it.

    Args:
        service: whose requests, where a log has those of several.

    Raises:
        LogUnreadable: there is no such file, it is neither, or it has no request that could be replayed.
    """
    files = sorted(path.glob("*.ndjson")) if path.is_dir() else [path]
    requests: list[Request] = []
    skipped = 0
    try:
        if path.name.endswith((".csv", ".csv.gz")):
            if service is not None:
                raise LogUnreadable(f"{path} is a trace: it names no services. Leave --service out.")
            with _opened(path) as file:
                requests = list(_rows(file, path))
        else:
            rows: list[Mapping[str, Any]] = []
            for file_path in files:
                with _opened(file_path) as file:
                    skipped += _lines(file, rows)
            requests = list(_logged(rows, service, path))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise LogUnreadable(f"{path} cannot be read: {error}. Name a request log or a .csv(.gz).") from None
    if not requests:
        raise LogUnreadable(
            f"{path} has no attended request that was answered. The log of a running Headway is in the folder "
            "`requests` of its state."
        )
    requests.sort(key=lambda one: one.arrived_s)
    first_s = requests[0].arrived_s
    moved = tuple(replace(one, arrived_s=one.arrived_s - first_s) for one in requests)
    return Trace(name=path.name, requests=moved, skipped=skipped)


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _rows(file: Iterable[str], path: Path) -> Iterator[Request]:
    """Of a trace. Nothing in it is guessed: a bad line is an error with its number."""
    reader = csv.reader(file)
    head = next(reader, [])
    if tuple(head) != COLUMNS:
        raise LogUnreadable(f"{path}, line 1: the columns are to be {','.join(COLUMNS)}.")
    for row in reader:
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
            raise LogUnreadable(f"{path}, line {reader.line_num}: five numbers are expected.") from None
        if not (math.isfinite(one.arrived_s) and 0 <= one.service_s < math.inf) or one.tokens < 0:
            raise LogUnreadable(f"{path}, line {reader.line_num}: a time or size is no such thing.")
        if one.finish not in (0, TOOL_CALL, END_OF_TURN):
            raise LogUnreadable(f"{path}, line {reader.line_num}: finish is to be 0, 1 or 2.")
        yield one


def _lines(file: Iterable[str], rows: list[Mapping[str, Any]]) -> int:
    """Of the request log, into `rows`; how many were no whole line."""
    skipped = 0
    for line in file:
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if isinstance(row, dict):
            rows.append(row)
        else:
            skipped += 1
    return skipped


def _logged(rows: Iterable[Mapping[str, Any]], service: str | None, path: Path) -> Iterator[Request]:
    """Attended requests that were sent. Times are those of the boot's clock: a wall clock that is set moves none."""
    offsets: dict[str, float] = {}
    named = set()
    for row in rows:
        one = logged(row)
        if one is None or one.sent_after_s is None or service not in (None, one.service):
            continue
        named.add(one.service)
        offset_s = offsets.setdefault(one.boot, one.wall_s - one.at_s)
        yield Request(
            arrived_s=one.at_s + offset_s,
            service_s=max(0.0, one.took_s - one.sent_after_s),
            conversation=one.conversation,
            finish=one.finish,
            tokens=one.tokens,
        )
    if len(named) > 1:
        names = ", ".join(sorted(named))
        raise LogUnreadable(f"{path} has requests of {names}. Say whose: `--service NAME`.")
