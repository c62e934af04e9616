"""A changed config into the records: what is new comes, what is gone leaves, what runs goes on as it was started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from headway.core.commands import Configure
from headway.core.draft import Draft, is_present
from headway.core.model import HolderId, Job, Mode, Service, ServiceSpec
from headway.core.renewing import at_once, merged, with_learned


def in_use(d: Draft, command: Configure) -> dict[str, Any]:
    """What the config does not have any more and that is in use; empty with `drain`, or when nothing is."""
    if command.drain:
        return {}
    wanted = {spec.name for spec in command.services}
    services = [sid for sid in sorted(d.services - wanted) if _is_used(d, d.holders[sid])]
    recipes = {recipe.name for recipe, _ in command.recipes}
    jobs = [
        hid
        for hid, job in d.holders.items()
        if isinstance(job, Job)
        and job.recipe
        and job.recipe not in recipes
        and not (job.ended or job.retired)
    ]
    found: dict[str, Any] = {"services": services} if services else {}
    if jobs:
        found |= {"jobs": jobs[:8], "recipes": sorted({str(d.holders[hid].recipe) for hid in jobs})}  # type: ignore[attr-defined]
    return found


def _is_used(d: Draft, holder: Any) -> bool:
    waited_for = any(waiting.n for waiting in holder.demand.values())
    return not holder.retired and (is_present(holder, holder.id in d.pending) or waited_for)


def take(d: Draft, command: Configure) -> dict[str, Any]:
    """Policy, mode and services. Returns what of it people are told."""
    if command.policy is not None:
        d.set(policy=command.policy)
    _mode(d, command)
    wanted = {spec.name for spec in command.services}
    retired = []
    for sid in sorted(d.services - wanted):
        service = d.holders[sid]
        assert isinstance(service, Service)
        retired.append(sid)
        if not service.retired:
            d.put(replace(service, retired=True, coming=None))
            d.event("service.retired", sid)
    for spec in command.services:
        _service(d, spec)
    return {"retired": retired}


def _mode(d: Draft, command: Configure) -> None:
    """The mode set by hand holds until the config itself says something new."""
    mode, by = (d.other.get(key, getattr(d.base, key)) for key in ("mode", "mode_by"))
    if command.mode is None or command.mode == said_mode(mode, by):
        return
    d.set(mode=command.mode, mode_by=None)
    if command.mode != mode:
        d.event("mode", None, mode=command.mode, by=command.by)


def said_mode(mode: Mode, by: str | None) -> Mode:
    """What the config says, from the mode there is and who set it by hand."""
    if by is None:
        return mode
    return "shadow" if mode == "live" else "live"


# ---------------------------------------------------------------- services


def _service(d: Draft, spec: ServiceSpec) -> None:
    before = d.holders.get(spec.name)
    if not isinstance(before, Service):
        runs = d.other.get("runs_had", d.base.runs_had).get(spec.name, 0)
        d.put(Service(id=spec.name, spec=spec, forms=spec.forms, since_s=d.now_s, runs=runs))
        return
    now = at_once(before.spec, spec)
    forms, coming = with_learned(now.forms, before.forms), spec if now != spec else None
    d.put(replace(before, spec=now, forms=forms, coming=coming, retired=False))


def forget_retired(d: Draft) -> None:
    """Services that the config does not have any more go when nothing of them is left, or nothing that is ours."""
    for sid in sorted(d.services):
        service = d.holders[sid]
        if isinstance(service, Service) and service.retired and _is_over(d, service):
            d.touch(service.devices)  # what somebody else's server holds there is a stranger's from now on
            d.set(runs_had={**d.other.get("runs_had", d.base.runs_had), sid: service.runs})
            d.drop(sid)
            d.event("service.forgotten", sid)


def _is_over(d: Draft, service: Service) -> bool:
    if service.id in d.pending:
        return False
    ours = service.run is not None and service.run.alive
    if d.other.get("mode", d.base.mode) == "shadow":  # nobody is moved, and no gate is closed
        return not ours
    if not is_present(service, moving=False):
        return service.gate.wish == "closed"
    return not service.spec.argv and not ours and service.gate.drained


# ---------------------------------------------------------------- recipes


def take_recipes(d: Draft, command: Configure) -> Iterator[tuple[Job, int]]:
    """Give the entries of each recipe what it says now. Yields those of another priority, with the one before."""
    before = d.other.get("recipes", d.base.recipes)
    now = {recipe.name: recipe for recipe, _ in command.recipes}
    d.set(recipes=now)
    for job in list(d.holders.values()):
        if not isinstance(job, Job) or job.recipe is None or job.ended:
            continue
        old, new = before.get(job.recipe), now.get(job.recipe)
        job = replace(job, retired=new is None)
        own = job.coming or job.spec
        spec = merged(own, old, new) if old is not None and new is not None else own
        d.put(replace(job, coming=spec if spec != job.spec else None))
        if spec.priority != own.priority:
            put = d.holders[job.id]
            assert isinstance(put, Job)
            yield put, own.priority


def later(d: Draft) -> list[HolderId]:
    """Who goes on with what it was started with, and takes what the config says now at its next start."""
    return sorted(
        hid for hid, h in d.holders.items() if isinstance(h, Service | Job) and h.coming is not None
    )
