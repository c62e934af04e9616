"""Windows: those that are open and those that come, opening one by hand, and ending one before its time."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from headway.api.auth import Peer, peer_of
from headway.api.bodies import Accepted, WindowBody
from headway.api.parts import Parts, answer, find, parts_of
from headway.api.problems import check
from headway.core import rows, view
from headway.core.commands import StartWindow, StopWindow

router = APIRouter(prefix="/api/v1/windows", tags=["windows"])


@router.get("", response_model=tuple[rows.WindowRow, ...])
async def windows(parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """Open ones and the next turn of each in the config, by their time."""
    return answer(tuple[rows.WindowRow, ...], view.window_rows(parts.hub.snapshot))


@router.post("", status_code=202, response_model=Accepted)
async def start(
    body: WindowBody, parts: Annotated[Parts, Depends(parts_of)], peer: Annotated[Peer, Depends(peer_of)]
) -> Response:
    """Open one now. `id` is its name, for ending it before its time."""
    services = tuple(find(parts.hub.snapshot, name, "service") for name in body.services)
    reply = await parts.submit(
        StartWindow(
            kind=body.kind, for_s=body.for_s, services=services, wall_s=parts.clock.wall_s(), by=peer.name
        )
    )
    check(reply)
    accepted = replace(Accepted.of(reply), id=str(reply.facts.get("window")))
    return answer(Accepted, accepted, 202, {"Location": "/api/v1/windows"})


@router.post("/{name}/stop", status_code=202, response_model=Accepted)
async def stop(
    name: str, parts: Annotated[Parts, Depends(parts_of)], peer: Annotated[Peer, Depends(peer_of)]
) -> Response:
    """End an open one now. One of the config comes again at its next time."""
    reply = await parts.submit(StopWindow(target=name, by=peer.name))
    check(reply)
    return answer(Accepted, replace(Accepted.of(reply), id=name), 202, {"Location": "/api/v1/windows"})
