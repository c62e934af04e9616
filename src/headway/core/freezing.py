"""Jobs of placement `yield`: beside a model, and frozen while it answers. Frozen frees no memory, only the compute.

The gate forwards at once and nobody waits for this: a job is frozen when a request is seen, and thawed once the model
has been quiet for a moment. A job that is to move is thawed first, so that it can hear what it is asked.
"""

from __future__ import annotations

from dataclasses import replace

from headway.core.lifecycle import gated
from headway.core.model import Action, HolderId, Job, Move, Service, Signal, Snapshot, Verdict

THAW_S = 1.0  # of quiet


def yields(job: Job) -> bool:
    return job.spec.placement == "yield"


def beside(job: Job, s: Snapshot) -> list[Service]:
    """The models that are awake on its devices."""
    services = (x for sid in s.services if (x := s.service(sid)) is not None)
    return [x for x in services if gated(x) and x.form == x.top and set(x.devices) & set(job.devices)]


def answering(job: Job, s: Snapshot) -> Service | None:
    """The model that answers beside it. One that no gate has spoken of yet justifies nothing."""
    return next((x for x in beside(job, s) if x.active), None)


def signals(s: Snapshot, actions: tuple[Action, ...]) -> tuple[tuple[Action, ...], dict[HolderId, Verdict]]:
    """Freezes and thaws, in front of everything else that is done in this turn.

    Returns:
        (the actions with them, why each frozen one is frozen).
    """
    moved = {action.holder for action in actions if isinstance(action, Move)}
    found: list[Action] = []
    why: dict[HolderId, Verdict] = {}
    for hid in s.present:
        job = s.holders[hid]
        if not isinstance(job, Job) or not (yields(job) or job.frozen_by_gate):
            continue
        busy = answering(job, s)
        stands = job.form == job.top and hid not in s.pending and hid not in moved
        stands = stands and yields(job) and s.mode == "live"
        if not stands:
            if job.frozen_by_gate:
                found.append(Signal(holder=hid, what="thaw"))
            continue
        thaw_s = max((x.idle_since_s or 0.0 for x in beside(job, s)), default=0.0) + THAW_S
        if busy is not None:
            why[hid] = Verdict(code="frozen", facts={"service": busy.id, "active": busy.active})
            if not job.frozen_by_gate:
                found.append(Signal(holder=hid, what="freeze"))
        elif job.frozen_by_gate and s.now_s >= thaw_s:
            found.append(Signal(holder=hid, what="thaw"))
        elif job.frozen_by_gate:
            why[hid] = Verdict(code="frozen", until_s=thaw_s)
    return (*found, *actions), why


def frozen(job: Job, now_s: float) -> Job:
    return replace(job, frozen_by_gate=True, frozen_s=now_s)


def thawed(job: Job, now_s: float) -> Job:
    """Neither its running time nor its silence counts what it was frozen."""
    for_s = frozen_for_s(job, now_s)
    heard_s = min(now_s, max(job.active_s or 0.0, job.since_s) + for_s)
    return replace(
        job,
        frozen_by_gate=False,
        frozen_s=None,
        ran_s=job.ran_s - for_s,
        active_s=heard_s if for_s else job.active_s,
    )


def frozen_for_s(job: Job, now_s: float) -> float:
    return now_s - job.frozen_s if job.frozen_by_gate and job.frozen_s is not None else 0.0
