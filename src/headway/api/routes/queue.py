"""The queue's order, the mode, and whether only models run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request, Response

from headway.api.auth import Peer, peer_of
from headway.api.bodies import Accepted, ModeBody, MoveBody, ProdOnlyBody
from headway.api.pages import Cursor, IfMatch, Limit, Line, link, matches
from headway.api.parts import Parts, answer, find, parts_of
from headway.api.problems import check
from headway.core import rows, view
from headway.core.commands import HoldQueue, MoveJob, SetMode, SetProdOnly
from headway.core.eta import Outlook
from headway.core.model import Job, Snapshot
from headway.core.phrases import refusal
from headway.core.timeline import Timeline, timeline
from headway.errors import Refused

router = APIRouter(prefix="/api/v1", tags=["queue"])
ORDER_SHOWN = 200  # of a line that has changed


@router.get("/queue", response_model=rows.JobPage)
async def queue(
    request: Request, parts: Annotated[Parts, Depends(parts_of)], after: Cursor = None, limit: Limit = 200
) -> Response:
    """Who is next. The ETag is the order's: it changes with who is in line and where, and with nothing else."""
    snapshot = parts.hub.snapshot
    shown = view.jobs(snapshot, parts.hub.verdicts, states=frozenset({"queued"}), after=after, limit=limit)
    headers = {"ETag": parts.order.of(snapshot.queue), **link(request, shown.next)}
    return answer(rows.JobPage, shown, headers=headers)


@router.get("/outlook", response_model=Outlook)
async def outlook(parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """When all that runs and waits would be over, the device hours that takes, and who is next."""
    return answer(Outlook, view.outlook(parts.hub.snapshot, parts.hub.verdicts))


@router.get("/timeline", response_model=Timeline)
async def hours(parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """The next hours as expected: when what runs is over, who begins then, and the windows to come."""
    return answer(Timeline, timeline(parts.hub.snapshot, parts.hub.verdicts))


@router.post("/queue/move", status_code=202, response_model=Accepted)
async def move(
    body: MoveBody,
    parts: Annotated[Parts, Depends(parts_of)],
    peer: Annotated[Peer, Depends(peer_of)],
    if_match: IfMatch = None,
) -> Response:
    """Put queued jobs to the top, the bottom, or next to another, all or none; with If-Match only in the order seen."""
    snapshot = parts.hub.snapshot
    named = [body.target] if isinstance(body.target, str) else body.target
    targets = [find(snapshot, one, "job") for one in named]
    other = find(snapshot, body.other, "job") if body.other else None
    if if_match is not None and not matches(if_match, parts.order.of(snapshot.queue)):
        raise _changed(parts, targets[0])
    seen = None if if_match is None else _lanes(snapshot, targets)
    one = MoveJob(
        target=targets[0],
        behind=tuple(targets[1:]),
        where=body.where,
        other=other,
        seen=seen,
        by=peer.name,
    )
    reply = await parts.submit(one)
    if reply.code == "order_changed":
        raise _changed(parts, targets[0])
    check(reply)
    first = targets[0]
    return answer(Accepted, Accepted.of(reply, first), 202, {"Location": f"/api/v1/jobs/{first}"})


@router.post("/queue/{verb}", status_code=202, response_model=Accepted)
async def hold(
    verb: Literal["hold", "release"],
    parts: Annotated[Parts, Depends(parts_of)],
    peer: Annotated[Peer, Depends(peer_of)],
) -> Response:
    """Hold all of it: no job starts; what runs goes on, and models are woken. Or release it, from a crash loop too."""
    reply = await parts.submit(HoldQueue(on=verb == "hold", by=peer.name))
    check(reply)
    return answer(Accepted, Accepted.of(reply), 202, {"Location": "/api/v1/status"})


def _changed(parts: Parts, target: str) -> Refused:
    """With the order as it is now, and its mark: what the next try needs."""
    snapshot = parts.hub.snapshot
    order = [hid for _, hid in _lanes(snapshot, [target])[:ORDER_SHOWN]]
    etag = parts.order.of(snapshot.queue)
    return Refused("order_changed", refusal("order_changed", {}), target=target, etag=etag, order=order)


def _lanes(snapshot: Snapshot, targets: Sequence[str]) -> Line:
    """Of these jobs, one behind the other."""
    jobs = [job for job in map(snapshot.holders.__getitem__, targets) if isinstance(job, Job)]
    lanes = dict.fromkeys(job.lane for job in jobs)
    return tuple(entry for lane in lanes for entry in snapshot.queue.get(lane, ()))


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
