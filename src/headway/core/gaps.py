"""Is putting a model aside for a job worth it? For now: it has been quiet longer than one swap costs."""

from __future__ import annotations

from headway.core import windows
from headway.core.lifecycle import aside_form
from headway.core.model import Holder, Service, Snapshot, Verdict

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


def worth_it(job: Holder, service: Service, s: Snapshot) -> Verdict | None:
    """None when the service has been quiet long enough to give its memory to this job."""
    quiet_since_s = max(service.since_s, service.last_end_s or 0.0, service.idle_since_s or 0.0)
    wanted_s, quiet_s = needed_s(job, service, s), s.now_s - quiet_since_s
    if quiet_s >= wanted_s:
        return None
    facts = {"service": service.id, "quiet_s": quiet_s, "needed_s": wanted_s}
    return Verdict(code="gap_too_short", facts=facts, until_s=quiet_since_s + wanted_s)
