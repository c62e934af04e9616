"""What people see of a job beyond what every holder has, and of all of them together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headway.core import eta, words
from headway.core.draft import LEASE_LANE
from headway.core.fit import resolve
from headway.core.lifecycle import gated
from headway.core.model import HolderId, Job, Snapshot, Verdict
from headway.core.rows import LostRow
from headway.core.rules import job_places
from headway.core.tellings import because
from headway.core.timeline import stuck
from headway.core.told import UNHEALTHY
from headway.core.windows import candidates, tied
from headway.core.worked import ran_s, unsaved_s

Known = Mapping[str, tuple[float, ...]]
NONE: Known = {}


def job_fields(
    job: Job, s: Snapshot, verdicts: Mapping[HolderId, Verdict], known: Known = NONE
) -> dict[str, Any]:
    """The fields of a JobRow that no other row has.

    Args:
        known: how long recipes took, see `eta.lengths`; without it only its own progress says what is left.
    """
    ran, spec = ran_s(job, s.now_s), job.spec
    left = eta.left(job, s, known)
    runs = job.form != job.bottom and job.ended is None
    top = job.form_named(job.top)
    return {
        "declared_bytes": top.declared_bytes if top else None,
        "learned_bytes": top.learned_bytes if top else None,
        "recipe": job.recipe,
        "lane": job.lane,
        "position": words.position(job, s),
        "may_start": words.position(job, s) is not None
        and job.wish != "hold"
        and may_start(job.id, verdicts),
        "priority": spec.priority,
        "placement": spec.placement,
        "driver": spec.driver,
        "step_aside": step_aside(job),
        "argv": spec.argv,
        "after": (*spec.after, *spec.after_ok),
        "age_s": s.now_s - job.enqueued_s,
        "ran_s": ran,
        "started": job.started_s is not None,
        "progress": job.progress,
        "saved_age_s": job.saved_age_s,
        "saved_point": job.saved_point,
        "saves_every_s": job.saves_every_s,
        "unsaved_s": unsaved_s(job, ran) if runs else None,
        "lost_s": job.lost_s,
        "lost": tuple(
            LostRow(run=x.run, cause=x.cause, why=_why(x.cause, s), lost_s=x.lost_s, at_ran_s=x.at_ran_s)
            for x in job.lost
        ),
        "left_s": left.s if left else None,
        "left_low_s": left.low_s if left else None,
        "left_high_s": left.high_s if left else None,
        "max_runtime_s": spec.max_runtime_s,
        "saves": bool(spec.saved),
        "attempts_left": job.attempts_left,
        "exit_code": job.exit_code,
        "ended_s": None if job.ended_s is None else s.now_s - job.ended_s,
        "run": job.run.id if job.run else None,
        "runs": job.runs,
        "pid": job.run.pid if job.run else None,
        "stalled": job.stalled and job.form == job.top,
        "healthy": None if not spec.health or not runs else job.unhealthy < UNHEALTHY,
        "alone": job.alone,
        "summary": job.summary,
        "goal": spec.goal,
        "tags": spec.tags,
        "labels": spec.labels,
        "colour": spec.colour,
    }


def _why(cause: str, s: Snapshot) -> str:
    """Whoever needed the room, by name, or what ended it."""
    if cause in s.holders:
        return f"for {words.label(cause, s)}"
    return str(because({"cause": cause}).get("because", cause.replace("_", " ")))


def step_aside(job: Job) -> str:
    """How it gives its memory back, in one word."""
    if tied(job):
        return "none"
    return "park" if job.form_named("parked") else "restart"


def meets_models(job: Job, s: Snapshot) -> bool:
    """May a model ever want a device that this job may have? Where none may, nothing makes it step aside."""
    if not job.spec.count:
        return False
    own = set(resolve(job.spec, s) or s.devices)
    services = (s.service(sid) for sid in s.services)
    return any(x is not None and gated(x) and own & set(candidates(x, s) or s.devices) for x in services)


def running_facts(job: Job, s: Snapshot) -> dict[str, Any]:
    """How far one that runs is, and whether it shows signs of work."""
    facts: dict[str, Any] = {"progress": job.progress}
    if job.stalled:
        facts["silent_s"] = s.now_s - max(job.active_s or 0.0, job.since_s)
    if left := eta.of_progress(job, ran_s(job, s.now_s)):
        facts |= {"left_s": left.s, "low_s": left.low_s, "high_s": left.high_s}
    return facts


def outlook(s: Snapshot, verdicts: Mapping[HolderId, Verdict]) -> eta.Outlook:
    """Of everything that runs or stands in line."""
    here = [h for hid in s.present if isinstance(h := s.holders[hid], Job) and h.ended is None]
    line = [hid for lane in sorted(s.queue) if lane not in ("held", LEASE_LANE) for _, hid in s.queue[lane]]
    going = next((hid for hid in line if (no := verdicts.get(hid)) is not None and no.code == "goes"), None)
    following = going or next((hid for hid in line if may_start(hid, verdicts)), None)
    return eta.outlook(s, following, job_places("gpu", s), (*here, *_jobs(line, s)))


def may_start(hid: HolderId, verdicts: Mapping[HolderId, Verdict]) -> bool:
    """Does it only wait for room or for time, and not for another job, or for ever?"""
    no = verdicts.get(hid)
    return no is None or not (no.code == "after" or stuck(no))


def _jobs(line: Iterable[HolderId], s: Snapshot) -> Iterable[Job]:
    return (job for hid in line if isinstance(job := s.holders[hid], Job) and hid not in s.present)
