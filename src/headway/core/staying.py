"""Services that somebody else started and that do not step aside as asked: nothing lower is ours to use.

Such a move ends. The service is looked at again and serves on, or sleeps with its memory counted, and it is asked again
only after a growing pause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headway.core import ends, fit
from headway.core.draft import Draft
from headway.core.facts import MoveAnswered
from headway.core.model import (
    TOLERANCE_BYTES,
    Form,
    FormName,
    Holder,
    HolderId,
    Pending,
    Service,
    Snapshot,
    Verdict,
)

KEPT = "memory_not_released"  # the note on one that says it stepped aside and holds its memory


def stayed(holder: Holder, s: Snapshot) -> Verdict | None:
    """Did it not step aside when it was asked a moment ago? Then it is not asked again yet."""
    until_s = holder.stayed_until_s if isinstance(holder, Service) else None
    if until_s is None or until_s <= s.now_s:
        return None
    facts = {"holder": holder.id, "note": holder.note, **holder.note_facts}
    return Verdict(code="stayed", facts=facts, until_s=until_s)


def keeps_memory(holder: Holder) -> bool:
    """Does it say that it stepped aside, and was its memory still there when that was given up?"""
    return holder.note == KEPT and holder.form not in (None, holder.top, holder.bottom)


def too_much(holder: Holder, form: Form, held: int) -> bool:
    """Is that more than a sleeper may keep? Where nobody declared what that is: most of what it had."""
    if form.declared_bytes is not None:
        return held > form.declared_bytes + TOLERANCE_BYTES
    return held > (fit.need(holder, holder.top) or 0) // 2


def let_go(holder: Holder) -> bool:
    """Is what it kept gone by now?"""
    expected = fit.need(holder, holder.form) or 0
    return all(held <= expected + TOLERANCE_BYTES for held in holder.seen_bytes.values())


def decided(d: Draft, verdicts: Mapping[HolderId, Verdict]) -> None:
    """Moves that were given up in this pass end here."""
    for hid, pending in list(d.pending.items()):
        verdict = verdicts.get(hid)
        if verdict is not None and verdict.code == "given_up":
            _given_up(d, d.holders[hid], pending)


def _given_up(d: Draft, holder: Holder, pending: Pending) -> None:
    late = {"limit_s": pending.limit_at_s - pending.started_s}
    if not pending.frees or not isinstance(holder, Service):
        fact = MoveAnswered(holder=holder.id, to=pending.to, error="limit_passed", facts=late)
        _late(d, pending, late)
        ends.not_taken(d, holder, pending, fact)
        return
    held = kept(d, pending) or {}
    form: FormName | None = None  # what it did of it is seen by a look that begins after this
    note, facts = holder.note, dict(holder.note_facts)
    if held and not pending.shortfall_told:
        tell_shortfall(d, pending)
    d.end_move(holder.id)
    d.touch(pending.devices)
    if pending.step == "answered":  # it sleeps, by its own word, and its memory is counted as it is measured
        form, note = pending.to, KEPT
        names = {d.devices[device].name: bytes_ for device, bytes_ in sorted(held.items())}
        facts = {"to": form, "held": names or None, "expected_bytes": fit.need(holder, form) or 0}
    elif not pending.failed:
        _late(d, pending, late)
        note, facts = "limit_passed", dict(late)
    stays = holder.stayed + 1
    d.put(
        replace(
            holder,
            form=form,
            since_s=d.now_s,
            ready=False,
            note=note,
            note_facts=facts,
            stayed=stays,
            stayed_until_s=d.now_s + ends.backoff_s(d, stays),
        )
    )


def _late(d: Draft, pending: Pending, facts: Mapping[str, float]) -> None:
    facts_ = {"form": pending.to, "source": pending.source, "reason": "limit_passed", **facts}
    d.event("move.failed", pending.holder, **facts_)


def kept(d: Draft, pending: Pending) -> Mapping[str, int] | None:
    """Bytes that one which says that it stepped aside still holds, by device; None while that is not read."""
    if not pending.frees or pending.step != "answered":
        return None
    return fit.released(pending, d.holders[pending.holder], d.view())


def tell_shortfall(d: Draft, pending: Pending) -> bool:
    """Say that it says it stepped aside and the memory is still there. Once for all rungs of a move."""
    held = kept(d, pending)
    if held:
        holder = d.holders[pending.holder]
        pid = holder.run.pid if holder.run else None
        d.event("memory.not_released", holder.id, held=held, form=pending.to, pid=pid)
    return bool(held)
