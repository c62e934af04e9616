"""Windows: periods with other rules for some services. What is open, what it closes, and when that comes back.

Instants come from outside, on the daemon's clock: the calendar of the config is read where clocks are. A service that a
`no_model` window closed while it was awake is ready again at the window's end: it is called back a little earlier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headway.core.draft import Draft
from headway.core.lifecycle import aside_form, gated, rule, step_forms
from headway.core.model import (
    FormName,
    Holder,
    HolderId,
    Job,
    Service,
    Snapshot,
    Verdict,
    Want,
    Window,
    WindowKind,
)

MARGIN_S = 2.0  # to close a gate, to measure, to begin
UNMEASURED_PARK_S = 5.0
UNMEASURED_START_S = 60.0  # at most, for a start that was never measured
WAKE_S = 60.0  # in a slow_wake window: how long jobs have to step aside for a request


def is_open(window: Window, now_s: float) -> bool:
    return window.stopped_by is None and window.begin_s <= now_s < window.end_s


def covers(window: Window, sid: HolderId) -> bool:
    return not window.services or sid in window.services


def over(sid: HolderId, s: Snapshot, kind: WindowKind | None = None) -> Window | None:
    """The open window over that service, the one that ends last; None: there is none.

    Args:
        kind: only of this kind; None: of any.
    """
    if not s.windows:
        return None
    found = [w for w in s.windows if kind in (None, w.kind) and is_open(w, s.now_s) and covers(w, sid)]
    return max(found, key=lambda w: (w.end_s, w.id), default=None)


def next_begin_s(s: Snapshot) -> float | None:
    """When the next window begins, as far as that is known."""
    return min((w.begin_s for w in s.windows if w.begin_s > s.now_s and w.stopped_by is None), default=None)


def closing(service: Service, s: Snapshot) -> Window | None:
    """The window that keeps it aside now. Not once it is called back, so that it is ready at the end."""
    return None if service.called_back else over(service.id, s, "no_model")


def deepest(service: Service) -> FormName | None:
    """Stopped where we can start it again, else the deepest sleep that it reaches."""
    if service.spec.argv:
        return service.bottom
    forms = step_forms(service, service.form) if service.form is not None else ()
    return forms[-1] if forms else None


# ---------------------------------------------------------------- rules


def keeps_aside(holder: Holder, s: Snapshot) -> Verdict | None:
    """A window says that this model is not to be there."""
    if not isinstance(holder, Service) or holder.form is None or (window := closing(holder, s)) is None:
        return None
    facts = {"form": deepest(holder), "window": window.id}
    return Verdict(code="no_model", facts=facts, until_s=window.end_s)


def closed(want: Want, s: Snapshot) -> Verdict | None:
    """The same for one that is aside already: nobody wakes it."""
    return closed_now(want.holder, s) if isinstance(want.holder, Service) else None


def closed_now(service: Service, s: Snapshot) -> Verdict | None:
    """The window that keeps it aside, whether anybody wants it or not."""
    window = closing(service, s)
    if window is None:
        return None
    return Verdict(code="no_model", facts={"window": window.id}, until_s=window.end_s)


def not_yet(want: Want, s: Snapshot) -> Verdict | None:
    """A job that runs in windows only, and none is open."""
    if not isinstance(want.holder, Job) or want.holder.spec.placement != "window":
        return None
    if any(is_open(window, s.now_s) for window in s.windows):
        return None
    return Verdict(code="outside_window", until_s=next_begin_s(s))


def bound(holder: Holder) -> bool:
    """Does it run in windows only, where a model may want its device? By its placement, or as it cannot step aside."""
    return isinstance(holder, Job) and (holder.spec.placement == "window" or tied(holder))


def tied(job: Job) -> bool:
    """Would it lose its work by stepping aside, and did nobody say that it may? Beside a model it need not."""
    return job.spec.placement in ("gap", "window") and not (job.spec.steps_aside or job.anyway)


def barred(holder: Holder, devices: tuple[str, ...], s: Snapshot) -> Verdict | None:
    """It cannot step aside, and a model that no window is over uses one of these devices: it stays off them."""
    if not isinstance(holder, Job) or holder.spec.placement == "window" or not tied(holder):
        return None
    for sid in s.services:
        service = s.service(sid)
        if service is None or not gated(service) or over(sid, s) is not None:
            continue
        at = candidates(service, s) or (tuple(s.devices) if len(s.devices) <= service.spec.count else ())
        if set(at) & set(devices):
            return Verdict(code="no_way_aside", facts={"service": sid}, until_s=next_begin_s(s))
    return None


def in_place_of(want: Want, victim: Holder, s: Snapshot) -> Verdict | None:
    """It takes the memory of a model only in a window that is over that model."""
    if not bound(want.holder) or not isinstance(victim, Service) or over(victim.id, s) is not None:
        return None
    return Verdict(code="outside_window", facts={"service": victim.id}, until_s=next_begin_s(s))


# ---------------------------------------------------------------- time


def lead_s(service: Service, s: Snapshot) -> float:
    """How long before its window's end it is called back: the jobs' park, then its own start, as measured."""
    here = service.form_named(service.form if service.form != service.top else deepest(service))
    start_s = here.leave_s if here is not None else None
    if start_s is None:
        start_s = min(service.spec.wake_limit_s, UNMEASURED_START_S)
    parks = (
        _park_s(job, s)
        for hid in s.present
        if isinstance(job := s.holders[hid], Job) and job.form == job.top and _could_be_at(service, job, s)
    )
    return max(parks, default=0.0) + start_s + MARGIN_S


def _park_s(job: Job, s: Snapshot) -> float:
    to = aside_form(job)
    form, found = job.form_named(to), rule(job, job.form, to) if to is not None else None
    measured_s = form.enter_s if form is not None else None
    if measured_s is not None:
        return measured_s
    return (found.takes_s if found else None) or max(UNMEASURED_PARK_S, job.spec.stop_grace_s)


def _could_be_at(service: Service, job: Job, s: Snapshot) -> bool:
    at = candidates(service, s)
    return bool(set(job.devices) & set(at)) if at else bool(job.devices)


def candidates(service: Service, s: Snapshot) -> tuple[str, ...]:
    """Devices that it uses: those it is on, else those it names; () when it may come to any."""
    if service.devices:
        return service.devices
    named = service.spec.pinned_devices
    words = {d.id: {d.id, d.name, d.id.split("/", 1)[-1], str(d.index)} for d in s.devices.values()}
    return tuple(device for device, known in words.items() if known & set(named))


def times(s: Snapshot) -> Iterator[float]:
    """When time alone changes something here."""
    for window in s.windows:
        if window.stopped_by is None:
            yield window.begin_s
            yield window.end_s
    for sid in s.services:
        service = s.service(sid)
        if service is not None and service.back_s is not None and not service.called_back:
            yield service.back_s - lead_s(service, s)


# ---------------------------------------------------------------- records


def turned(d: Draft) -> None:
    """What time made of windows since the last turn, and who is to come back from one."""
    before_s = d.base.now_s
    s = d.view()
    for window in s.windows:
        if window.stopped_by is None and before_s < window.begin_s <= d.now_s:
            d.event("window.began", None, window=window.id, kind=window.kind, services=list(window.services))
        if window.stopped_by is None and before_s < window.end_s <= d.now_s:
            d.event("window.ended", None, window=window.id, kind=window.kind)
    left = tuple(w for w in s.windows if d.now_s < w.end_s and (w.occurs is not None or w.stopped_by is None))
    if left != s.windows:
        d.set(windows=left)
    for sid in s.services:
        if (service := s.service(sid)) is not None and (left or service.back_s is not None):
            d.put(_comes_back(service, s))


def _comes_back(service: Service, s: Snapshot) -> Service:
    """When it is to be back, and whether it is called back by now."""
    window, moving = over(service.id, s, "no_model"), s.pending.get(service.id)
    up = service.form == service.top and moving is None
    back_s = service.back_s
    if window is not None:
        awake = up or service.spec.keep_awake or (moving is not None and moving.to == service.top)
        back_s = window.end_s if back_s is not None or awake else None
    elif back_s is not None:
        back_s = min(back_s, s.now_s)  # its window may have been stopped
        if up or s.now_s >= back_s + service.spec.wake_limit_s:
            back_s = None
    if service.dismissed_by is not None:
        back_s = None
    same = back_s is not None and back_s == service.back_s
    due = back_s is not None and (window is None or s.now_s >= back_s - lead_s(service, s))
    called_back = due or (same and service.called_back)
    if (back_s, called_back) == (service.back_s, service.called_back):
        return service
    return replace(service, back_s=back_s, called_back=called_back)
