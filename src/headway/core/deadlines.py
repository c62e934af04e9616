"""How long a victim has to step aside. One clock for each wake, for all its victims, from its first release on.

The victim's own measure: twice the time it has seldom needed more than, at least 10 s, at most a minute. Only successes
count, so failures never raise it. Whoever is stuck when it is over is stopped hard: see steps.escalate.
"""

from __future__ import annotations

from math import ceil

from headway.core import windows
from headway.core.model import Form, FormName, Holder, MoveRule, Service, Snapshot

SHORTEST_S, LONGEST_S = 10.0, 60.0
LEAST_S = 5.0  # for one that is asked when the clock of its wake has almost run down
SELDOM = 0.9


def seldom_more_s(form: Form) -> float | None:
    """What nine of its last ten successes needed at most; None before the first.

    >>> seldom_more_s(Form(name="parked", enters_s=(3.0, 1.0, 2.0)))
    3.0
    """
    times_s = sorted(form.enters_s)
    return times_s[ceil(SELDOM * len(times_s)) - 1] if times_s else form.enter_s


def release_limit_s(holder: Holder, to: FormName, found: MoveRule, cause: str | None, s: Snapshot) -> float:
    """Seconds that a freeing move may take before the next lower form is asked for.

    Args:
        cause: for whom it steps aside, or the code of a rule.
    """
    least_s = (holder.spec.stop_grace_s if to == holder.bottom else 0.0) + LEAST_S
    waker = s.service(cause) if cause is not None else None
    limit_s = max(own_limit_s(holder, to, found, waker, s), least_s)
    began_s = _began_s(waker, s) if waker is not None else None
    if began_s is None:
        return limit_s
    asked = (p for p in s.pending.values() if p.frees and p.cause == cause and p.rung == 0)
    longest_s = max((p.limit_at_s - p.started_s for p in asked), default=0.0)
    return max(began_s + max(limit_s, longest_s) - s.now_s, least_s)


def own_limit_s(holder: Holder, to: FormName, found: MoveRule, waker: Service | None, s: Snapshot) -> float:
    """By its own measure, never above its driver's limit. A slow_wake window gives it the whole minute."""
    form = holder.form_named(to)
    takes_s = (seldom_more_s(form) if form else None) or found.takes_s
    if takes_s is None:
        return found.limit_s
    if waker is not None and windows.over(waker.id, s, "slow_wake"):
        return min(windows.WAKE_S, found.limit_s)
    return min(LONGEST_S, max(SHORTEST_S, 2 * takes_s), found.limit_s)


def _began_s(waker: Service, s: Snapshot) -> float | None:
    """When the first of its victims was asked, for those who wait now; None: this one is the first."""
    called = [waker.called_s] if waker.called_s is not None else []
    since_s = min([*called, *(w.since_s for w in waker.demand.values() if w.n)], default=s.now_s)
    pushed = (s.holders[hid] for hid in s.present if s.holders[hid].pushed_by == waker.id)
    return min((p.pushed_s for p in pushed if p.pushed_s is not None and p.pushed_s >= since_s), default=None)
