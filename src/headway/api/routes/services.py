"""Model servers: what they are doing, and holding them."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request, Response

from headway.api.auth import Peer, peer_of
from headway.api.bodies import Accepted, ReasonBody
from headway.api.pages import Cursor, Limit, link, page
from headway.api.parts import Parts, answer, find, parts_of
from headway.api.routes.holders import wish
from headway.core import rows, view
from headway.core.model import Service

ServiceVerb = Literal["wake", "sleep", "start", "stop", "hold", "release", "kill"]

router = APIRouter(prefix="/api/v1/services", tags=["services"])


@router.get("", response_model=tuple[rows.ServiceRow, ...])
async def services(
    request: Request, parts: Annotated[Parts, Depends(parts_of)], after: Cursor = None, limit: Limit = 200
) -> Response:
    """Every service. The header Link leads to the next page."""
    found = view.services(parts.hub.snapshot, parts.hub.verdicts)
    shown, more = page(found, lambda row: row.id, after, limit)
    return answer(tuple[rows.ServiceRow, ...], shown, headers=link(request, more))


@router.get("/{name}", response_model=rows.ServiceDetail)
async def service(name: str, parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """One of them, with what the gap policy makes of it."""
    snapshot = parts.hub.snapshot
    found = snapshot.holders[find(snapshot, name, "service")]
    assert isinstance(found, Service)
    return answer(rows.ServiceDetail, view.service_detail(found, snapshot, parts.hub.verdicts))


@router.post("/{name}/{verb}", status_code=202, response_model=Accepted)
async def command(
    name: str,
    verb: ServiceVerb,
    parts: Annotated[Parts, Depends(parts_of)],
    peer: Annotated[Peer, Depends(peer_of)],
    body: ReasonBody | None = None,
) -> Response:
    """`wake` and `start` bring it, as a request would; `sleep` puts it aside until a request or one of these.

    `hold` keeps it aside, and `stop` and `kill` end its process, until `release` or one of these: requests for it are
    refused meanwhile.
    """
    return await wish(parts, find(parts.hub.snapshot, name, "service"), verb, peer, body)
