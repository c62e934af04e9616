"""The queue's order, the mode, and whether only models run."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request, Response

from headway.api.auth import Peer, peer_of
from headway.api.bodies import Accepted, ModeBody, MoveBody, ProdOnlyBody
from headway.api.pages import Cursor, Limit, Line, link, matches
from headway.api.parts import Parts, answer, find, parts_of
from headway.api.problems import check
from headway.core import rows, view
from headway.core.commands import MoveJob, SetMode, SetProdOnly
from headway.core.model import Job, Snapshot
from headway.core.phrases import refusal
from headway.errors import Refused

router = APIRouter(prefix="/api/v1", tags=["queue"])


@router.get("/queue", response_model=rows.JobPage)
async def queue(
    request: Request, parts: Annotated[Parts, Depends(parts_of)], after: Cursor = None, limit: Limit = 200
) -> Response:
    """Who is next. The ETag is the order's: it changes with who is in line and where, and with nothing else."""
    snapshot = parts.hub.snapshot
    shown = view.jobs(snapshot, parts.hub.verdicts, states=frozenset({"queued"}), after=after, limit=limit)
    headers = {"ETag": parts.order.of(snapshot.queue), **link(request, shown.next)}
    return answer(rows.JobPage, shown, headers=headers)


@router.post("/queue/move", status_code=202, response_model=Accepted)
async def move(
    body: MoveBody,
    parts: Annotated[Parts, Depends(parts_of)],
    peer: Annotated[Peer, Depends(peer_of)],
    if_match: Annotated[str | None, Header(description="the ETag of the queue as you saw it")] = None,
) -> Response:
    """Put one queued job to the top, the bottom, or next to another; with If-Match only in the order that was seen."""
    snapshot = parts.hub.snapshot
    target = find(snapshot, body.target, "job")
    other = find(snapshot, body.other, "job") if body.other else None
    if if_match is not None and not matches(if_match, parts.order.of(snapshot.queue)):
        raise Refused("order_changed", refusal("order_changed", {}), target=target)
    seen = None if if_match is None else _lane(snapshot, target)
    reply = await parts.submit(MoveJob(target=target, where=body.where, other=other, seen=seen, by=peer.name))
    check(reply)
    return answer(Accepted, Accepted.of(reply, target), 202, {"Location": f"/api/v1/jobs/{target}"})


def _lane(snapshot: Snapshot, target: str) -> Line:
    job = snapshot.holders[target]
    return snapshot.queue.get(job.lane, ()) if isinstance(job, Job) else ()


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
