"""The queue's order, the mode, and whether only models run."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from headway.api.auth import Peer, peer_of
from headway.api.bodies import Accepted, ModeBody, MoveBody, ProdOnlyBody
from headway.api.parts import Parts, answer, find, parts_of
from headway.api.problems import check
from headway.core import rows, view
from headway.core.commands import MoveJob, SetMode, SetProdOnly

router = APIRouter(prefix="/api/v1", tags=["queue"])


@router.get("/queue", response_model=rows.JobPage)
async def queue(parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """Who is next: the first 200 queued jobs."""
    shown = view.jobs(parts.hub.snapshot, parts.hub.verdicts, states=frozenset({"queued"}), limit=200)
    return answer(rows.JobPage, shown, headers={"ETag": f'"{parts.hub.revision}"'})


@router.post("/queue/move", status_code=202, response_model=Accepted)
async def move(
    body: MoveBody, parts: Annotated[Parts, Depends(parts_of)], peer: Annotated[Peer, Depends(peer_of)]
) -> Response:
    """Put one queued job to the top, the bottom, or next to another."""
    snapshot = parts.hub.snapshot
    target = find(snapshot, body.target, "job")
    other = find(snapshot, body.other, "job") if body.other else None
    reply = await parts.submit(MoveJob(target=target, where=body.where, other=other, by=peer.name))
    check(reply)
    return answer(Accepted, Accepted.of(reply, target), 202, {"Location": f"/api/v1/jobs/{target}"})


@router.post("/mode", status_code=202, response_model=Accepted)
async def mode(
    body: ModeBody, parts: Annotated[Parts, Depends(parts_of)], peer: Annotated[Peer, Depends(peer_of)]
) -> Response:
    """`shadow` watches and says what it would do; `live` does it."""
    reply = await parts.submit(SetMode(mode=body.mode, by=peer.name))
    check(reply)
    return answer(Accepted, Accepted.of(reply), 202, {"Location": "/api/v1/status"})


@router.post("/prod-only", status_code=202, response_model=Accepted)
async def prod_only(
    body: ProdOnlyBody, parts: Annotated[Parts, Depends(parts_of)], peer: Annotated[Peer, Depends(peer_of)]
) -> Response:
    """On: every job steps aside, sleeping services are woken, leases run to their end, and nothing else starts."""
    reply = await parts.submit(SetProdOnly(on=body.on, by=peer.name))
    check(reply)
    return answer(Accepted, Accepted.of(reply), 202, {"Location": "/api/v1/status"})
