"""What happened: the audit, finished requests, and the stream of changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from typing_extensions import TypedDict

from headway.api.events import stream
from headway.api.limits import VIEWERS_MAX, Busy
from headway.api.pages import Limit, link, link_before
from headway.api.parts import Parts, answer, find, parts_of
from headway.api.taking import TRANSPORT, Taken
from headway.core import words
from headway.core.model import Snapshot
from headway.core.names import shown
from headway.core.past import NEWEST, DayRow, Slice, SwapRow, swap_row
from headway.core.phrases import EVENTS, told
from headway.core.wording import unknown
from headway.errors import NotFound

router = APIRouter(prefix="/api/v1", tags=["history"])
log = structlog.get_logger("headway")


@dataclass(frozen=True, slots=True)
class EventLine:
    """One line of the audit. `wall_s` is seconds since the epoch, `time` the same for people."""

    id: int
    code: str
    holder: str | None
    facts: dict[str, Any]
    wall_s: float
    time: str
    sentence: str


# A finished request as the gate logged it; `doc` is its line.
RequestRow = TypedDict(
    "RequestRow",
    {
        "id": int,
        "source": str,
        "offset": int,
        "service": str | None,
        "class": str | None,
        "started": float | None,
        "status": int | None,
        "waited_s": float | None,
        "failed": bool,
        "doc": dict[str, Any],
    },
    total=False,
)
RowId = Annotated[int, Query(ge=0, le=NEWEST, description="the last id already known")]
Before = Annotated[int | None, Query(ge=0, le=NEWEST, description="only rows with a lower id, the last ones")]
Last = Annotated[int | None, Query(ge=1, le=1000, description="so many of the last rows")]
Failed = Annotated[bool, Query(description="only what failed")]


@router.get("/history", response_model=tuple[EventLine, ...])
async def history(
    request: Request,
    parts: Annotated[Parts, Depends(parts_of)],
    code: Annotated[
        list[str], Query(max_length=100, default_factory=list, description="only events of these codes")
    ],
    target: str | None = None,
    after: RowId = 0,
    before: Before = None,
    limit: Limit = 200,
    last: Last = None,
) -> Response:
    """Lines of the audit, oldest first, each with its sentence: those with an id above `after`, or the `last` ones."""
    holder = _holder(parts, target)
    asked = replace(_slice(after, before, limit, last), about=holder, codes=_codes(code))
    rows = await parts.reader.events(asked)
    if not rows and holder is not None and not await _was(parts, holder):
        raise NotFound(unknown(target or ""), target=target)
    lines = tuple(_line(row, parts.hub.snapshot) for row in rows)
    return answer(tuple[EventLine, ...], lines, headers=_more(request, rows, asked))


@router.get("/requests", response_model=list[RequestRow])
async def requests(
    request: Request,
    parts: Annotated[Parts, Depends(parts_of)],
    service: str | None = None,
    after: RowId = 0,
    before: Before = None,
    limit: Limit = 200,
    last: Last = None,
    failed: Failed = False,
) -> Response:
    """Finished requests as the gate logged them, oldest first: times and counts, never prompts.

    `failed`: those that were not answered well, to the last byte.
    """
    asked = replace(_slice(after, before, limit, last), about=service or None, failed=failed)
    rows = await parts.reader.requests(asked)
    if service and not rows and not await _is_gone(parts, service):
        find(parts.hub.snapshot, service, "service")
    return answer(list[RequestRow], rows, headers=_more(request, rows, asked))


@router.get("/swaps", response_model=tuple[SwapRow, ...])
async def swaps(
    request: Request,
    parts: Annotated[Parts, Depends(parts_of)],
    service: str | None = None,
    after: RowId = 0,
    before: Before = None,
    limit: Limit = 200,
    last: Last = None,
    failed: Failed = False,
) -> Response:
    """Moves of model servers that are over, oldest first: from which form to which, how long it took, and why."""
    about = _holder(parts, service)
    asked = replace(_slice(after, before, limit, last), about=about, failed=failed)
    rows = await parts.reader.swaps(asked)
    moves = tuple(filter(None, (_move(row, parts.hub.snapshot) for row in rows)))
    return answer(tuple[SwapRow, ...], moves, headers=_more(request, rows, asked))


@router.get("/days", response_model=tuple[DayRow, ...])
async def days(
    parts: Annotated[Parts, Depends(parts_of)],
    last: Annotated[int, Query(ge=1, le=3660, description="so many of the last days")] = 90,
) -> Response:
    """Sums of each day, oldest first: GPU time given, requests and their waits, moves of model servers."""
    return answer(tuple[DayRow, ...], tuple(await parts.reader.days(last)))


@router.get("/events", response_class=StreamingResponse)
async def events(
    request: Request,
    parts: Annotated[Parts, Depends(parts_of)],
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Server-sent events: the snapshot first, then what changes. Its id is the daemon and its revision."""
    if len(parts.viewers) >= VIEWERS_MAX:
        raise Busy(
            f"{VIEWERS_MAX} viewers read the stream already. Close some, or ask /api/v1/status now and then."
        )
    return Taken(
        stream(parts, last_event_id),
        request.scope["state"][TRANSPORT],
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def _holder(parts: Parts, target: str | None) -> str | None:
    """An id that is long gone still has history: what is unknown now is taken as it was given."""
    if target is None or target in parts.hub.snapshot.holders:
        return target
    found = words.matching(parts.hub.snapshot, target, None)
    return found[0] if len(found) == 1 else target


async def _is_gone(parts: Parts, holder: str) -> bool:
    """Was it there, and is no more?"""
    if holder in parts.hub.snapshot.holders:
        return False
    asked = Slice(about=holder, limit=1)
    return bool(await parts.reader.requests(asked) or await parts.reader.events(asked))


async def _was(parts: Parts, holder: str) -> bool:
    return holder in parts.hub.snapshot.holders or bool(
        await parts.reader.events(Slice(about=holder, limit=1))
    )


def _slice(after: int, before: int | None, limit: int, last: int | None) -> Slice:
    if last is not None and before is None:
        before = NEWEST
    return Slice(after=after, before=before, limit=limit if last is None else last)


def _more(request: Request, rows: list[dict[str, Any]], asked: Slice) -> dict[str, str]:
    if len(rows) < asked.limit:
        return {}
    return link(request, rows[-1]["id"]) if asked.before is None else link_before(request, rows[0]["id"])


def _codes(given: list[str]) -> tuple[str, ...]:
    for code in given:
        if code not in EVENTS:
            raise NotFound(f"no event has the code {shown(code)}. `headway events` shows them.", target=code)
    return tuple(dict.fromkeys(given))


def _line(row: dict[str, Any], snapshot: Snapshot) -> EventLine:
    """A row for people: wall clock instead of seconds since the machine's start, and the sentence."""
    code, facts = row["code"], row["facts"] or {}
    sentence = code.replace(".", " ").replace("_", " ")
    if row["facts"] is None:
        sentence = (
            f"{sentence}; what else was written about this is damaged (row {row['id']} of the table event)"
        )
    else:
        try:
            sentence = told(code, row["holder"], facts, snapshot)
        except Exception:  # a row of another version, say: it must not keep the others from being read
            log.exception("a line of the audit cannot be said", code=code, facts=facts)
    time = datetime.fromtimestamp(row["wall_s"], UTC).isoformat(timespec="milliseconds")
    return EventLine(
        id=row["id"],
        code=code,
        holder=row["holder"],
        facts=facts,
        wall_s=row["wall_s"],
        time=time.replace("+00:00", "Z"),
        sentence=sentence,
    )


def _move(row: dict[str, Any], snapshot: Snapshot) -> SwapRow | None:
    """None: it cannot be said."""
    try:
        return swap_row(row, snapshot)
    except Exception:  # as above
        log.exception("a move cannot be said", id=row["id"], facts=row["facts"])
        return None
