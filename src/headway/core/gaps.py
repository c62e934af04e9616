"""Is putting a model aside for a job worth it? "Who could come back?": see worth.py for what is weighed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any, Final

from headway.core import fit
from headway.core.draft import Draft
from headway.core.forecast import all_quiet
from headway.core.ledger import CLOSED, Knobs
from headway.core.lifecycle import aside_form, rule
from headway.core.model import FormName, Holder, HolderId, Job, Service, Snapshot, Verdict
from headway.core.outlook import Outlook
from headway.core.worth import Costs, Moment, best_moment

SLOW_WAKE_PRICE: Final = (
    1.0  # at most, of a second of waiting in a slow_wake window; the caps are out of force
)
UNHEARD_S: Final = 3.0  # so long the log may take to tell how an answer ended; then its line is lost
SAME_S: Final = 0.25  # two readings of the end of one answer differ by less
SOON_S: Final = 0.001
EXAMPLE: Final = Costs()  # what stands in until something is measured
_moment: Final = lru_cache(maxsize=256)(best_moment)  # jobs of one kind have the same costs


def knobs(service: Service, s: Snapshot) -> Knobs:
    """As said of this service, else of all."""
    own, all_ = service.spec, s.policy
    return Knobs(
        wait_price=all_.wait_price if own.wait_price is None else own.wait_price,
        max_mean_wait_s=all_.max_mean_wait_s if own.max_mean_wait_s is None else own.max_mean_wait_s,
        max_waiting_share=all_.max_waiting_share if own.max_waiting_share is None else own.max_waiting_share,
    )


def costs(job: Holder, services: Sequence[Service], s: Snapshot) -> Costs:
    """What one swap takes: all step aside once and come back once, models one after the other. As measured, else as
    declared, else a guess."""
    parked = aside_form(job, job.top)
    here = job.bottom if job.form in (None, job.top) else job.form
    aside = [(x, aside_form(x, x.top)) for x in services]
    return Costs(
        sleep_s=sum(_takes_s(x, x.top, asleep, EXAMPLE.sleep_s) for x, asleep in aside),
        wake_s=sum(_takes_s(x, asleep, x.top, EXAMPLE.wake_s) for x, asleep in aside),
        resume_s=_takes_s(job, here, job.top, EXAMPLE.resume_s),
        park_s=_takes_s(job, job.top, parked, EXAMPLE.park_s),
        saved_every_s=saves_after_s(job),
        hides_park=all(_hides_park(job, x, parked, s) for x in services),
    )


def _hides_park(job: Holder, service: Service, parked: FormName | None, s: Snapshot) -> bool:
    """May the model wake beside the park, and is there room for both? Then steps begins the wake at once."""
    found = rule(job, job.top, parked) if parked is not None else None
    works_bytes, awake_bytes = fit.need(job, job.top), fit.need(service, service.top)
    if found is None or not found.overlaps_start or works_bytes is None or awake_bytes is None:
        return False
    both_bytes = works_bytes + awake_bytes
    devices = [s.devices.get(device) for device in service.devices]
    return all(
        device is not None
        and device.total_bytes is not None
        and both_bytes <= device.total_bytes - device.foreign_bytes - fit.reserve_bytes(device, False, s)
        for device in devices
    )


def _takes_s(holder: Holder, source: FormName | None, to: FormName | None, guess_s: float) -> float:
    if source is None or to is None:
        return guess_s
    up = to == holder.top
    form = holder.form_named(source if up else to)
    measured_s = None if form is None else form.leave_s if up else form.enter_s
    if measured_s is not None:
        return measured_s
    found = rule(holder, source, to)
    return guess_s if found is None or found.takes_s is None else found.takes_s


def saves_after_s(job: Holder) -> float:
    """How long it works until its next saved point, where leaving before that loses work; 0 where nothing is known."""
    if not isinstance(job, Job) or not job.spec.saved or job.saves_every_s is None:
        return 0.0
    form = job.top if job.form == job.bottom else job.form
    aside = aside_form(job, form)
    found = rule(job, form, aside) if aside is not None else None
    return job.saves_every_s if found is not None and found.loses_work else 0.0


def moment(job: Holder, services: Sequence[Service], outlook: Outlook, s: Snapshot) -> Moment:
    """When to put the models aside for this job, from the outlook over all of them on."""
    assert outlook.quiet is not None
    return _moment(outlook.quiet, costs(job, services, s), outlook.price, outlook.follower_s)


def together(outlooks: Sequence[Outlook]) -> Outlook:
    """Over several models that are all quiet now: nobody asks any of them, at the price of the dearest."""
    dearest = max(outlooks, key=lambda one: one.price)
    if len(outlooks) == 1:
        return dearest
    at_s = max(one.at_s for one in outlooks)
    known = [(one.quiet, at_s - one.at_s) for one in outlooks if one.quiet is not None]
    return replace(
        dearest,
        at_s=at_s,
        quiet=all_quiet(*known) if len(known) == len(outlooks) else None,
        follower_s=sum(one.follower_s for one in outlooks),
    )


def quiet_since_s(service: Service) -> float:
    return max(service.since_s, service.last_end_s or 0.0, service.idle_since_s or 0.0)


def worth_it(job: Holder, services: Sequence[Service], s: Snapshot) -> Verdict | None:
    """None when this is the moment to give the memory of idle models to this job, which needs all of them gone.

    A moment once found is good until something is learned. Whom a person told to start now is not asked whether it is
    worth it.
    """
    if isinstance(job, Job) and job.rushed:
        return None
    since_s = max(map(quiet_since_s, services))
    facts: dict[str, Any] = {"services": tuple(x.id for x in services), "quiet_s": s.now_s - since_s}
    for service in services:
        if not _known(service, s):
            until_s = (service.last_end_s or s.now_s) + UNHEARD_S
            return Verdict(code="gap_unread", facts=facts | {"service": service.id}, until_s=until_s)
    dearest = max(services, key=lambda x: s.outlooks[x.id].price)
    outlook = together([s.outlooks[x.id] for x in services])
    best = moment(job, services, outlook, s)
    facts |= {"service": dearest.id, **best.facts()}
    at_s = max(outlook.at_s + (best.after_s or 0.0), since_s + s.policy.gap_min_s)
    if best.now and at_s <= s.now_s:
        return None
    if outlook.price >= CLOSED > outlook.knobs.wait_price:
        return Verdict(code="gap_promised", facts=facts | _waited(outlook))
    if best.after_s is None:
        return Verdict(code="gap_not_worth", facts=facts)
    return Verdict(code="gap_too_short", facts=facts, until_s=max(at_s, s.now_s + SOON_S))


def _waited(outlook: Outlook) -> dict[str, Any]:
    day = outlook.waits[1]
    return {"waited": round(day.waited), "requests": round(day.requests), "waited_s": day.waited_s}


def _known(service: Service, s: Snapshot) -> bool:
    outlook = s.outlooks.get(service.id)
    return outlook is not None and outlook.quiet is not None and not unheard(service, s)


def unheard(service: Service, s: Snapshot) -> bool:
    """Has a request ended of which the log has yet to tell? Without that line it would seem quiet for longer."""
    ended_s, outlook = service.last_end_s, s.outlooks.get(service.id)
    if ended_s is None or s.now_s >= ended_s + UNHEARD_S:
        return False
    return outlook is None or outlook.heard_s is None or outlook.heard_s + SAME_S < ended_s


def taken(d: Draft, sid: HolderId, cause: HolderId | None, victims: Iterable[HolderId] = ()) -> None:
    """Tell of a model that is put aside for a job, with what is expected of it and what it costs: it can be checked.

    Args:
        victims: all who step aside for that job.
    """
    service, job = d.holders.get(sid), d.holders.get(cause or "")
    s = d.view()
    if not isinstance(service, Service) or not isinstance(job, Job) or service.form != service.top:
        return
    others = (s.service(hid) for hid in victims if hid != sid)
    services = [service, *(x for x in others if x is not None and x.form == x.top)]
    facts: dict[str, Any] = {
        "job": job.id,
        "services": tuple(x.id for x in services),
        "quiet_s": d.now_s - max(map(quiet_since_s, services)),
        "costs": asdict(costs(job, services, s)),
    }
    outlooks = [s.outlooks[x.id] for x in services if x.id in s.outlooks]
    outlook = together(outlooks) if len(outlooks) == len(services) else None
    if not job.rushed and outlook is not None and outlook.quiet is not None:
        facts |= {"seen_s": d.now_s - outlook.at_s, **moment(job, services, outlook, s).facts()}
    d.event("gap.taken", sid, **facts)
    if (own := s.outlooks.get(sid)) is not None:
        d.set(outlooks={**s.outlooks, sid: replace(own, taken=facts)})
