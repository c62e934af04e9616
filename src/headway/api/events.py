"""Server-sent events: the snapshot first, then what changed. A viewer is a revision; nothing is queued for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from headway.api.parts import Parts, to_json
from headway.core import rows, view

PING_S = 15.0
LOOK_S = 1.0  # how long one wait lasts: a stopping server ends its streams within it
SPACING_S = 0.05  # between two batches to one viewer; what happens meanwhile is in the next one
RETRY_MS = 2000


async def stream(parts: Parts, last_id: str | None) -> AsyncIterator[bytes]:
    """Text of `text/event-stream`, until the server stops. The viewer's leaving cancels it.

    Every batch ends with the one event that carries `id:` (the revision): a viewer that was cut off in the middle
    of a batch gets all of it again.
    """
    yield b"retry: %d\n\n" % RETRY_MS
    seen = int(last_id) if last_id and last_id.isdigit() else None
    if seen is None or seen > parts.hub.revision or (batch := _changes(parts, seen)) is None:
        batch = [_snapshot(parts)]
    seen = parts.hub.revision
    yield b"".join(batch)
    silent_s = 0.0
    while not parts.closing[0]:
        revision = await parts.hub.wait(seen, LOOK_S)
        if revision == seen:
            silent_s += LOOK_S
            if silent_s >= PING_S:
                silent_s = 0.0
                yield b": ping\n\n"
            continue
        changed = _changes(parts, seen)
        seen, silent_s = parts.hub.revision, 0.0
        yield b"".join([_snapshot(parts)] if changed is None else changed)
        await asyncio.sleep(SPACING_S)


def _event(name: str, data: bytes, revision: int | None = None) -> bytes:
    head = b"event: %s\n" % name.encode()
    if revision is not None:
        head += b"id: %d\n" % revision
    return head + b"data: " + data + b"\n\n"


def _snapshot(parts: Parts) -> bytes:
    return _event("snapshot", to_json(rows.Overview, parts.overview()), parts.hub.revision)


def _changes(parts: Parts, seen: int) -> list[bytes] | None:
    """One batch: a row for each id that changed after `seen`, then the head of the board. None: too long ago."""
    ids = parts.hub.changed_since(seen)
    if ids is None:
        return None
    snapshot, verdicts = parts.hub.snapshot, parts.hub.verdicts
    batch = []
    for hid in sorted(ids):
        row = view.row(hid, snapshot, verdicts)
        if row is None:
            gone = not (hid in snapshot.holders or hid in snapshot.devices)
            if gone:
                batch.append(_event("holder.gone", to_json(dict[str, str], {"id": hid})))
            continue
        kind = row.kind if not isinstance(row, rows.DeviceRow) else "device"
        batch.append(_event(f"{kind}.updated", to_json(type(row), row)))
    batch.append(_event("board.updated", to_json(rows.Head, view.head(snapshot)), parts.hub.revision))
    return batch
