"""Why a holder is, or is not, running: the verdict of the last pass, or what its state says, and the sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.core import words
from headway.core.job_rows import running_facts
from headway.core.model import Holder, HolderId, Job, Lease, Service, Snapshot, Verdict
from headway.core.phrases import help_for, sentence
from headway.core.rows import Why
from headway.core.staying import keeps_memory
from headway.core.windows import closed_now
from headway.core.worked import ran_s

Verdicts = Mapping[HolderId, Verdict]


def explain(hid: HolderId, s: Snapshot, verdicts: Verdicts) -> Why:
    """Why that holder is, or is not, running.

    Raises:
        KeyError: there is no such holder.
    """
    holder = s.holders[hid]
    verdict = reason(holder, s, verdicts)
    facts = said(verdict, holder, s)
    state = words.state(holder, s)
    words_ = sentence(verdict.code, facts, s)
    own = verdict.code in ("not_released", "verifying") or words_.startswith(state)  # these say it themselves
    return Why(
        id=hid,
        kind=holder.kind,
        state=state,
        code=verdict.code,
        sentence=words_ if own else f"{state.replace('_', ' ')}: {words_}",
        facts=facts,
        until_s=_left_s(verdict, s),
        help=help_for(verdict.code, facts, hid, holder.kind),
    )


def reason(holder: Holder, s: Snapshot, verdicts: Verdicts) -> Verdict:
    """The verdict of the last pass; where there is none, or it only says "as planned", what the state itself says."""
    if isinstance(holder, Job) and holder.ended is not None:
        return Verdict(code=holder.ended)
    if isinstance(holder, Lease) and holder.ended is not None and holder.id not in s.pending:
        return Verdict(code=holder.ended, facts=holder.note_facts)
    verdict = verdicts.get(holder.id)
    if verdict is None or verdict.code in ("keeps", "goes"):
        return _plain(holder, s) or verdict or _unlooked(holder, s)
    return verdict


def _unlooked(holder: Holder, s: Snapshot) -> Verdict:
    """The pass looks at the first entries of a queue only, and at nobody who wants nothing."""
    return Verdict(code="behind" if words.state(holder, s) in ("queued", "waiting") else "unseen")


def _plain(holder: Holder, s: Snapshot) -> Verdict | None:
    """A reason from the state alone; None where the pass knows better."""
    state = words.state(holder, s)
    if holder.id in s.pending:
        pending = s.pending[holder.id]
        return Verdict(code="moving", facts={"to": pending.to, "since_s": s.now_s - pending.started_s})
    if isinstance(holder, Job):
        if holder.form == holder.top:
            return Verdict(code="runs")
        return Verdict(code="held", facts={"by": holder.wish_by}) if state == "held" else None
    if isinstance(holder, Lease):
        return Verdict(code=state) if state in ("granted", "counted", "overdue") else None
    if not isinstance(holder, Service):
        return Verdict(code="granted")
    if state == "failed":
        return Verdict(code="start_failed")
    if holder.form == holder.top:
        return Verdict(code="answers" if holder.active else "idle")
    if keeps_memory(holder):
        return Verdict(code="not_released", facts=holder.note_facts)
    if holder.wish == "hold":
        return Verdict(code="held", facts={"by": holder.wish_by})
    if waiting(holder) or holder.form is None:
        return None
    if s.mode == "shadow":  # where no request wakes it, and no window keeps it aside
        return Verdict(code="shadow")
    if (closed := closed_now(holder, s)) is not None:
        return closed
    if (expected := s.outlooks.get(holder.id)) is not None and expected.taken:
        return Verdict(code="gap_taken", facts=expected.taken)
    return Verdict(code="aside")


def said(verdict: Verdict, holder: Holder, s: Snapshot) -> dict[str, Any]:
    """The facts of a verdict, made into ages, with what the sentences need beside them."""
    facts = dict(verdict.facts)
    facts.setdefault("in_state_s", s.now_s - words.since_s(holder, s))
    facts.setdefault("devices", [words.label(d, s) for d in holder.devices])
    if (
        holder.note
        and facts.get("note") is None
        and verdict.code in ("backoff", "start_failed", "held", "failed")
    ):
        facts |= {**holder.note_facts, "note": holder.note}
    if verdict.code == "held":
        facts["since_s"] = None if holder.wish_s is None else s.now_s - holder.wish_s
    if (left_s := _left_s(verdict, s)) is not None:
        facts["in_s"] = left_s
    if holder.run is not None and holder.run.exit is not None:
        facts.setdefault("exit_code", holder.run.exit.code)
    if isinstance(holder, Job):
        if holder.exit_code is not None:
            facts["exit_code"] = holder.exit_code
        facts |= {
            "position": words.position(holder, s),
            "ran_s": ran_s(holder, s.now_s),
        }
        if verdict.code == "runs":
            facts |= running_facts(holder, s)
        facts["ended_s"] = None if holder.ended_s is None else s.now_s - holder.ended_s
    if isinstance(holder, Lease):
        facts = _of_lease(holder, s) | facts
        if (because := facts.get("because")) is not None:
            facts["why"] = sentence(str(because), facts, s)
    if isinstance(holder, Service):
        facts.setdefault("active", holder.active)
        facts["quiet_s"] = facts.get("quiet_s", quiet_s(holder, s))
        facts["dismissed_by"] = holder.dismissed_by
    return {key: value for key, value in facts.items() if value is not None}


def _of_lease(lease: Lease, s: Snapshot) -> dict[str, Any]:
    """Who, since when, up to how long, and why it was not let in where it was not."""
    facts: dict[str, Any] = {"by": lease.by, "pid": lease.pid, "position": words.position(lease, s)}
    if lease.granted_s is not None:
        facts["held_s"] = (lease.ended_s if lease.ended_s is not None else s.now_s) - lease.granted_s
    if lease.expires_s is not None and lease.ended is None:
        late_s = s.now_s - lease.expires_s
        facts |= {"late_s": late_s} if late_s >= 0 else {"left_s": -late_s}
    if lease.ended_s is not None:
        facts["ended_s"] = s.now_s - lease.ended_s
    if lease.would_s is not None:
        facts["would_s"] = lease.would_s
    return facts


def _left_s(verdict: Verdict, s: Snapshot) -> float | None:
    return None if verdict.until_s is None else max(0.0, verdict.until_s - s.now_s)


def quiet_s(service: Service, s: Snapshot) -> float | None:
    """Since its last attended request ended; None while it answers, and where there was none."""
    if service.active or service.last_end_s is None:
        return None
    return s.now_s - service.last_end_s


def waiting(service: Service) -> int:
    """Requests that wait for it."""
    return sum(w.n for w in service.demand.values())
