"""What one Batch means in SQL."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import closing
from sqlite3 import Cursor
from typing import Any, cast

from sqlalchemy import Connection, Delete, Table, and_, bindparam, delete
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import Insert, insert

from headway.core.answers import read_line
from headway.core.model import Event
from headway.core.past import is_swap
from headway.ports import Batch, RequestLine
from headway.store import days, samples, tables

Row = dict[str, Any]
GOOD_ENDS = (
    "done",
    "local",
)  # of a request, as the gate logs it: answered by its server, or by the gate itself
LARGEST = 2**63 - 1  # of whole numbers, that SQLite takes
PRUNED_AT_ONCE = 500  # rows; some milliseconds


def _sql(statement: Insert | Delete) -> str:
    """As SQLite reads it, with a name for each value. SQLAlchemy itself takes longer than SQLite for each of these."""
    return str(statement.compile(dialect=sqlite.dialect(paramstyle="named")))


def _put(table: Table) -> str:
    """Insert a row, or put it in the place of the one with its key."""
    new = insert(table)
    changes = {column.name: new.excluded[column.name] for column in table.c if not column.primary_key}
    return _sql(new.on_conflict_do_update(index_elements=list(table.primary_key), set_=changes))


def _drop(table: Table, key: str) -> str:
    return _sql(delete(table).where(table.c[key] == bindparam("gone")))


# Made once: to build a statement takes longer than to run it.
PUT_HOLDER, DROP_HOLDER = _put(tables.holder), _drop(tables.holder, "id")
PUT_INTENT, DROP_INTENT = _put(tables.intent), _drop(tables.intent, "holder")
PUT_OFFSET, PUT_META = _put(tables.log_offset), _put(tables.meta)
PUT_KEPT = _put(tables.kept)
DROP_KEPT = _sql(
    delete(tables.kept).where(
        and_(tables.kept.c.kind == bindparam("gone_kind"), tables.kept.c.key == bindparam("gone_key"))
    )
)
ADD_EVENT = _sql(
    insert(tables.event).values({c.name: bindparam(c.name) for c in tables.event.c if c.name != "id"})
)
ADD_REQUEST = _sql(
    insert(tables.request)
    .values({c.name: bindparam(c.name) for c in tables.request.c if c.name != "id"})
    .on_conflict_do_nothing(index_elements=["source", "offset"])
)
ADD_DAY = _sql(
    (_new_day := insert(tables.day)).on_conflict_do_update(
        index_elements=list(tables.day.primary_key),
        set_={"n": tables.day.c.n + _new_day.excluded.n},
    )
)
KNOWN_LINES = 'SELECT "offset" FROM request WHERE source = ? AND "offset" BETWEEN ? AND ?'


def _prune(table: Table) -> str:
    """Ids only ever grow, so the newest one says how many there are at most."""
    oldest = f"SELECT id FROM {table.name} ORDER BY id LIMIT {PRUNED_AT_ONCE}"
    newest = f"SELECT max(id) FROM {table.name}"
    return f"DELETE FROM {table.name} WHERE id IN ({oldest}) AND id <= ({newest}) - :kept"


PRUNE_EVENTS, PRUNE_REQUESTS = _prune(tables.event), _prune(tables.request)


def write(db: Connection, batch: Batch) -> None:
    """Write everything of the batch in the transaction that is open. What is both gone and there stays there."""
    lines = _unknown(db, batch.requests)
    work: tuple[tuple[str, list[Row]], ...] = (
        (DROP_HOLDER, [{"gone": holder} for holder in batch.holders_gone]),
        (DROP_INTENT, [{"gone": holder} for holder in batch.pending_gone]),
        (DROP_KEPT, [{"gone_kind": kind, "gone_key": key} for kind, key in batch.kept_gone]),
        (PUT_KEPT, [{"kind": k.kind, "key": k.key, "wall_s": k.wall_s, "doc": k.doc} for k in batch.kept]),
        (PUT_HOLDER, [{"id": i, "kind": kind, "doc": doc} for i, kind, doc in batch.holders]),
        (PUT_INTENT, [{"holder": holder, "doc": doc} for holder, doc in batch.pending]),
        (PUT_OFFSET, [{"source": s, "offset": at} for s, at in batch.offsets.items()]),
        (PUT_META, [{"key": key, "value": value} for key, value in batch.meta.items()]),
        (ADD_EVENT, [_event_row(event, wall_s) for event, wall_s in batch.events]),
        (ADD_REQUEST, [_request_row(line) for line in lines]),
        (ADD_DAY, days.added(batch, lines)),
    )
    _run(db, work)
    if batch.rollups:
        with closing(db.connection.cursor()) as cursor:
            samples.add(cast(Cursor, cursor), batch.rollups)


def _unknown(db: Connection, lines: Iterable[RequestLine]) -> list[RequestLine]:
    """Without those that are there: a line that is read twice is stored once, and counted once in its day."""
    found = {(line.source, line.offset): line for line in lines}
    for source in {source for source, _ in found}:
        offsets = [offset for name, offset in found if name == source]
        for row in db.exec_driver_sql(KNOWN_LINES, (source, min(offsets), max(offsets))):
            found.pop((source, row[0]), None)
    return list(found.values())


def prune(db: Connection, events_kept: int, requests_kept: int) -> None:
    """Drop the oldest of what is more than so many, a few at a time: the next commit drops more."""
    kept = ((PRUNE_EVENTS, events_kept), (PRUNE_REQUESTS, requests_kept))
    _run(db, [(statement, [{"kept": most}]) for statement, most in kept])


def _run(db: Connection, work: Iterable[tuple[str, list[Row]]]) -> None:
    cursor = db.connection.cursor()
    try:
        for statement, rows in work:
            if rows:
                cursor.executemany(statement, rows)
    finally:
        cursor.close()


def _event_row(event: Event, wall_s: float) -> Row:
    facts = json.dumps(dict(event.facts), sort_keys=True, separators=(",", ":"))
    return {
        "at_s": event.at_s,
        "wall_s": wall_s,
        "code": event.code,
        "holder": event.holder,
        "facts": facts,
        "swap": 1 if is_swap(event.code, event.facts) else None,
    }


def _request_row(line: RequestLine) -> Row:
    """The columns are read out of the line where they can be; a line that is no JSON is kept as it is."""
    fields = read_line(line.doc) or {}
    status = _if(int, fields.get("status"))
    good = status is not None and 100 <= status < 400 and fields.get("ended", "done") in GOOD_ENDS
    return {
        "source": line.source,
        "offset": line.offset,
        "service": _if(str, fields.get("service")),
        "class": _if(str, fields.get("class")),
        "started": _if((int, float), fields.get("wall_s")),
        "status": status,
        "waited_s": _if((int, float), fields.get("waited_s")),
        "doc": line.doc,
        "failed": None if good else 1,
    }


def _if(kind: type | tuple[type, ...], value: Any) -> Any:
    small = not isinstance(value, int) or abs(value) <= LARGEST
    return value if isinstance(value, kind) and not isinstance(value, bool) and small else None
