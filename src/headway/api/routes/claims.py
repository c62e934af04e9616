"""Claims: what somebody started by hand is counted from now on, until its process ends."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from headway.api.auth import Peer, needs, peer_of
from headway.api.bodies import Accepted
from headway.api.lease_bodies import ClaimBody, size_of
from headway.api.parts import Parts, answer, find, parts_of
from headway.api.problems import check
from headway.api.routes.leases import row_of
from headway.core import rows, view
from headway.core.commands import Claim, EndLease
from headway.errors import Refused

router = APIRouter(prefix="/api/v1/claims", tags=["claims"])


@router.get("", response_model=tuple[rows.LeaseRow, ...])
async def claims(parts: Annotated[Parts, Depends(parts_of)], ended: bool = False) -> Response:
    """What is counted, then (`ended`) what was until a moment ago."""
    shown = view.lease_rows(parts.hub.snapshot, parts.hub.verdicts, ended=ended)
    return answer(tuple[rows.LeaseRow, ...], tuple(row for row in shown if row.kind == "claim"))


@router.get("/{target}", response_model=rows.LeaseRow)
async def one(target: str, parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """One claim, by its id or its name."""
    return answer(rows.LeaseRow, row_of(parts, find(parts.hub.snapshot, target, "claim")))


@router.post("", status_code=201, response_model=Accepted, openapi_extra=needs("lease"))
async def claim(
    body: ClaimBody, parts: Annotated[Parts, Depends(parts_of)], peer: Annotated[Peer, Depends(peer_of)]
) -> Response:
    """Count a process, or all with the pattern in their command line. `block` keeps jobs and leases off its devices."""
    pids = await asyncio.to_thread(_pids, parts, body)
    pid = body.pid
    reply = await parts.submit(
        Claim(
            name=body.name or parts.processes.called(pids[0]) or "by-hand",
            pid=pid,
            start_ticks=parts.processes.start_ticks(pid) if pid is not None else None,
            match=body.match,
            need_bytes=size_of(body.gpu),
            devices=tuple(body.devices),
            block=body.block,
            purpose=body.purpose,
            by=peer.name,
        )
    )
    check(reply)
    accepted = Accepted.of(reply)
    accepted.facts["pids"] = pids
    return answer(Accepted, accepted, 201, {"Location": f"/api/v1/claims/{reply.holder}"})


@router.delete("/{target}", status_code=202, response_model=Accepted, openapi_extra=needs("lease"))
async def release(
    target: str, parts: Annotated[Parts, Depends(parts_of)], peer: Annotated[Peer, Depends(peer_of)]
) -> Response:
    """Count it no longer. What its processes hold is a stranger's memory then."""
    hid = find(parts.hub.snapshot, target, "claim")
    reply = await parts.submit(EndLease(target=hid, by=peer.name))
    check(reply)
    return answer(Accepted, Accepted.of(reply, hid), 202, {"Location": f"/api/v1/claims/{hid}"})


def _pids(parts: Parts, body: ClaimBody) -> list[int]:
    """The living processes that are meant, sorted; not the one that asks, whose own words hold the pattern.

    Raises:
        Refused: there are none.
    """
    if body.pid is not None:
        if parts.processes.start_ticks(body.pid) is None:
            raise Refused("no_such_process", f"no process {body.pid} lives on this machine.", pid=body.pid)
        return [body.pid]
    assert body.match is not None
    found = set(parts.processes.matching(body.match))
    if body.asker is not None:
        found -= parts.processes.above(body.asker)
    if not found:
        raise Refused(
            "no_such_process",
            f"no living process has {body.match!r} in its command line. `ps -ef` shows them.",
            match=body.match,
        )
    return sorted(found)
