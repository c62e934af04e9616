"""Who wants a device, in one order, and what it costs to push each of them aside."""

from __future__ import annotations

from collections.abc import Iterator

from headway.core.draft import LEASE_LANE
from headway.core.leases import waits, want_of
from headway.core.lifecycle import aside_form, loses_work
from headway.core.model import FormName, Holder, Job, Lease, Rank, Service, Snapshot, Want


def wants(s: Snapshot) -> Iterator[Want]:
    """All who want a form, strongest first: requests, leases, jobs, background, homes.

    Of each lane's queue only its first `policy.depth` entries beyond the places there are.
    """
    found = [want for sid in s.services if (want := _of_service(s.holders[sid], s))]
    for hid in s.present:
        holder = s.holders[hid]
        if isinstance(holder, Job) and holder.ended is None:
            moving = s.pending.get(hid)
            if holder.form != holder.bottom or (moving is not None and not moving.frees):
                found.append(_of_job(holder, s))
        elif (
            isinstance(holder, Lease) and not waits(holder, hid in s.pending) and (want := want_of(holder, s))
        ):
            found.append(want)
    places = s.policy.depth + (s.policy.max_active_jobs or len(s.devices))
    for lane, entries in sorted(s.queue.items()):
        if lane == LEASE_LANE:
            found += [
                want
                for _, hid in entries
                if isinstance(x := s.holders[hid], Lease) and (want := want_of(x, s))
            ]
        elif lane != "held":
            found += [_of_job(s.holders[hid], s) for _, hid in entries[:places]]
    return iter(sorted(found, key=lambda want: want.rank))


def _of_job(holder: Holder, s: Snapshot) -> Want:
    assert isinstance(holder, Job)
    rank = (Rank.JOB, holder.key, holder.id)
    return Want(
        holder=holder, form=holder.top, rank=rank, waited_s=s.now_s - holder.enqueued_s - holder.unaged_s
    )


def _of_service(holder: Holder, s: Snapshot) -> Want | None:
    assert isinstance(holder, Service)
    attended, background = holder.demand.get("attended"), holder.demand.get("background")
    top, here = holder.top, holder.form == holder.top
    if holder.retired and not here:
        return None
    waits = [attended.since_s] if attended and attended.n else []
    if holder.called_s is not None and not here:
        waits.append(holder.called_s)  # by a person, who is no less than a request
    since = list(waits)
    if holder.active and holder.active_since_s is not None and here:
        since.append(holder.active_since_s)
    if since:
        waited_s = s.now_s - min(waits) if waits else 0.0
        overdue = not here and waited_s >= s.policy.switch_after_s["attended"]
        rank = (Rank.OVERDUE if overdue else Rank.REQUEST, min(since), holder.id)
        return Want(holder=holder, form=top, rank=rank, attended=True, waited_s=waited_s)
    if background and background.n:
        waited_s = s.now_s - background.since_s
        late = waited_s >= s.policy.background_max_wait_s
        overdue = late and not here and waited_s >= s.policy.switch_after_s["background"]
        strength = Rank.OVERDUE if overdue else Rank.REQUEST if late else Rank.BACKGROUND
        rank = (strength, background.since_s, holder.id)
        return Want(holder=holder, form=top, rank=rank, attended=late, waited_s=waited_s)
    if holder.called_back and not here:
        return Want(
            holder=holder, form=top, rank=(Rank.REQUEST, holder.back_s or 0.0, holder.id), attended=True
        )
    moving_up = holder.id in s.pending and s.pending[holder.id].to == top
    comes_home = (holder.spec.keep_awake or s.prod_only_by is not None) and holder.dismissed_by is None
    if here or moving_up or comes_home:
        return Want(holder=holder, form=top, rank=(Rank.HOME, holder.since_s, holder.id))
    return None


def cost_to_push(victim: Holder, form: FormName | None = None) -> tuple[int, float, float, str]:
    """Smaller is cheaper: work that would be lost, then seconds to restore, then lowest rank or longest unused.

    Args:
        form: where it would go; None: the highest form that frees memory.
    """
    form = form or aside_form(victim)
    loses = int(form is not None and loses_work(victim, victim.form, form))
    rung = victim.form_named(form)
    restore_s = (rung.leave_s if rung else None) or 0.0
    if isinstance(victim, Job):
        return (loses, restore_s, -victim.key, victim.id)
    used_s = max(victim.since_s, victim.last_end_s or 0.0) if isinstance(victim, Service) else victim.since_s
    return (loses, restore_s, used_s, victim.id)
