"""The config: what is in force, and its file, taken into the running daemon."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from headway.api.auth import Peer, needs, peer_of
from headway.api.bodies import ApplyBody
from headway.api.pages import IfMatch, matches
from headway.api.parts import Parts, answer, parts_of
from headway.core.configs import Applied, InForce
from headway.errors import NotFound

router = APIRouter(prefix="/api/v1/config", tags=["config"])


@router.get("", response_model=InForce, openapi_extra=needs("read"))
async def config(parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """What is in force. Values of `env` and `vars`, and the path of a webhook, are hidden. The ETag is for `apply`."""
    found = parts.in_force()
    return answer(InForce, found, headers={"ETag": found.etag})


@router.post("/apply", response_model=Applied, openapi_extra=needs("admin"))
async def apply(
    parts: Annotated[Parts, Depends(parts_of)],
    peer: Annotated[Peer, Depends(peer_of)],
    body: ApplyBody | None = None,
    if_match: IfMatch = None,
) -> Response:
    """Take what the config file says now, whole or not at all; with If-Match only over the config that was seen.

    422 `config_invalid` with every problem, 409 `in_use` for what is gone from it and in use, 412 `config_changed`:
    each changes nothing.
    """
    if parts.config is None:
        raise NotFound("this daemon has no config file.")
    drain, dry_run = (body.drain, body.dry_run) if body else (False, False)
    seen = None if if_match is None else partial(matches, if_match)
    done = await parts.config.apply(drain, peer.name, dry_run, seen)
    return answer(Applied, done, headers={"ETag": parts.in_force().etag})
