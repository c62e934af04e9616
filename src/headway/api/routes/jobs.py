"""Jobs: the list, one of them, its log, adding, and the verbs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from headway.api.auth import Peer, needs, peer_of
from headway.api.bodies import Accepted, AddBody, EditBody, ReasonBody, Said
from headway.api.pages import Cursor, Limit, link
from headway.api.parts import Parts, answer, find, parts_of
from headway.api.problems import check
from headway.api.routes.holders import LogTail, log_of, wish
from headway.api.selecting import tests
from headway.core import rows, view, words
from headway.core.commands import AddJob, EditJob, JobVerb
from headway.core.decide import never_fits
from headway.core.job_rows import meets_models, step_aside
from headway.core.model import Job, JobSpec, Rank, Want
from headway.core.phrases import sentence
from headway.errors import NotFound, Refused

router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"])
State = Annotated[str, Field(pattern=f"^({'|'.join(words.JOB_STATES)})$")]


@router.get("", response_model=rows.JobPage)
async def jobs(
    request: Request,
    parts: Annotated[Parts, Depends(parts_of)],
    state: Annotated[list[State], Query(default_factory=list)],
    ended: bool = False,
    after: Cursor = None,
    limit: Limit = 200,
    select: Annotated[str | None, Query(max_length=1000, description="a group such as tag=eval")] = None,
) -> Response:
    """Jobs in the order they are served, then (`ended`) those that are over. `next` is the cursor for `after`."""
    snapshot = parts.hub.snapshot
    wanted = [] if select is None else tests(select)
    shown = view.jobs(
        snapshot,
        parts.hub.verdicts,
        states=frozenset(state),
        ended=ended,
        after=after,
        limit=limit,
        fits=lambda job: all(test(job, value, snapshot) for test, value in wanted),
    )
    return answer(rows.JobPage, shown, headers=link(request, shown.next))


@router.get("/{target}", response_model=rows.JobRow)
async def job(target: str, parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    snapshot = parts.hub.snapshot
    return answer(rows.JobRow, view.job_row(_job(parts, target), snapshot, parts.hub.verdicts))


@router.get("/{target}/log", response_model=LogTail, openapi_extra=needs("read"))
async def log(
    target: str,
    parts: Annotated[Parts, Depends(parts_of)],
    lines: Annotated[int, Query(ge=1, le=10_000)] = 100,
    run: Annotated[int | None, Query(ge=1, le=10**9)] = None,
) -> Response:
    """The end of its log, of the last run or of number `run`. Output may hold anything: it needs the scope `read`."""
    return await log_of(parts, _job(parts, target).id, lines, run)


DRY: dict[int | str, dict[str, Any]] = {
    200: {"model": Accepted, "description": "With `dry_run`: what it would be; nothing was queued."}
}


@router.post("", status_code=202, response_model=Accepted, responses=DRY, openapi_extra=needs("submit"))
async def add(
    body: AddBody, parts: Annotated[Parts, Depends(parts_of)], peer: Annotated[Peer, Depends(peer_of)]
) -> Response:
    """Queue a recipe, or a command: that one needs the scope `exec` too, it runs as the daemon's user."""
    if body.argv is not None:
        peer.check("exec")
    spec = _spec(parts, body)
    if body.dry_run:
        return answer(Accepted, _would_be(parts, spec), 200)
    reply = await parts.submit(
        AddJob(spec=spec, recipe=body.recipe, hold=body.hold, ask_key=body.ask_key, by=peer.name)
    )
    check(reply)
    added = parts.hub.snapshot.holders.get(reply.holder or "")
    accepted = Accepted.of(reply)
    if isinstance(added, Job):
        facts = {**accepted.facts, "meets_models": meets_models(added, parts.hub.snapshot)}
        accepted = replace(accepted, warning=_never_fits(parts, added), facts=facts)
    return answer(Accepted, accepted, 202, {"Location": f"/api/v1/jobs/{reply.holder}"})


@router.post("/{target}/{verb}", status_code=202, response_model=Accepted)
async def command(
    target: str,
    verb: JobVerb,
    parts: Annotated[Parts, Depends(parts_of)],
    peer: Annotated[Peer, Depends(peer_of)],
    body: ReasonBody | None = None,
) -> Response:
    """Change what is wished for a job. Accepted means saved; the job's state says when it is done."""
    return await wish(parts, _job(parts, target).id, verb, peer, body)


@router.patch("/{target}", status_code=202, response_model=Accepted)
async def edit(
    target: str,
    body: EditBody,
    parts: Annotated[Parts, Depends(parts_of)],
    peer: Annotated[Peer, Depends(peer_of)],
) -> Response:
    """Change what was said of a job. Its process, if it has one, keeps what it was started with."""
    hid = _job(parts, target).id
    reply = await parts.submit(EditJob(target=hid, changes=body.fields(parts.hub.snapshot), by=peer.name))
    check(reply)
    return answer(Accepted, Accepted.of(reply, hid), 202, {"Location": f"/api/v1/jobs/{hid}"})


def _job(parts: Parts, target: str) -> Job:
    """Raises: NotFound, Refused when several have that name."""
    snapshot = parts.hub.snapshot
    found = snapshot.holders[find(snapshot, target, "job")]
    assert isinstance(found, Job)
    return found


def _would_be(parts: Parts, spec: JobSpec) -> Accepted:
    job = Job(id="new", spec=spec, forms=spec.forms)
    facts = {
        "name": spec.name,
        "driver": spec.driver,
        "placement": spec.placement,
        "priority": spec.priority,
        "step_aside": step_aside(job),
        "meets_models": meets_models(job, parts.hub.snapshot),
    }
    return Accepted(True, None, "dry_run", parts.hub.revision, _never_fits(parts, job), facts)


def _never_fits(parts: Parts, job: Job) -> str | None:
    """Words for a job that could not start even on devices that are empty; it is queued all the same."""
    snapshot = parts.hub.snapshot
    no = never_fits(Want(holder=job, form=job.top, rank=(Rank.JOB, job.key, job.id)), snapshot)
    return sentence(no.code, no.facts, snapshot) if no and snapshot.devices else None


def _spec(parts: Parts, body: AddBody) -> JobSpec:
    """Raises: NotFound for a recipe or a job in `after`, Refused for an ad-hoc job that cannot be made."""
    if body.recipe is not None:
        spec = parts.recipes.get(body.recipe)
        if spec is None:
            known = ", ".join(sorted(parts.recipes)) or "none"
            raise NotFound(
                f"no recipe [job.{body.recipe}] in the config; it has: {known}.", target=body.recipe
            )
    else:
        fields = body.model_dump(
            exclude_none=True, exclude={"recipe", "hold", "dry_run", "ask_key", *Said.model_fields}
        )
        if isinstance(body.gpu, int) or body.gpu == "0":
            fields["gpu"] = f"{body.gpu}B"  # a number is bytes; a text says its unit
        try:
            spec = parts.make_job(fields)
        except ValueError as error:
            raise Refused("invalid_job", f"{error}. See `headway add --help`.") from error
    changes = body.fields(parts.hub.snapshot)
    return replace(spec, **changes) if changes else spec
