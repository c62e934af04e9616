"""The commands about leases and claims: ask, renew, end, count. One that cannot be done is refused here."""

from __future__ import annotations

from dataclasses import replace

from headway.core import fit, leases
from headway.core.commands import AskLease, Claim, EndLease, RenewLease, Reply, SetWish
from headway.core.draft import LEASE_LANE, Draft
from headway.core.model import Form, Lease, Spec
from headway.core.readings import verify
from headway.core.replies import accepted, refused, resolve

ENDED_KEPT_S = 600.0  # so that whoever waited can read how it ended
LINE_MAX = 512
ARRIVAL_S = 1e-4  # keeps those that are asked for in one turn in the order in which they came


def ask(d: Draft, command: AskLease) -> Reply:
    """Into the line, or the lease that the same ask made before."""
    if (before := _asked_before(d, command)) is not None:
        return accepted(d, before.id, name=before.spec.name)
    if command.pid is None and command.ttl_s is None:
        return refused(d, "needs_ttl")
    if len(d.lane(LEASE_LANE)) >= LINE_MAX:
        return refused(d, "line_full", waiting=LINE_MAX)
    _forget(d)
    number = _number(d)
    remote = command.pid is None and command.ttl_s is not None
    lease = Lease(
        id=f"L{number}",
        spec=command.spec,
        forms=command.spec.forms,
        form=command.spec.forms[-1].name,
        since_s=d.now_s,
        priority=command.priority,
        preemptible=command.preemptible,
        by=command.by,
        purpose=command.purpose,
        ask_key=command.ask_key,
        key=leases.rank_key(d.now_s, command.priority) + number * ARRIVAL_S,
        asked_s=d.now_s,
        wait_limit_s=command.wait_limit_s,
        ttl_s=command.ttl_s,
        expires_s=d.now_s + (command.ttl_s or 0.0) if remote else None,
        pid=command.pid,
        start_ticks=command.start_ticks,
        boot_id=d.base.boot_id,
    )
    d.put(lease)
    d.event("lease.added", lease.id, name=lease.spec.name, by=lease.by, pid=lease.pid)
    return accepted(d, lease.id, name=lease.spec.name)


def claim(d: Draft, command: Claim) -> Reply:
    """Count it from now on, where it is."""
    if command.pid is None and command.match is None:
        return refused(d, "needs_process")
    for other in (d.holders[hid] for hid in sorted(d.leases)):
        same = (command.pid, command.start_ticks) if command.pid is not None else command.match
        its = (other.pid, other.start_ticks) if isinstance(other, Lease) and command.pid is not None else None
        if isinstance(other, Lease) and other.ended is None and same in (its, other.match):
            return refused(d, "already_counted", other.id, pid=command.pid, other=other.id)
    spec = Spec(
        name=command.name,
        kind="claim",
        driver="lease",
        forms=(Form(name="granted", declared_bytes=command.need_bytes or 0), Form(name="revoked")),
        moves=(leases.RETURN,),  # by its own end: it is never asked to leave
        count=len(command.devices),
        pinned_devices=command.devices,
    )
    devices = fit.resolve(spec, d.view())
    if devices is None:
        return refused(d, "unknown_device", devices=command.devices)
    _forget(d)
    counted = Lease(
        id=f"C{_number(d)}",
        kind="claim",
        spec=spec,
        forms=spec.forms,
        form=spec.forms[0].name,
        since_s=d.now_s,
        devices=devices or (tuple(d.devices) if len(d.devices) == 1 else ()),
        block=command.block,
        by=command.by,
        purpose=command.purpose,
        asked_s=d.now_s,
        granted_s=d.now_s,
        pid=command.pid,
        start_ticks=command.start_ticks,
        boot_id=d.base.boot_id,
        match=command.match,
    )
    d.put(counted)
    d.event("claim.added", counted.id, name=command.name, by=command.by, pid=command.pid)
    return accepted(d, counted.id, name=command.name, done=True)


def end(d: Draft, command: EndLease) -> Reply:
    """Give it back. Safe to ask for twice."""
    lease = _find(d, command.target)
    if isinstance(lease, Reply):
        return lease
    leases.end(d, lease, command.how)
    if (moving := d.pending.get(lease.id)) is not None:
        verify(d, moving)  # what has no device is free at once
    return accepted(d, lease.id, done=lease.id not in d.pending)


def renew(d: Draft, command: RenewLease) -> Reply:
    """Its time begins anew. Too late is too late: somebody else may hold the device by now."""
    lease = _find(d, command.target)
    if isinstance(lease, Reply):
        return lease
    if lease.ended is not None or leases.lapsed(lease, d.now_s):
        return refused(d, "lease_over", lease.id, target=lease.id, ended=lease.ended or "lapsed")
    ttl_s = command.ttl_s if command.ttl_s is not None else lease.ttl_s
    if ttl_s is not None and (lease.granted_s is not None or lease.pid is None):
        lease = replace(lease, ttl_s=ttl_s, expires_s=d.now_s + ttl_s)
        d.put(lease)
    return accepted(d, lease.id, done=True, expires_s=lease.expires_s)


def set_wish(d: Draft, lease: Lease, command: SetWish) -> Reply:
    """The verbs that end something end a lease that waits, a claim, and a lease that is preemptible or overdue."""
    if command.verb not in ("stop", "kill", "cancel"):
        return refused(d, "not_for_leases", lease.id, target=lease.id, verb=command.verb)
    if lease.ended is not None:
        return refused(d, "lease_over", lease.id, target=lease.id, ended=lease.ended)
    if lease.kind == "claim" or leases.waits(lease, lease.id in d.pending):
        return end(d, EndLease(target=lease.id, how="cancelled", by=command.by))
    if not (lease.preemptible or leases.overdue(lease, d.now_s)):
        return refused(d, "lease_stays", lease.id, target=lease.id, pid=lease.pid)
    d.put(replace(lease, wish="stop", wish_by=command.by, wish_s=d.now_s))
    d.event("lease.asked", lease.id, verb=command.verb, by=command.by)
    return accepted(d, lease.id, wish="stop", done=False)


def _find(d: Draft, target: str) -> Lease | Reply:
    found = resolve(d, target)
    if isinstance(found, Lease):
        return found
    if not isinstance(found, str):
        return refused(d, "not_a_lease", found.id, target=target)
    number = target[1:]
    if target[:1] in ("L", "C") and number.isdigit() and int(number) < _next(d):
        return refused(d, "lease_over", target=target)
    return refused(d, found, target=target, kind="lease")


def _asked_before(d: Draft, command: AskLease) -> Lease | None:
    if command.ask_key is None:
        return None
    known = (h for hid in sorted(d.leases) if isinstance(h := d.holders[hid], Lease) and h.ended is None)
    return next((lease for lease in known if lease.ask_key == command.ask_key), None)


def _next(d: Draft) -> int:
    return int(d.other.get("next_lease", d.base.next_lease))


def _number(d: Draft) -> int:
    number = _next(d)
    d.set(next_lease=number + 1)
    return number


def _forget(d: Draft) -> None:
    """Those that ended long ago; how they ended stays in the audit."""
    for hid in sorted(d.leases):
        lease = d.holders[hid]
        over_s = lease.ended_s if isinstance(lease, Lease) and hid not in d.present else None
        if over_s is not None and over_s < d.now_s - ENDED_KEPT_S:
            d.drop(hid)
