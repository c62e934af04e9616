"""Model servers that Headway does not manage."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Response

from headway.api.parts import Parts, answer, parts_of
from headway.core.model import Service
from headway.ports import FoundServer

router = APIRouter(prefix="/api/v1/servers", tags=["services"])


@router.get("", response_model=list[FoundServer])
async def servers(parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """Those found on this machine by their routes, at most a minute ago. Nothing is asked that wakes a model."""
    ours = {
        port
        for one in parts.hub.snapshot.holders.values()
        if isinstance(one, Service)
        for port in _ports(one)
    }
    found = await parts.others.servers(ours) if parts.others is not None else []
    return answer(list[FoundServer], found)


def _ports(service: Service) -> set[int]:
    """Where that one answers, or would."""
    found = (
        urlsplit(one).port for one in (service.upstream, service.spec.upstream) if one and "{" not in one
    )
    return {port for port in found if port is not None}
