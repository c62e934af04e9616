"""The gate's table from the snapshot: one row per service, with the facts of a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from headway.core import phrases, view, windows, wire, words
from headway.core.fit import Plan, placements
from headway.core.model import (
    TOLERANCE_BYTES,
    Holder,
    HolderId,
    Job,
    Lease,
    Rank,
    Service,
    Snapshot,
    Verdict,
    Want,
)

FAILED_CODES = (
    "not_ours",
    "never_fits",
    "no_device",
    "crowded_out",
)  # waiting does not help: answered 503 at once


def rows(s: Snapshot, verdicts: Mapping[HolderId, Verdict]) -> dict[str, wire.Service]:
    """The whole table. Changes only when something a gate must know changed: no ages in it."""
    plan = Plan(s)  # of nobody's wishes yet: where everybody stands
    return {
        service.id: _row(service, s, verdicts, plan)
        for sid in s.services
        if (service := s.service(sid)) is not None and service.spec.gated
    }


def _row(service: Service, s: Snapshot, verdicts: Mapping[HolderId, Verdict], plan: Plan) -> wire.Service:
    spec, window = service.spec, windows.over(service.id, s)
    state = _state(service, s, verdicts.get(service.id))
    return wire.Service(
        name=service.id,
        rev=service.gate.rev,
        gate=service.gate.wish,
        state=state,
        upstream=service.upstream if service.form != service.bottom else None,
        key_file=spec.key_file,
        model=spec.upstream_model,
        names=spec.models,
        port=spec.gate_port,
        max_active=spec.max_active,
        queue_max=spec.queue_max,
        max_wait_s=dict(spec.max_wait_s),
        wake_limit_s=spec.wake_limit_s,
        on_cancel=spec.on_cancel,
        probes=_probes(service, s),
        word=words.service_state(service, s.pending.get(service.id)),
        window=window.kind if window is not None else None,
        why=_why(service, s, verdicts, plan, state == "failed") if state != "awake" else {},
    )


def _state(
    service: Service, s: Snapshot, verdict: Verdict | None
) -> Literal["aside", "waking", "awake", "failed"]:
    pending = s.pending.get(service.id)
    if s.mode == "live" and windows.closing(service, s):
        return "failed"
    if service.form == service.top and pending is None and not service.retired:
        return "awake"
    if pending is not None and pending.to == service.top and not service.retired:
        return "waking"
    # one that could not be woken is started anew from the bottom, so waiting helps: see rules.no_way_back
    anew = service.form not in (None, service.top, service.bottom) and bool(service.spec.argv)
    failing = service.failures >= 2 and (service.retry_at_s or 0.0) > s.now_s and not anew
    stopped_by_hand = service.wish != "run" or service.retired
    if failing or stopped_by_hand or (verdict is not None and verdict.code in FAILED_CODES):
        return "failed"
    return "aside"


def _probes(service: Service, s: Snapshot) -> tuple[str, ...]:
    """What may be asked of its server now. One that is being moved is left alone, one that is awake needs no list."""
    sleeps = service.form not in (None, service.top, service.bottom)
    return service.spec.asleep_probes if sleeps and service.id not in s.pending else ()


def _why(
    service: Service, s: Snapshot, verdicts: Mapping[HolderId, Verdict], plan: Plan, failed: bool
) -> dict[str, Any]:
    """Facts of a refusal, without ages: a row that changes by the second would be sent by the second."""
    if failed and (window := windows.closing(service, s)) is not None:
        return {"code": "no_model", "window": window.id, "until_wall_s": window.end_wall_s}
    verdict = view.reason(service, s, verdicts)
    if verdict.code in ("aside", "gap_taken"):
        verdict = _blocked(service, s, plan) or Verdict(code="aside")
    by_hand = failed and service.wish != "run" and verdict.code not in FAILED_CODES
    facts: dict[str, Any] = {"code": "held" if by_hand else verdict.code}
    if pids := verdict.facts.get("pids"):
        facts |= {"activity": f"pid {pids[0]}", "note": "outside Headway", "preemptible": False}
        steps = verdict.facts["outside_bytes"] // TOLERANCE_BYTES  # what a desktop holds changes all the time
        facts |= {"pids": list(pids), "outside_bytes": steps * TOLERANCE_BYTES}
    elif (holder := _in_the_way(service, verdict, s)) is not None:
        facts |= {"activity": holder.id, "note": holder.spec.name, "preemptible": preemptible(holder)}
        facts |= _times(holder, s)
    if service.note:
        facts.setdefault("note", service.note)
    if failed:
        known = ("need_bytes", "devices") if verdict.code in FAILED_CODES else ()
        facts |= {key: verdict.facts[key] for key in known if key in verdict.facts}
        facts["message"] = f"{service.id}: {_words(service, verdict, s)}."
    return facts


def _times(holder: Holder, s: Snapshot) -> dict[str, Any]:
    """Since when it holds what it holds, and until when at most: instants, of which the gate makes ages."""
    if holder.form in (None, holder.bottom):
        return {}
    lease = holder if isinstance(holder, Lease) else None
    since_s = holder.since_s if lease is None or lease.granted_s is None else lease.granted_s
    until = {} if lease is None or lease.expires_s is None else {"until_s": lease.expires_s}
    return {"since_s": since_s, **until, "boot": s.boot_id}


def _words(service: Service, verdict: Verdict, s: Snapshot) -> str:
    if verdict.code in ("backoff", "start_failed") and service.note:
        return phrases.note(service.note, service.note_facts, s)
    lasting = {key: value for key, value in verdict.facts.items() if not key.endswith("_s")}
    return phrases.sentence(verdict.code, lasting, s)


def _in_the_way(service: Service, verdict: Verdict, s: Snapshot) -> Holder | None:
    """Who holds the memory it would need."""
    named = [verdict.facts.get(key) for key in ("holder", "job", "service")]
    named += [*verdict.facts.get("moving", ()), *verdict.facts.get("victims", ())]
    found = (s.holders.get(str(hid)) for hid in named)
    return next((holder for holder in found if holder is not None and holder.id != service.id), None)


def _blocked(service: Service, s: Snapshot, plan: Plan) -> Verdict | None:
    """What keeps a service that nobody asks for from just starting; None when there is room."""
    want = Want(holder=service, form=service.top, rank=(Rank.REQUEST, s.now_s, service.id))
    found: Verdict | None = None
    for devices in placements(want, plan):
        short = plan.short_on(devices, want)
        if not short:
            return None
        found = found or next(iter(short.values()))
    return found


def preemptible(holder: Holder) -> bool:
    """May a request have its memory before it is done?"""
    return isinstance(holder, Job) or (isinstance(holder, Lease) and holder.preemptible)
