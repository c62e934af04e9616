"""What the answers to commands are made of: whom a command means, and what became of it."""

from __future__ import annotations

from typing import Any

from headway.core.commands import Reply
from headway.core.draft import Draft
from headway.core.model import Holder, Job, Lease


def accepted(d: Draft, holder: str | None, **facts: Any) -> Reply:
    return Reply(accepted=True, code="accepted", facts=facts, holder=holder, rev=d.base.rev + 1)


def refused(d: Draft, code: str, holder: str | None = None, **facts: Any) -> Reply:
    return Reply(accepted=False, code=code, facts=facts, holder=holder, rev=d.base.rev)


def resolve(d: Draft, target: str) -> Holder | str:
    """The holder of that id, else the only living one of that name; else the code of the refusal."""
    if target in d.holders:
        return d.holders[target]
    named = [h for h in d.holders.values() if h.spec.name == target]
    living = [h for h in named if not (isinstance(h, Job | Lease) and h.ended)]
    if len(living) == 1:
        return living[0]
    if len(living) > 1:
        return "ambiguous"
    return max(named, key=lambda h: h.since_s) if named else "not_found"
