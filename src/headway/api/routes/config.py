"""The config file, taken into the running daemon."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from headway.api.auth import Peer, needs, peer_of
from headway.api.bodies import ApplyBody
from headway.api.parts import Parts, answer, parts_of
from headway.core.configs import Applied
from headway.errors import NotFound

router = APIRouter(prefix="/api/v1/config", tags=["config"])


@router.post("/apply", response_model=Applied, openapi_extra=needs("admin"))
async def apply(
    parts: Annotated[Parts, Depends(parts_of)],
    peer: Annotated[Peer, Depends(peer_of)],
    body: ApplyBody | None = None,
) -> Response:
    """Take what the config file says now, whole or not at all.

    422 `config_invalid` with every problem, 409 `in_use` for what is gone from it and in use: both change nothing.
    """
    if parts.config is None:
        raise NotFound("this daemon has no config file.")
    drain, dry_run = (body.drain, body.dry_run) if body else (False, False)
    return answer(Applied, await parts.config.apply(drain, peer.name, dry_run))
