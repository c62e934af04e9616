"""Any job, service or lease by its id or name: its row, its log, the verbs. What people type says not which it is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from headway.api.auth import Peer, needs, peer_of
from headway.api.bodies import Accepted, ReasonBody
from headway.api.pages import Limit, link
from headway.api.parts import Parts, answer, find, parts_of
from headway.api.problems import check
from headway.core import rows, view
from headway.core.commands import SetWish, Verb
from headway.core.model import HolderId, Lease
from headway.errors import NotFound, Refused

router = APIRouter(prefix="/api/v1/holders", tags=["holders"])

Any_ = rows.JobRow | rows.ServiceDetail | rows.LeaseRow | rows.Row
NOUNS = {"job": "jobs", "service": "services", "lease": "leases", "claim": "claims"}


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of a holder. `state`: living, ended, lost (nobody knows how it ended), never ran, or forgotten."""

    run: str
    number: int
    state: str
    ran_s: float | None  # of a living one up to now
    exit_code: int | None = None
    error: str | None = None  # why its command could not be executed
    peak_host_bytes: int | None = None
    pid: int | None = None


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
    row = view.detail(find(snapshot, target), snapshot, parts.hub.verdicts)
    return answer(type(row), row)


@router.get("/{target}/log", response_model=LogTail, openapi_extra=needs("read"))
async def log(
    target: str,
    parts: Annotated[Parts, Depends(parts_of)],
    lines: Annotated[int, Query(ge=1, le=10_000)] = 100,
    run: Annotated[int | None, Query(ge=1, le=10**9)] = None,
) -> Response:
    """The end of its log, of the last run or of number `run`. Output may hold anything: it needs the scope `read`."""
    return await log_of(parts, find(parts.hub.snapshot, target), lines, run)


@router.get("/{target}/runs", response_model=list[RunRow])
async def runs(
    request: Request,
    target: str,
    parts: Annotated[Parts, Depends(parts_of)],
    after: Annotated[int | None, Query(ge=1, le=10**9, description="number of the last run shown")] = None,
    limit: Limit = 200,
) -> Response:
    """Its runs, the newest first. Of old ones the files are gone, see `state`."""
    holder = parts.hub.snapshot.holders[find(parts.hub.snapshot, target)]
    newest = holder.runs if after is None else min(holder.runs, after - 1)
    oldest = max(1, newest - limit + 1)
    numbers = range(newest, oldest - 1, -1)
    found = await asyncio.to_thread(lambda: [_run(parts, holder.id, number) for number in numbers])
    return answer(list[RunRow], found, headers=link(request, oldest if oldest > 1 else None))


def _run(parts: Parts, hid: HolderId, number: int) -> RunRow:
    run_id = f"{hid}.{number}"
    state = parts.run(run_id)
    if state is None:
        return RunRow(run_id, number, "forgotten", None)
    lives, exit_ = state.lock_held and not state.gone, state.exit
    end_s = parts.clock.now_s() if lives else exit_.at_s if exit_ else None
    began_s = state.started_s
    return RunRow(
        run=run_id,
        number=number,
        state="living" if lives else "ended" if exit_ else "lost" if state.ran else "never ran",
        ran_s=None if began_s is None or end_s is None else max(0.0, end_s - began_s),
        exit_code=exit_.code if exit_ else None,
        error=state.error,
        peak_host_bytes=exit_.peak_host_bytes if exit_ else None,
        pid=state.pid if lives else None,
    )


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


async def log_of(parts: Parts, hid: HolderId, lines: int, number: int | None = None) -> Response:
    """Raises: NotFound, for a run that it never had; Refused, for what prints elsewhere."""
    found, state = parts.hub.snapshot.holders[hid], words_of(parts, hid)
    if isinstance(found, Lease):
        raise Refused(
            "no_log", f"{hid} is a lease: its program prints where it was started, and we never see it."
        )
    run_id = found.run.id if found.run else None
    if number is not None:
        if number > found.runs:
            raise NotFound(
                f"{hid} has had {found.runs} runs, so there is no number {number}. `headway show {hid}` lists them.",
                target=hid,
                runs=found.runs,
            )
        run_id = f"{hid}.{number}"
    if run_id is None:
        return answer(LogTail, LogTail(hid, None, state, []))
    tail = await asyncio.to_thread(parts.tail, run_id, lines)
    return answer(LogTail, LogTail(hid, run_id, state, tail, parts.log_path(run_id)))


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
