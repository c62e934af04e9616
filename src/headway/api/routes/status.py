"""The whole board, and why anything is as it is."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from headway.api.parts import Parts, answer, find, parts_of
from headway.core import rows, view

router = APIRouter(prefix="/api/v1", tags=["status"])


@router.get("/status", response_model=rows.Overview)
async def status(
    parts: Annotated[Parts, Depends(parts_of)], queued: Annotated[int, Query(ge=0, le=1000)] = 50
) -> Response:
    """Mode, devices with their holders, services, running jobs, and the first `queued` of the queue."""
    return answer(
        rows.Overview, parts.overview(queued), headers={"ETag": f'"{parts.life}.{parts.hub.revision}"'}
    )


@router.get("/why/{target}", response_model=rows.Why)
async def why(target: str, parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """One sentence with numbers on why a job or a service is, or is not, running, and what would help."""
    snapshot = parts.hub.snapshot
    shown = view.explain(find(snapshot, target), snapshot, parts.hub.verdicts)
    return answer(rows.Why, shown)
