"""Server-sent events: the snapshot first, then what changed. A viewer is a revision; nothing is queued for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from headway.api.parts import Parts, to_json
from headway.core import rows, view

PING_S = 15.0
LOOK_S = 1.0  # how long one wait lasts: a stopping server ends its streams within it
SPACING_S = 0.05  # batches leave at multiples of this; what happens meanwhile is in the next one
RETRY_MS = 2000


async def stream(parts: Parts, last_id: str | None) -> AsyncIterator[bytes]:
    """Text of `text/event-stream`, until the server stops. The viewer's leaving cancels it.

    Every batch ends with the one event that carries `id:` (the daemon and its revision): a viewer that was cut off in
    the middle of a batch gets all of it again.
    """
    viewer = object()
    parts.viewers.add(viewer)
    try:
        async for piece in _pieces(parts, last_id):
            yield piece
    finally:
        parts.viewers.discard(viewer)


async def _pieces(parts: Parts, last_id: str | None) -> AsyncIterator[bytes]:
    yield b"retry: %d\n\n" % RETRY_MS
    seen = _seen(parts, last_id)
    first = _snapshot(parts) if seen is None else _news(parts, seen)
    seen = parts.hub.revision
    yield first
    silent_s, loop = 0.0, asyncio.get_running_loop()
    while not parts.closing[0]:
        revision = await parts.hub.wait(seen, LOOK_S)
        if revision == seen:
            silent_s += LOOK_S
            if silent_s >= PING_S:
                silent_s = 0.0
                yield b": ping\n\n"
            continue
        news = _news(parts, seen)
        seen, silent_s = parts.hub.revision, 0.0
        yield news
        await asyncio.sleep(
            SPACING_S - loop.time() % SPACING_S
        )  # all viewers at once: they are sent the same


def _seen(parts: Parts, last_id: str | None) -> int | None:
    """The revision that a viewer knows. None: no such, or another daemon's, whose numbers mean other things."""
    life, _, revision = (last_id or "").partition(".")
    if life != parts.life or not (revision.isascii() and revision.isdigit()) or len(revision) > 15:
        return None
    return int(revision) if int(revision) <= parts.hub.revision else None


def _event(name: str, data: bytes, last_id: str | None = None) -> bytes:
    head = b"event: %s\n" % name.encode()
    if last_id is not None:
        head += b"id: %s\n" % last_id.encode()
    return head + b"data: " + data + b"\n\n"


def _id(parts: Parts) -> str:
    return f"{parts.life}.{parts.hub.revision}"


def _snapshot(parts: Parts) -> bytes:
    return _event("snapshot", to_json(rows.Overview, parts.overview()), _id(parts))


def _news(parts: Parts, seen: int) -> bytes:
    """What somebody who knows revision `seen` is sent to know the present one: what changed, or all of it."""
    made, revision = parts.batches, parts.hub.revision
    if made.revision != revision:
        made.revision, made.after = revision, {}
    if seen not in made.after:
        changed = _changes(parts, seen)
        made.after[seen] = _snapshot(parts) if changed is None else b"".join(changed)
    return made.after[seen]


def _head(parts: Parts) -> rows.Head:
    head = view.head(parts.hub.snapshot)
    return replace(
        head,
        devices=parts.named(head.devices),
        order=parts.order.of(parts.hub.snapshot.queue),
        ended=parts.over.of(parts.hub),
        wrong_24h=parts.over.wrong_in_a_day(parts.hub),
    )


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
        kind = "device"
        if isinstance(row, rows.DeviceRow):
            (row,) = parts.named((row,))
        else:
            kind = row.kind
        batch.append(_event(f"{kind}.updated", to_json(type(row), row)))
    batch.append(_event("board.updated", to_json(rows.Head, _head(parts)), _id(parts)))
    return batch
