"""What one Batch means in SQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Table, delete
from sqlalchemy.dialects.sqlite import insert

from headway.core.model import Event
from headway.ports import Batch, RequestLine
from headway.store import tables

Row = dict[str, Any]


def write(db: Connection, batch: Batch) -> None:
    """Write everything of the batch in the transaction that is open. What is both gone and there stays there."""
    _drop(db, tables.holder, "id", batch.holders_gone)
    _drop(db, tables.intent, "holder", batch.pending_gone)
    _put(db, tables.holder, [{"id": i, "kind": kind, "doc": doc} for i, kind, doc in batch.holders])
    _put(db, tables.intent, [{"holder": holder, "doc": doc} for holder, doc in batch.pending])
    _put(db, tables.log_offset, [{"source": s, "offset": at} for s, at in batch.offsets.items()])
    _put(db, tables.meta, [{"key": key, "value": value} for key, value in batch.meta.items()])
    if batch.events:
        db.execute(insert(tables.event), [_event_row(event, wall_s) for event, wall_s in batch.events])
    if batch.requests:
        once = insert(tables.request).on_conflict_do_nothing(index_elements=["source", "offset"])
        db.execute(once, [_request_row(line) for line in batch.requests])


def _drop(db: Connection, table: Table, key: str, values: Sequence[str]) -> None:
    for value in values:
        db.execute(delete(table).where(table.c[key] == value))


def _put(db: Connection, table: Table, rows: list[Row]) -> None:
    """Insert each row, or put it in the place of the one with its key."""
    if not rows:
        return
    new = insert(table)
    changes = {column.name: new.excluded[column.name] for column in table.c if not column.primary_key}
    db.execute(new.on_conflict_do_update(index_elements=list(table.primary_key), set_=changes), rows)


def _event_row(event: Event, wall_s: float) -> Row:
    facts = json.dumps(dict(event.facts), sort_keys=True, separators=(",", ":"))
    return {
        "at_s": event.at_s,
        "wall_s": wall_s,
        "code": event.code,
        "holder": event.holder,
        "facts": facts,
    }


def _request_row(line: RequestLine) -> Row:
    """The columns are read out of the line where they can be; a line that is no JSON is kept as it is."""
    try:
        found = json.loads(line.doc)
    except ValueError:
        found = None
    fields = found if isinstance(found, dict) else {}
    return {
        "source": line.source,
        "offset": line.offset,
        "service": _if(str, fields.get("service")),
        "class": _if(str, fields.get("class")),
        "started": _if((int, float), fields.get("wall_s")),
        "status": _if(int, fields.get("status")),
        "waited_s": _if((int, float), fields.get("waited_s")),
        "doc": line.doc,
    }


def _if(kind: type | tuple[type, ...], value: Any) -> Any:
    return value if isinstance(value, kind) and not isinstance(value, bool) else None
