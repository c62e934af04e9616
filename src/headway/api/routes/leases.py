"""Leases of programs that Headway did not start: ask, wait for the grant, renew, give back."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from headway.api.auth import Peer, needs, peer_of
from headway.api.bodies import Accepted
from headway.api.lease_bodies import AskBody, RenewBody, size_of
from headway.api.parts import Parts, answer, find, parts_of
from headway.api.problems import check
from headway.core import rows, view
from headway.core.commands import AskLease, EndLease, RenewLease
from headway.core.leases import mark, spec_of
from headway.core.model import HolderId, Lease
from headway.errors import Refused
from headway.ports import Root

router = APIRouter(prefix="/api/v1/leases", tags=["leases"])
NOBODY = 0  # no pid: only the mark is looked for
LOOK_S = 1.0  # how long one look lasts: a stopping server answers within it


@router.get("", response_model=tuple[rows.LeaseRow, ...])
async def leases(parts: Annotated[Parts, Depends(parts_of)], ended: bool = False) -> Response:
    """Those that hold devices, then those that wait, in line, then (`ended`) those that ended a moment ago."""
    shown = view.lease_rows(parts.hub.snapshot, parts.hub.verdicts, ended=ended)
    return answer(tuple[rows.LeaseRow, ...], tuple(row for row in shown if row.kind == "lease"))


@router.get("/{target}", response_model=rows.LeaseRow)
async def lease(
    target: str,
    parts: Annotated[Parts, Depends(parts_of)],
    known: str | None = None,
    wait_s: Annotated[float, Query(ge=0, le=25, allow_inf_nan=False)] = 0.0,
) -> Response:
    """One lease, by its id or its name.

    With `wait_s` it answers when the lease is in another state than `known`, after that time at the latest.
    """
    hid = find(parts.hub.snapshot, target, "lease")
    row = row_of(parts, hid)
    until_s = parts.clock.now_s() + wait_s
    while row.state == known and not parts.closing[0] and (left_s := until_s - parts.clock.now_s()) > 0:
        await parts.hub.wait(parts.hub.revision, min(LOOK_S, left_s))
        find(parts.hub.snapshot, hid, "lease")  # it may have been forgotten since
        row = row_of(parts, hid)
    return answer(rows.LeaseRow, row)


@router.post("", status_code=202, response_model=Accepted, openapi_extra=needs("lease"))
async def ask(
    body: AskBody, parts: Annotated[Parts, Depends(parts_of)], peer: Annotated[Peer, Depends(peer_of)]
) -> Response:
    """Stand in line for devices. The lease's state says when it is granted; the same `ask_key` finds the same lease."""
    need_bytes = size_of(body.gpu)
    ticks = None
    if body.pid is not None and (ticks := parts.processes.start_ticks(body.pid)) is None:
        raise Refused("no_such_process", f"no process {body.pid} lives on this machine.", pid=body.pid)
    count = body.gpus if body.gpus is not None else max(1, len(body.devices))
    if body.devices and count > len(body.devices):
        raise Refused("invalid", f"it needs {count} devices, and `devices` names {len(body.devices)}.")
    default_s = parts.hub.snapshot.policy.background_max_wait_s
    waits_s = default_s if body.wait_s is None else None if body.wait_s == "forever" else body.wait_s
    reply = await parts.submit(
        AskLease(
            spec=spec_of(body.name, parts.lease_moves, need_bytes, count, tuple(body.devices)),
            pid=body.pid,
            start_ticks=ticks,
            priority=body.priority,
            preemptible=body.preemptible,
            wait_limit_s=waits_s,
            ttl_s=body.ttl_s,
            ask_key=body.ask_key or secrets.token_hex(16),
            purpose=body.purpose,
            by=peer.name,
        )
    )
    check(reply)
    return answer(Accepted, Accepted.of(reply), 202, {"Location": f"/api/v1/leases/{reply.holder}"})


@router.post("/{target}/renew", response_model=Accepted, openapi_extra=needs("lease"))
async def renew(
    target: str,
    parts: Annotated[Parts, Depends(parts_of)],
    peer: Annotated[Peer, Depends(peer_of)],
    body: RenewBody | None = None,
) -> Response:
    """Its time begins anew. 410 when that is too late: somebody else may hold the device by now."""
    ttl_s = body.ttl_s if body is not None else None
    reply = await parts.submit(RenewLease(target=target, ttl_s=ttl_s, by=peer.name))
    check(reply)
    return answer(Accepted, _dated(parts, Accepted.of(reply, target)))


@router.delete("/{target}", status_code=202, response_model=Accepted, openapi_extra=needs("lease"))
async def release(
    target: str,
    parts: Annotated[Parts, Depends(parts_of)],
    peer: Annotated[Peer, Depends(peer_of)],
    if_gone: bool = False,
) -> Response:
    """Give it back, or its place in line up. What it held is handed on when it is measured free.

    With `if_gone` only where nothing lives any more that its command started: 409 `still_lives` otherwise.
    """
    hid = find(parts.hub.snapshot, target, "lease")
    found = parts.hub.snapshot.holders[hid]
    if if_gone and isinstance(found, Lease) and found.ended is None:
        root = Root(NOBODY, mark=mark(found))
        if await asyncio.to_thread(parts.processes.alive, root):
            raise Refused("still_lives", f"something that {hid} started lives on: it ends with that.")
    reply = await parts.submit(EndLease(target=hid, by=peer.name))
    check(reply)
    return answer(Accepted, Accepted.of(reply, hid), 202, {"Location": f"/api/v1/leases/{hid}"})


def row_of(parts: Parts, hid: HolderId) -> rows.LeaseRow:
    found = parts.hub.snapshot.holders[hid]
    assert isinstance(found, Lease)
    return view.lease_row(found, parts.hub.snapshot, parts.hub.verdicts)


def _dated(parts: Parts, accepted: Accepted) -> Accepted:
    """When it ends, from now: the daemon's clock says nothing to others."""
    expires_s = accepted.facts.pop("expires_s", None)
    left_s = None if expires_s is None else expires_s - parts.clock.now_s()
    return replace(accepted, facts={**accepted.facts, "expires_in_s": left_s})
