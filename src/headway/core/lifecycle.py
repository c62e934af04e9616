"""The tables of wish and form: which wish absorbs which, and which form a holder can go to from where it is."""

from __future__ import annotations

from collections.abc import Mapping

from headway.core.model import FormName, Holder, Job, Lease, MoveRule, Service, Wish

STRENGTH: tuple[Wish, ...] = ("run", "hold", "pause", "wind_down", "stop", "kill", "cancel")
REVIVING = ("start", "release", "resume", "retry")  # the verbs that set a wish back to run, by name

ENDS_AS: Mapping[Wish, Wish] = {"stop": "hold", "kill": "hold", "pause": "hold", "wind_down": "hold"}


def strengthened(wish: Wish, verb: Wish) -> Wish:
    """The wish after `verb`. A wish only grows stronger; cancel absorbs everything.

    >>> strengthened("stop", "hold")
    'stop'
    >>> strengthened("hold", "cancel")
    'cancel'
    """
    return max(wish, verb, key=STRENGTH.index)


def rule(holder: Holder, source: FormName | None, to: FormName) -> MoveRule | None:
    """The driver's rule for that move, None when it cannot make it. A process that is not ours is never ended."""
    for found in holder.spec.moves:
        if found.source == source and found.to == to:
            touches = (found.creates or to == holder.bottom) and not isinstance(holder, Lease)
            ours = bool(holder.spec.argv) or not touches
            return found if ours else None
    return None


def aside_form(
    holder: Holder, source: FormName | None = None, under: FormName | None = None
) -> FormName | None:
    """The highest form below the present one that its driver reaches from here and that frees memory.

    Args:
        source: the form to leave; the present one if not given.
        under: only forms lower than this one (for escalation).

    Returns:
        None when there is no such form: it cannot be asked to step aside.
    """
    source = source if source is not None else holder.form
    for form in holder.forms:
        if under is not None and not holder.below(form.name, under):
            continue
        found = rule(holder, source, form.name)
        if found is not None and found.frees:
            return form.name
    return None


def step_forms(holder: Holder, source: FormName) -> tuple[FormName, ...]:
    """Every form it can step aside to from `source`, the highest first."""
    found: list[FormName] = []
    form = aside_form(holder, source)
    while form is not None:
        found.append(form)
        form = aside_form(holder, source, under=form) or aside_form(holder, form)
    return tuple(found)


def loses_work(holder: Holder, source: FormName | None, to: FormName) -> bool:
    """Would it lose what it did since its last saved point on its way from `source` down to `to`?"""
    if isinstance(holder, Job) and holder.saved_age_s == 0.0:
        return False
    if found := rule(holder, source, to):
        return found.loses_work
    between = aside_form(holder, source)
    if between is None or not holder.below(to, between):
        return False
    return loses_work(holder, source, between) or loses_work(holder, between, to)


def next_rung(holder: Holder, form: FormName) -> tuple[FormName, MoveRule | None]:
    """Where it goes next on its way to `form`: straight there, or by way of another form when there is no straight way.

    Returns:
        (next form, rule); the rule is None when its driver knows no way.
    """
    if holder.form is None:
        return form, None
    if found := rule(holder, holder.form, form):
        return form, found
    if holder.below(form, holder.form):
        lower = aside_form(holder, holder.form)
        return (lower, rule(holder, holder.form, lower)) if lower else (form, None)
    return holder.bottom, rule(holder, holder.form, holder.bottom)


def towards_top(holder: Holder) -> FormName | None:
    """The next form on the way up, or None when the driver has no way there from here."""
    return holder.top if rule(holder, holder.form, holder.top) else None


def is_active(holder: Holder) -> bool:
    """Does this job count against max_active_jobs?"""
    return isinstance(holder, Job) and holder.form in ("running", "frozen")


def gap_placed(holder: Holder) -> bool:
    return isinstance(holder, Job) and holder.spec.placement in ("gap", "window")


def gated(holder: Holder) -> bool:
    return isinstance(holder, Service) and holder.spec.gated


def in_use(service: Service) -> bool:
    """Does it answer, does somebody wait for it, or can that not be read?"""
    waits = any(waiting.n for waiting in service.demand.values())
    return service.active != 0 or waits or (service.spec.reads_busy and service.engine_active != 0)


def engine_idle(service: Service, since_s: float | None) -> bool:
    """Does the engine itself read idle, on a probe that began after `since_s`? Unread is busy."""
    if not service.spec.reads_busy:
        return True
    if service.run is not None and service.run.exit is not None:
        return True  # its leader ended: what is left of its tree is not asked any more
    read_s = service.engine_read_s
    return service.engine_active == 0 and read_s is not None and since_s is not None and read_s >= since_s
