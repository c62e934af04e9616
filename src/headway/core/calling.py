"""What people say to a model server: come (`wake`, `start`), and go until it is needed again (`sleep`).

A call is a want like that of a request, until the server answers; from then on the usual rules decide. One that was
sent to sleep goes as soon as nobody uses it, and nothing but a request or a call brings it back. The later word counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headway.core import windows
from headway.core.commands import Reply, SetWish
from headway.core.draft import Draft
from headway.core.host_fit import aside_now
from headway.core.lifecycle import aside_form, in_use
from headway.core.model import Holder, Pending, Service, Snapshot, Verdict
from headway.core.replies import accepted, refused

WAKES = ("wake", "start")
VERBS = (*WAKES, "sleep")
NOTHING_SAID: dict[str, Any] = {
    "called_by": None,
    "called_s": None,
    "dismissed_by": None,
    "dismissed_s": None,
}


def ask(d: Draft, service: Service, command: SetWish) -> Reply:
    """One of these verbs on one service."""
    if d.other.get("mode", d.base.mode) == "shadow":
        return refused(d, "mode_shadow", service.id, target=service.id)
    done = _wake(d, service, command) if command.verb in WAKES else _sleep(d, service, command)
    if isinstance(done, Reply):
        return done
    d.event("service.asked", service.id, verb=command.verb, by=command.by)
    return accepted(d, service.id, wish=d.holders[service.id].wish, done=done)


def _wake(d: Draft, service: Service, command: SetWish) -> Reply | bool:
    """It ends what kept it aside, too. Refused where nothing that Headway may do brings it."""
    if service.retired:
        return refused(d, "retired", service.id, target=service.id)
    if not service.spec.argv and service.form == service.bottom:
        return refused(d, "not_ours", service.id, target=service.id, upstream=service.spec.upstream)
    if (window := windows.closing(service, d.view())) is not None:
        return refused(d, "no_model", service.id, target=service.id, window=window.id)
    done = _is_there(service, service.id in d.pending) and service.wish == "run"
    said = {**NOTHING_SAID} if done else {**NOTHING_SAID, "called_by": command.by, "called_s": d.now_s}
    if not done:
        said |= {"wish_by": command.by, "wish_s": d.now_s, "note": command.reason}
        said |= {"note_facts": {}, "failures": 0, "retry_at_s": None}
    d.put(replace(service, wish="run", **said))
    return done


def _sleep(d: Draft, service: Service, command: SetWish) -> Reply | bool:
    """Accepted where it is aside already: it takes back a call, and a pinned one stays where it is."""
    if aside_form(service, service.top) is None:
        return refused(d, "cannot_step_aside", service.id, target=service.id)
    said = {**NOTHING_SAID, "dismissed_by": command.by, "dismissed_s": d.now_s}
    said |= {
        "note": command.reason or service.note,
        "stayed_until_s": None,
    }  # a person asks: it is tried at once
    d.put(replace(service, **said))
    return service.form not in (None, service.top) and service.id not in d.pending


def _is_there(service: Service, moving: bool) -> bool:
    """Does it answer requests, with nobody about to send it away?"""
    opens = service.gate.wish == "open" or not service.spec.gated
    return service.form == service.top and not moving and opens


# ---------------------------------------------------------------- rules


def dismissed(holder: Holder, s: Snapshot) -> Verdict | None:
    """A person sent it to sleep, and nobody uses it now."""
    if not isinstance(holder, Service) or holder.dismissed_by is None or holder.form != holder.top:
        return None
    if in_use(holder):
        return None
    return Verdict(code="asked_sleep", facts={"form": aside_now(holder, s), "by": holder.dismissed_by})


# ---------------------------------------------------------------- records


def came_up(service: Service, pending: Pending | None) -> Service:
    """It is awake: by a move, or (None) by itself. What was said before that has been outlived."""
    begun_s = None if pending is None else pending.started_s
    if service.dismissed_s is None or (begun_s is not None and begun_s <= service.dismissed_s):
        return service
    return replace(service, dismissed_by=None, dismissed_s=None)


def wanted(holder: Holder) -> dict[str, Any]:
    """Why a model comes, for the audit: who called it, and how many requests wait for it. Nothing of others."""
    if not isinstance(holder, Service):
        return {}
    return {"called_by": holder.called_by, "waiting": sum(one.n for one in holder.demand.values())}


def all_may_come(d: Draft) -> None:
    """Whoever sleeps by somebody's word is not kept from coming back any longer."""
    for sid in sorted(d.services):
        service = d.holders[sid]
        assert isinstance(service, Service)
        d.put(replace(service, dismissed_by=None, dismissed_s=None))


def turned(d: Draft) -> None:
    """A call ends when it is answered, or failed for good; a mode that moves nobody keeps no word for later."""
    shadow = d.other.get("mode", d.base.mode) == "shadow"
    for sid in sorted(d.services):
        service = d.holders[sid]
        assert isinstance(service, Service)
        called = service.called_s is not None
        if shadow and (called or service.dismissed_s is not None):
            d.put(replace(service, **NOTHING_SAID))
        elif called and _is_over(service, service.id in d.pending):
            d.put(replace(service, called_by=None, called_s=None))


def _is_over(service: Service, moving: bool) -> bool:
    lost = service.form == service.bottom or not service.spec.argv  # no other way up is left to try
    failed = service.retry_at_s is not None and lost and not moving
    return _is_there(service, moving) or failed
