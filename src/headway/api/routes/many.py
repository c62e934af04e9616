"""One verb on one job, on many, or on all: by id, name, tag, state."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Response

from headway.api.auth import Peer, peer_of
from headway.api.bodies import SelectBody
from headway.api.parts import Parts, answer, parts_of
from headway.api.selecting import select
from headway.core.commands import ClearJobs, Command, EditJob, Reply, SetWish, Verb
from headway.core.model import HolderId
from headway.core.phrases import refusal
from headway.errors import Refused

router = APIRouter(prefix="/api/v1/select", tags=["jobs"])


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of the verb for one of them. `code` is "accepted", or why not in a stable word."""

    id: HolderId
    accepted: bool
    code: str
    detail: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Many:
    """All that were meant. `rev`: the revision from which on it is in force; with `dry_run` nothing was asked."""

    results: list[Answered]
    rev: int
    dry_run: bool = False


DRY: dict[int | str, dict[str, Any]] = {
    200: {"model": Many, "description": "With `dry_run`: whom it means; nothing was asked."}
}
WHERE = {"Location": "/api/v1/jobs"}


@router.post("/{verb}", status_code=202, response_model=Many, responses=DRY)
async def command(
    verb: Verb | Literal["clear", "edit"],
    body: SelectBody,
    parts: Annotated[Parts, Depends(parts_of)],
    peer: Annotated[Peer, Depends(peer_of)],
) -> Response:
    """The verb on everybody that the words mean, in one turn. A word that means nobody changes nothing at all."""
    ids = select(parts.hub.snapshot, body.targets, body.all, verb)
    if (verb == "edit") != (body.changes is not None):
        raise Refused("invalid", "`changes` goes with the verb edit, and with no other.")
    if body.dry_run:
        found = [Answered(hid, True, "dry_run") for hid in ids]
        return answer(Many, Many(found, parts.hub.revision, dry_run=True), 200)
    if verb == "clear":
        return answer(Many, await _clear(parts, ids, peer), 202, WHERE)
    replies = await asyncio.gather(*(parts.submit(_command(verb, hid, body, peer, parts)) for hid in ids))
    if replies and all(one.code == "store_silent" for one in replies):  # one turn: nothing was saved of any
        raise Refused(replies[0].code, refusal(replies[0].code, replies[0].facts), **replies[0].facts)
    results = [_answered(hid, reply) for hid, reply in zip(ids, replies, strict=True)]
    return answer(Many, Many(results, max((reply.rev for reply in replies), default=0)), 202, WHERE)


def _command(verb: str, hid: HolderId, body: SelectBody, peer: Peer, parts: Parts) -> Command:
    if body.changes is not None:
        return EditJob(target=hid, changes=body.changes.fields(parts.hub.snapshot), by=peer.name)
    return SetWish(
        target=hid,
        verb=verb,  # type: ignore[arg-type]  # the route let no other word in
        by=peer.name,
        reason=body.reason,
        anyway=body.anyway,
        at_saved_point=body.at_saved_point,
    )


def _answered(hid: HolderId, reply: Reply) -> Answered:
    words = None if reply.accepted else refusal(reply.code, reply.facts)
    return Answered(hid, reply.accepted, reply.code, words, dict(reply.facts))


async def _clear(parts: Parts, ids: tuple[HolderId, ...], peer: Peer) -> Many:
    """All of them or none: what is forgotten cannot be brought back."""
    reply = await parts.submit(ClearJobs(targets=ids, by=peer.name))
    if not reply.accepted:
        raise Refused(reply.code, refusal(reply.code, reply.facts), **reply.facts)
    return Many([Answered(hid, True, reply.code) for hid in ids], reply.rev)
