"""Is putting a model aside for a job worth it? For now: it has been quiet longer than one swap costs."""

from __future__ import annotations

from headway.core import windows
from headway.core.lifecycle import aside_form, rule
from headway.core.model import Holder, Job, Service, Snapshot, Verdict

SLOW_WAKE_FACTOR = (
    0.25  # in a slow_wake window a second of waiting costs a quarter of what it costs otherwise
)


def swap_s(job: Holder, service: Service, s: Snapshot) -> float:
    """Seconds that one swap costs: both step aside once and come back once. Priors where nothing was measured."""
    measured = []
    for holder in (job, service):
        aside = holder.form_named(aside_form(holder, holder.top))
        here = aside if holder.form == holder.top else holder.form_named(holder.form)
        measured += [aside.enter_s if aside else None, here.leave_s if here else None]
    known = [time_s for time_s in measured if time_s is not None]
    return sum(known) if known else s.policy.swap_prior_s


def needed_s(job: Holder, service: Service, s: Snapshot) -> float:
    """How long the service must have been quiet for this job to have its memory."""
    factor = s.policy.gap_factor
    if windows.over(service.id, s, "slow_wake"):
        factor *= SLOW_WAKE_FACTOR
    return max(s.policy.gap_min_s, factor * swap_s(job, service, s))


def saves_after_s(job: Holder) -> float:
    """How long it works until its next saved point, where leaving before that loses work; 0 where nothing is known."""
    if not isinstance(job, Job) or not job.spec.saved or job.saves_every_s is None:
        return 0.0
    form = job.top if job.form == job.bottom else job.form
    aside = aside_form(job, form)
    found = rule(job, form, aside) if aside is not None else None
    return job.saves_every_s if found is not None and found.loses_work else 0.0


def worth_it(job: Holder, service: Service, s: Snapshot) -> Verdict | None:
    """None when the service has been quiet long enough to give its memory to this job.

    A quiet time is expected to last about as long as it has lasted. So one that would lose its work waits until that
    is enough to reach its next saved point. Whom a person told to start now is not asked whether it is worth it.
    """
    if isinstance(job, Job) and job.rushed:
        return None
    quiet_since_s = max(service.since_s, service.last_end_s or 0.0, service.idle_since_s or 0.0)
    wanted_s, saves_s = needed_s(job, service, s), saves_after_s(job)
    quiet_s = s.now_s - quiet_since_s
    if quiet_s < saves_s and saves_s > wanted_s:
        facts = {"service": service.id, "quiet_s": quiet_s, "needed_s": saves_s}
        return Verdict(code="gap_before_saved", facts=facts, until_s=quiet_since_s + saves_s)
    if quiet_s >= wanted_s:
        return None
    facts = {"service": service.id, "quiet_s": quiet_s, "needed_s": wanted_s}
    return Verdict(code="gap_too_short", facts=facts, until_s=quiet_since_s + wanted_s)
