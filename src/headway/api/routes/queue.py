"""The queue's order, and the mode."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from headway.api.auth import Peer, peer_of
from headway.api.bodies import Accepted, ModeBody, MoveBody
from headway.api.parts import Parts, answer, find, parts_of
from headway.api.problems import check
from headway.core import rows, view
from headway.core.commands import MoveJob, SetMode
from headway.core.eta import Outlook

router = APIRouter(prefix="/api/v1", tags=["queue"])


@router.get("/queue", response_model=rows.JobPage)
async def queue(parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """Who is next: the first 200 queued jobs."""
    shown = view.jobs(parts.hub.snapshot, parts.hub.verdicts, states=frozenset({"queued"}), limit=200)
    return answer(rows.JobPage, shown, headers={"ETag": f'"{parts.hub.revision}"'})


@router.get("/outlook", response_model=Outlook)
async def outlook(parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """When all that runs and waits would be over, the device hours that takes, and who is next."""
    return answer(Outlook, view.outlook(parts.hub.snapshot, parts.hub.verdicts))


@router.post("/queue/move", status_code=202, response_model=Accepted)
async def move(
    body: MoveBody, parts: Annotated[Parts, Depends(parts_of)], peer: Annotated[Peer, Depends(peer_of)]
) -> Response:
    """Put one queued job to the top, the bottom, or next to another."""
    snapshot = parts.hub.snapshot
    named = [body.target] if isinstance(body.target, str) else body.target
    targets = [find(snapshot, one, "job") for one in named]
    other = find(snapshot, body.other, "job") if body.other else None
    in_turn = (
        targets[::-1] if body.where in ("top", "after") else targets
    )  # so that the first named comes first
    moves = [MoveJob(target=one, where=body.where, other=other, by=peer.name) for one in in_turn]
    for reply in (replies := await asyncio.gather(*map(parts.submit, moves))):
        check(reply)
    return answer(
        Accepted, Accepted.of(replies[0], targets[0]), 202, {"Location": f"/api/v1/jobs/{targets[0]}"}
    )


@router.post("/mode", status_code=202, response_model=Accepted)
async def mode(
    body: ModeBody, parts: Annotated[Parts, Depends(parts_of)], peer: Annotated[Peer, Depends(peer_of)]
) -> Response:
    """`shadow` watches and says what it would do; `live` does it."""
    reply = await parts.submit(SetMode(mode=body.mode, by=peer.name))
    check(reply)
    return answer(Accepted, Accepted.of(reply), 202, {"Location": "/api/v1/status"})
