"""Any job, service or lease by its id or name: its row, its log, the verbs. What people type says not which it is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from headway.api.auth import Peer, peer_of, require_admin
from headway.api.bodies import Accepted, ReasonBody
from headway.api.parts import Parts, answer, find, parts_of
from headway.api.problems import check
from headway.core import rows, view
from headway.core.commands import SetWish, Verb
from headway.core.model import HolderId, Lease
from headway.errors import Refused

router = APIRouter(prefix="/api/v1/holders", tags=["holders"])

Any_ = rows.JobRow | rows.ServiceRow | rows.LeaseRow | rows.Row
NOUNS = {"job": "jobs", "service": "services", "lease": "leases", "claim": "claims"}


@dataclass(frozen=True, slots=True)
class LogTail:
    """The last lines of a holder's present or last run. `path` is where the rest is, on this machine."""

    id: str
    run: str | None
    state: str
    lines: list[str]
    path: str | None = None


@router.get("/{target}", response_model=Any_)
async def holder(target: str, parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    snapshot = parts.hub.snapshot
    row = view.row(find(snapshot, target), snapshot, parts.hub.verdicts)
    return answer(type(row), row)


@router.get("/{target}/log", response_model=LogTail)
async def log(
    target: str,
    parts: Annotated[Parts, Depends(parts_of)],
    peer: Annotated[Peer, Depends(require_admin)],
    lines: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> Response:
    """The end of its log. Output may hold anything, so only the daemon's user reads it."""
    return await log_of(parts, find(parts.hub.snapshot, target), lines)


@router.post("/{target}/{verb}", status_code=202, response_model=Accepted)
async def command(
    target: str,
    verb: Verb,
    parts: Annotated[Parts, Depends(parts_of)],
    peer: Annotated[Peer, Depends(peer_of)],
    body: ReasonBody | None = None,
) -> Response:
    """Change what is wished for it. Accepted means saved; its state says when it is done."""
    return await wish(parts, find(parts.hub.snapshot, target), verb, peer, body)


async def log_of(parts: Parts, hid: HolderId, lines: int) -> Response:
    snapshot = parts.hub.snapshot
    found = snapshot.holders[hid]
    if isinstance(found, Lease):
        raise Refused(
            "no_log", f"{hid} is a lease: its program prints where it was started, and we never see it."
        )
    state = words_of(parts, hid)
    if found.run is None:
        return answer(LogTail, LogTail(hid, None, state, []))
    tail = await asyncio.to_thread(parts.tail, found.run.id, lines)
    return answer(LogTail, LogTail(hid, found.run.id, state, tail, parts.log_path(found.run.id)))


def words_of(parts: Parts, hid: HolderId) -> str:
    row = view.row(hid, parts.hub.snapshot, parts.hub.verdicts)
    return row.state if isinstance(row, rows.Row) else "unknown"


async def wish(parts: Parts, hid: HolderId, verb: Verb, peer: Peer, body: ReasonBody | None) -> Response:
    """One verb on one holder, answered 202 with the place to look.

    Raises:
        Refused: the loop did not accept it.
    """
    said = body or ReasonBody.model_validate({})
    reply = await parts.submit(
        SetWish(
            target=hid,
            verb=verb,
            by=peer.name,
            reason=said.reason,
            anyway=said.anyway,
            at_saved_point=said.at_saved_point,
        )
    )
    check(reply)
    holder = parts.hub.snapshot.holders.get(hid)
    noun = NOUNS.get(holder.kind, "holders") if holder is not None else "holders"
    return answer(Accepted, Accepted.of(reply, hid), 202, {"Location": f"/api/v1/{noun}/{hid}"})
