"""Leases and claims: devices of programs that Headway did not start. How they rank, wait, are asked to leave, and end.

A lease waits in the lane "lease", is granted by a move like any other, and ends by its program's word, by the end
of its processes, or by time. Its bytes count from the grant until the meter saw them go. A claim is there already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from headway.core.draft import LEASE_LANE, Draft, lane_of
from headway.core.model import (
    Action,
    Form,
    FormName,
    Holder,
    HolderId,
    Lease,
    LeaseEnd,
    Move,
    MoveRule,
    Pending,
    Rank,
    Service,
    Snapshot,
    Spec,
    Verdict,
    Want,
)

AGE_S = 60.0  # one point of priority is worth a minute of waiting
GRACE_S = 90.0  # how much longer it may wait while room is being made for it
UNREAD_S = 5.0  # past its limit a release waits for nothing but a reading
ASK_AGAIN_S = 60.0  # after one that was asked to leave kept its place
ENDS_BY_TIME: tuple[LeaseEnd, ...] = ("waited_out", "lapsed")
RETURN = MoveRule(
    source="granted", to="revoked", limit_s=60.0, frees=True, loses_work=True, overlaps_start=True
)
HOPELESS = ("never_fits", "no_device")  # no waiting helps


def spec_of(
    activity: str,
    moves: tuple[MoveRule, ...],
    need_bytes: int | None = None,
    count: int = 1,
    pinned_devices: tuple[str, ...] = (),
    min_residency_s: float = 10.0,
) -> Spec:
    """What a lease is asked for.

    Args:
        moves: the table of the driver "lease".
        need_bytes: on each of its devices; None: each device alone.
        count: how many devices.
        pinned_devices: which, by name, uuid or index; empty: any that fit.
    """
    return Spec(
        name=activity,
        kind="lease",
        driver="lease",
        forms=(Form(name="granted", declared_bytes=need_bytes), Form(name="revoked")),
        moves=moves,
        count=count,
        pinned_devices=pinned_devices,
        min_residency_s=min_residency_s,
    )


# ---------------------------------------------------------------- what is true of one


def rank_key(asked_s: float, priority: int) -> float:
    """Smaller is sooner: waiting a minute is worth one point of priority."""
    return asked_s - AGE_S * priority


def waits(lease: Lease, moving: bool) -> bool:
    """Does it stand in line?"""
    return lane_of(lease, moving) == LEASE_LANE


def mark(lease: Lease) -> str | None:
    """What HEADWAY_LEASE says in the environment of its program, and of all that this starts. Secret."""
    return f"{lease.id}.{lease.ask_key}" if lease.ask_key is not None else None


def expired(lease: Lease, now_s: float) -> bool:
    return lease.ended is None and lease.expires_s is not None and lease.expires_s <= now_s


def overdue(lease: Lease, now_s: float) -> bool:
    """Past its time, and its processes live: it is counted, and leaves for whoever is next."""
    return expired(lease, now_s) and lease.pid is not None and lease.form != lease.bottom


def lapsed(lease: Lease, now_s: float) -> bool:
    """Past its time, and nothing but its renewals ever said that it lives."""
    return expired(lease, now_s) and lease.pid is None


def has_let_go(holder: Holder) -> bool:
    """May its memory count as free once it is measured free? Not while a program may still take what it was granted."""
    return not isinstance(holder, Lease) or holder.ended is not None


def is_over(holder: Holder, moving: bool) -> bool:
    """Is it a lease or claim that is over for good? What its processes still hold is not ours any more."""
    return isinstance(holder, Lease) and holder.ended is not None and not moving


def blocks(holder: Holder, other: Holder) -> bool:
    """Is this a claim that keeps that one off its devices?"""
    return (
        isinstance(holder, Lease)
        and holder.block
        and (other.kind == "job" or (other.kind == "lease" and other.id != holder.id))
    )


# ---------------------------------------------------------------- rules


def want_of(lease: Lease, s: Snapshot) -> Want | None:
    """What it wants: its grant, or to keep it. One that is over, or on its way out, wants nothing."""
    moving = s.pending.get(lease.id)
    if lease.ended is not None or (moving is not None and moving.frees):
        return None
    if lapsed(lease, s.now_s):  # `patience` ends it in this same pass: nothing is begun for it
        return None
    if waits(lease, moving is not None):
        rank = (Rank.LEASE, lease.key, lease.id)
        return Want(holder=lease, form=lease.top, rank=rank, waited_s=s.now_s - lease.asked_s)
    # behind those that wait, so that they may ask it to leave; the rules say who may
    strength = Rank.HOME if overdue(lease, s.now_s) else Rank.LEASE
    return Want(holder=lease, form=lease.top, rank=(strength, float("inf"), lease.id))


def priority_of(want: Want) -> int:
    """The priority that was declared for it; no ageing, and nothing for being attended."""
    holder = want.holder
    if isinstance(holder, Service):
        kinds = ("attended",) if want.attended and "attended" in holder.demand else tuple(holder.demand)
        return max((holder.demand[kind].priority_max for kind in kinds), default=50)
    return int(getattr(holder, "priority", getattr(holder.spec, "priority", 50)))


def yields(want: Want, victim: Holder, s: Snapshot) -> Verdict | None:
    """May this lease be asked to leave for that want? None: yes, or it is no lease."""
    if not isinstance(victim, Lease):
        return None
    facts = {"holder": victim.id, "by": victim.by, "held_s": s.now_s - (victim.granted_s or victim.since_s)}
    if victim.kind == "claim":
        kept_off = blocks(victim, want.holder)
        return Verdict(code="blocked" if kept_off else "claimed", facts={**facts, "pid": victim.pid})
    until_s = victim.expires_s
    if overdue(victim, s.now_s):
        until_s = None
    elif not victim.preemptible:
        return Verdict(code="not_preemptible", facts=facts, until_s=until_s)
    elif (own := priority_of(want)) < victim.priority:
        return Verdict(
            code="outranked", facts={**facts, "priority": victim.priority, "own": own}, until_s=until_s
        )
    if victim.pushed_s is not None and victim.since_s >= victim.pushed_s:
        again_s = victim.since_s + ASK_AGAIN_S
        if again_s > s.now_s:
            return Verdict(code="kept_its_place", facts=facts, until_s=again_s)
    return None


# ---------------------------------------------------------------- time


def patience(
    s: Snapshot, verdicts: Mapping[HolderId, Verdict], placed: Iterable[HolderId], actions: Iterable[Action]
) -> dict[HolderId, Verdict]:
    """Leases whose time is up in this pass: they waited too long or in vain, were not renewed, or did not leave.

    Args:
        placed: who has a place in the plan: room is being made for him, so he is given `GRACE_S` more.
    """
    going, begun = set(placed), {action.holder for action in actions if isinstance(action, Move)}
    found: dict[HolderId, Verdict] = {}
    for number, lease in enumerate(_waiting(s), start=1):
        no = verdicts.get(lease.id)
        late_s = _limit_at_s(lease) + (GRACE_S if lease.id in going else 0.0)
        in_vain = no is not None and no.code in HOPELESS
        if lapsed(lease, s.now_s):
            found[lease.id] = Verdict(code="lapsed")
        elif lease.id not in begun and (in_vain or late_s <= s.now_s) and s.mode == "live":
            found[lease.id] = Verdict(code="waited_out", facts=_why_not(no, number, s))
    for lease in _present(s):
        moving = s.pending.get(lease.id)
        if lapsed(lease, s.now_s):
            found[lease.id] = Verdict(code="lapsed")
        elif moving is not None and _may_keep(lease, moving) and moving.limit_at_s <= s.now_s:
            found[lease.id] = Verdict(code="not_left")
    return found


def _why_not(no: Verdict | None, number: int, s: Snapshot) -> dict[str, Any]:
    """Why it was not let in, in facts that stay true when it is over: who is there, for how long, and its number."""
    facts: dict[str, Any] = {"position": number}
    if no is not None:
        facts |= {"because": no.code, **no.facts}
        if no.until_s is not None:
            facts["in_s"] = max(0.0, no.until_s - s.now_s)
    return facts


def unrecorded(s: Snapshot) -> bool:
    """Is there one, in shadow mode, of which it is not known yet how long it would have waited?"""
    return any(lease.would_s is None for lease in _waiting(s))


def would(s: Snapshot, live: Mapping[HolderId, Verdict]) -> dict[HolderId, Verdict]:
    """What is said in shadow mode of those that wait, from the verdicts of the same pass in live mode."""
    found = {}
    for lease in _waiting(s):
        no = live.get(lease.id)
        if lease.would_s is None and no is not None and no.code == "goes":
            found[lease.id] = Verdict(code="shadow", facts={"would_s": s.now_s - lease.asked_s})
        elif lease.would_s is None and no is not None:
            found[lease.id] = Verdict(code="shadow", facts={"because": no.code, **no.facts})
    return found


def _may_keep(lease: Lease, moving: Pending) -> bool:
    """Was it asked to leave for somebody, and may have its lease back if it does not?"""
    return moving.frees and lease.ended is None and lease.wish == "run"


def times(s: Snapshot) -> Iterator[float]:
    """When time alone changes something for a lease."""
    for lease in _waiting(s):
        if lease.wait_limit_s is not None:
            yield _limit_at_s(lease)
            yield _limit_at_s(lease) + GRACE_S
    for lease in (*_waiting(s), *_present(s)):
        if lease.expires_s is not None and lease.ended is None:
            yield lease.expires_s


def _limit_at_s(lease: Lease) -> float:
    return float("inf") if lease.wait_limit_s is None else lease.asked_s + lease.wait_limit_s


def _waiting(s: Snapshot) -> Iterator[Lease]:
    for _, hid in s.queue.get(LEASE_LANE, ()):
        if isinstance(lease := s.holders[hid], Lease):
            yield lease


def _present(s: Snapshot) -> Iterator[Lease]:
    for hid in s.present:
        if isinstance(lease := s.holders[hid], Lease):
            yield lease


# ---------------------------------------------------------------- records


def granted(d: Draft, lease: Lease) -> Lease:
    """A grant was answered: its time begins."""
    fencing = int(d.other.get("fencing", d.base.fencing)) + 1
    d.set(fencing=fencing)
    d.event("lease.granted", lease.id, fencing=fencing, waited_s=d.now_s - lease.asked_s)
    expires_s = None if lease.ttl_s is None else d.now_s + lease.ttl_s
    return replace(lease, granted_s=d.now_s, expires_s=expires_s, fencing=fencing)


def end(d: Draft, lease: Lease, how: LeaseEnd, facts: Mapping[str, Any] | None = None) -> None:
    """It is over for its program. Its bytes count on until a reading after this shows them gone."""
    if lease.ended is not None:
        return
    moving = d.pending.get(lease.id)
    if moving is not None and moving.frees and how in ("released", "gone"):
        how = "revoked"  # it did as it was asked
    since_s = lease.asked_s if lease.granted_s is None else lease.granted_s
    for_s: dict[str, Any] = {"waited_s" if lease.granted_s is None else "held_s": d.now_s - since_s}
    if how == "released" and gave_up(d, lease):
        for_s["gave_up"] = True
    over = replace(lease, ended=how, ended_s=d.now_s, note_facts={**for_s, **(facts or {})})
    d.put(over)
    because = (facts or {}).get("because")
    told = {"because": because} if because in HOPELESS else {}
    d.event(f"{lease.kind}.ended", lease.id, how=how, name=lease.spec.name, by=lease.by, **told, **for_s)
    if waits(lease, moving is not None):
        return
    at = {*lease.devices, *lease.seen_bytes, *(moving.devices if moving is not None else ())}
    devices = tuple(sorted(at))
    d.touch(devices)
    d.move(
        Pending(
            holder=lease.id,
            source=_held_form(lease, moving),
            to=lease.bottom,
            devices=devices,
            exclusive=False,
            frees=True,
            started_s=d.now_s,
            limit_at_s=d.now_s + d.base.policy.free_limit_s + UNREAD_S,
            step="answered",
            answered_s=d.now_s,
            shortfall_told=moving is not None and moving.shortfall_told,
        )
    )


def gave_up(d: Draft, lease: Lease) -> bool:
    """Does it leave before it had anything? In shadow mode its program runs without a grant, and had its time."""
    live = d.other.get("mode", d.base.mode) == "live"
    return lease.granted_s is None and lease.would_s is None and live


def _held_form(lease: Lease, moving: Pending | None) -> FormName | None:
    if moving is not None and not moving.frees:
        return moving.to  # it may have been told of the grant already
    return lease.form


def decided(d: Draft, verdicts: Mapping[HolderId, Verdict]) -> None:
    """Those whose time was up in this pass end here; one that did not leave in time has its lease back."""
    for hid, verdict in verdicts.items():
        lease = d.holders.get(hid)
        if not isinstance(lease, Lease):
            continue
        for how in ENDS_BY_TIME:
            if verdict.code == how:
                end(d, lease, how, verdict.facts)
        if verdict.code == "shadow" and lease.would_s is None and "would_s" in verdict.facts:
            d.put(replace(lease, would_s=verdict.facts["would_s"]))
            d.event("lease.would", hid, waited_s=verdict.facts["would_s"])
        if verdict.code == "not_left":
            d.end_move(hid)
            d.put(replace(lease, since_s=d.now_s))
            d.event("lease.kept", hid)
