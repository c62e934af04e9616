"""Requests that wait at the gate, for people."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from headway.api.parts import Parts, answer, find, parts_of
from headway.core.model import Service
from headway.core.reasons import waiting
from headway.core.waiting_rows import WaitingPage, joined, waiting_page

router = APIRouter(prefix="/api/v1/waiting", tags=["status"])


@router.get("", response_model=WaitingPage)
async def requests(parts: Annotated[Parts, Depends(parts_of)], service: str | None = None) -> Response:
    """Requests that the gate holds, of each service the first 20 in line: since when, how much longer, and why."""
    snapshot = parts.hub.snapshot
    wanted = snapshot.services if service is None else (find(snapshot, service, "service"),)
    busy = [sid for sid in wanted if (x := snapshot.service(sid)) is not None and waiting(x)]
    held = await asyncio.gather(*(parts.held(sid) for sid in busy))
    now, verdicts = parts.hub.snapshot, parts.hub.verdicts
    pages = (
        waiting_page(found, entries, now, verdicts)
        for sid, entries in zip(busy, held, strict=True)
        if isinstance(found := now.holders.get(sid), Service)
    )
    return answer(WaitingPage, joined(pages))
