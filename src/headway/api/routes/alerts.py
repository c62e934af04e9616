"""Whether alerts arrive."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from headway.api.parts import Parts, answer, parts_of
from headway.ports import AlertSent

router = APIRouter(prefix="/api/v1/alerts", tags=["alerts"])


@router.post("/test", response_model=list[AlertSent])
async def test(parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """Tell a test alert by every way of [alerts], and say what became of each. None are configured: an empty list."""
    return answer(list[AlertSent], await parts.test_alert())
