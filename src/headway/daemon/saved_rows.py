"""Rows of an earlier daemon as values. One that cannot be read ends the start, by its name: nothing is guessed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, get_args

from headway.core import codec
from headway.core.model import (
    Holder,
    HolderId,
    Job,
    JobSpec,
    Lease,
    Mode,
    Pending,
    QueueHold,
    Service,
    Window,
)
from headway.core.names import is_like_an_id
from headway.errors import LineUnreadable, RowUnreadable
from headway.ports import Journal, Saved

T = TypeVar("T")
KINDS: Mapping[str, type[Holder]] = {"service": Service, "job": Job, "lease": Lease, "claim": Lease}
INSTANTS = (
    "since_s",
    "key",
    "enqueued_s",
    "ended_s",
    "started_s",
    "retry_at_s",
    "pushed_s",
    "wish_s",
    "last_end_s",
    "idle_since_s",
    "limit_at_s",
    "answered_s",
    "ends_s",
    "asked_s",
    "granted_s",
    "expires_s",
    "told_s",
    "active_s",
    "begin_s",
    "end_s",
    "back_s",
    "frozen_s",
    "waits_from_s",
    "own_key",
    "follows_s",
)


@contextmanager
def _row(saved: Saved, table: str, key: str) -> Iterator[None]:
    """Raises: RowUnreadable, for whatever is odd in it."""
    try:
        yield
    except codec.ODD as error:
        raise RowUnreadable(table, key, saved.file, f"{type(error).__name__}: {error}") from error


def check(saved: Saved) -> None:
    """Of the small facts and the offsets, what others take as it stands. Raises: RowUnreadable."""
    for key, value in saved.meta.items():
        with _row(saved, "meta", key):
            if not isinstance(value, str):
                raise ValueError("no text")
    for source, offset in saved.offsets.items():
        with _row(saved, "log_offset", source):
            if not isinstance(offset, int):
                raise ValueError("no whole number")


def holders(saved: Saved, shift_s: float) -> Iterator[Holder]:
    """Every holder, with its instants moved by so much. Raises: RowUnreadable."""
    for hid, kind, doc in saved.holders:
        if kind in KINDS:
            with _row(saved, "holder", hid):
                holder = codec.from_doc(KINDS[kind], _shifted(json.loads(doc), shift_s))
            yield holder


def intents(saved: Saved, journal: Journal, shift_s: float) -> list[Pending]:
    """The last intent of each holder: rows, then what was journaled while the store was silent.

    Raises:
        RowUnreadable: a row of the database is odd.
        LineUnreadable: a line of the journal is.
        StoreFailed: the journal cannot be read at all.
    """
    found: dict[HolderId, Pending] = {}
    for hid, doc in saved.pending:
        with _row(saved, "intent", hid):
            found[hid] = codec.from_doc(Pending, _shifted(json.loads(doc), shift_s))
    for number, entry in journal.read().items():
        try:
            pending = codec.from_doc(Pending, _shifted(dict(entry["pending"]), shift_s))
            if entry["holder"] != pending.holder:
                raise ValueError("it names two holders")
        except codec.ODD as error:
            raise LineUnreadable(number, journal.file, f"{type(error).__name__}: {error}") from error
        found[pending.holder] = pending
    return list(found.values())


def counted(saved: Saved, had: Mapping[HolderId, int]) -> dict[str, Any]:
    """What has no instants in it: numbers that are never given again, and what was said before.

    Raises:
        RowUnreadable: one is no such number or text.
    """
    jobs = [int(hid[1:]) for hid in had if is_like_an_id(hid)]
    return {
        "next_job": max(_meta(saved, "next_job", "1", int), *(number + 1 for number in jobs), 1),
        "runs_had": {hid: number for hid, number in had.items() if not is_like_an_id(hid)},
        "next_lease": _meta(saved, "next_lease", "1", int),
        "fencing": _meta(saved, "fencing", "0", int),
        "next_window": _meta(saved, "next_window", "1", int),
        "recipes_seen": _meta(
            saved, "recipes_seen", "", lambda text: frozenset(filter(None, text.split("\n")))
        ),
        "recipes": _meta(saved, "recipes", "{}", _recipes),
        "prod_only_by": saved.meta.get("prod_only_by") or None,
    }


def dated(saved: Saved, shift_s: float) -> dict[str, Any]:
    """What has instants in it. Raises: RowUnreadable."""

    def held(text: str) -> QueueHold | None:
        doc = json.loads(text or "null")
        return None if doc is None else codec.from_doc(QueueHold, _shifted(doc, shift_s))

    def windows(text: str) -> tuple[Window, ...]:
        return tuple(codec.from_doc(Window, _shifted(doc, shift_s)) for doc in json.loads(text))

    return {
        "windows": _meta(saved, "windows", "[]", windows),
        "queue_hold": _meta(saved, "queue_hold", "", held),
        "crashes": _meta(
            saved, "crashes", "[]", lambda text: tuple(at_s + shift_s for at_s in json.loads(text))
        ),
    }


def mode(saved: Saved, config_mode: str) -> Any:
    """The mode set by hand holds until the config itself says something new. Raises: RowUnreadable."""
    if saved.meta.get("config_mode") != config_mode:
        return config_mode
    return _meta(saved, "mode", config_mode, _mode)


def shift(saved: Saved, boot_id: str, now_s: float, wall_s: float) -> float:
    """What to add to instants of an earlier boot; 0 within the same boot, where they simply hold.

    Raises:
        RowUnreadable: when that boot was cannot be told.
    """
    if saved.meta.get("boot_id", boot_id) == boot_id or "saved_s" not in saved.meta:
        return 0.0
    away_s = max(0.0, wall_s - _meta(saved, "saved_wall_s", "", float))
    return now_s - away_s - _meta(saved, "saved_s", "", float)


def _meta(saved: Saved, key: str, default: str, read: Callable[[str], T]) -> T:
    with _row(saved, "meta", key):
        return read(saved.meta.get(key, default))


def _recipes(text: str) -> dict[str, JobSpec]:
    """As the config said when a daemon last read it; what changed since then is taken by what waits."""
    return {name: codec.from_doc(JobSpec, doc) for name, doc in json.loads(text).items()}


def _mode(text: str) -> str:
    if text not in get_args(Mode):
        raise ValueError(f"{text!r} is no mode")
    return text


def _shifted(doc: dict[str, Any], shift_s: float) -> dict[str, Any]:
    if not shift_s:
        return doc
    return {k: v + shift_s if k in INSTANTS and isinstance(v, int | float) else v for k, v in doc.items()}
