"""Whom a want pushes aside: the cheapest set of weaker holders whose stepping aside makes room for it."""

from __future__ import annotations

from headway.core import backfill, fit, gaps, host_fit, rank, windows
from headway.core.fit import Devices, Leaving, Plan
from headway.core.lifecycle import loses_work
from headway.core.model import FormName, Holder, Job, Rank, Snapshot, Verdict, Want
from headway.core.push import PUSH, WHETHER


def place_of(want: Want, no: Verdict, plan: Plan, s: Snapshot) -> dict[str, FormName]:
    """Over the count of jobs: the running one whose place it takes, the lowest in rank that loses nothing by it.

    Returns:
        (its id: where it goes), {} when there is none, when one is not enough, or when `no` is no matter of count.
    """
    if no.code != "slots" or not 0 < no.facts["limit"] == no.facts["active"]:
        return {}
    victims = plan.lane(want.holder.lane).weakest if isinstance(want.holder, Job) else ()
    for victim in victims:
        form, _ = plan.form_of(victim)
        if form == victim.top and not any(rule(want, victim, plan, s) for rule in WHETHER):
            return {victim.id: host_fit.step_forms(victim, form, s)[0]}
    return {}


def cheapest_room(
    want: Want, plan: Plan, s: Snapshot, must: Leaving
) -> tuple[tuple[Devices, Leaving] | None, list[Verdict]]:
    """The devices on which it makes the least trouble: where nobody has to leave, else where the cheapest have to.

    Returns:
        ((devices, who goes to which form), []), or (None, why not on each set of devices).
    """
    best: tuple[tuple[float, ...], Devices, Leaving] | None = None
    if no := backfill.place_kept(want, plan, s):
        return None, [no]
    refusals = []
    victims = _Victims(want, plan, s)
    for devices in fit.placements(want, plan):
        leaving, refused = room_on(devices, want, plan, s, must, victims)
        if refused is not None:
            refusals.append(refused)
            continue
        costs = [rank.cost_to_push(s.holders[hid], form) for hid, form in leaving.items() if hid not in must]
        if not costs:
            return (devices, leaving), []
        total = (sum(cost[0] for cost in costs), sum(cost[1] for cost in costs), float(len(costs)))
        if best is None or total < best[0]:
            best = (total, devices, leaving)
    return (best[1:], []) if best else (None, refusals)


def room_on(
    devices: Devices, want: Want, plan: Plan, s: Snapshot, must: Leaving, victims: _Victims
) -> tuple[Leaving, Verdict | None]:
    """The cheapest set of weaker holders whose stepping aside makes the want fit on all of these devices.

    Args:
        must: who steps aside for it in any case.

    Returns:
        (who goes to which form, None) when it fits once they did; ({}, verdict) when it does not.
    """
    if no := backfill.kept(want, devices, plan, s) or windows.barred(want.holder, devices, s):
        return {}, no
    if want.rank[0] >= Rank.LEASE:
        for device in devices:
            if no := fit.unmeasured(s.devices[device], s):
                return {}, no
    leaving, refused = dict(must), []
    if not (short := plan.short_on(devices, want, leaving)):
        return leaving, None
    for victim, form in victims.ways_out(devices):
        if not short:
            break
        if not plan.helps(want, victim, leaving, form, tuple(short)):
            continue
        if no := victims.refusal(victim):
            refused.append(no)
            continue
        leaving[victim.id] = form
        short = plan.short_on(devices, want, leaving)
    if short:
        timed = sorted(refused, key=lambda no: (no.until_s is None, no.until_s or 0.0))
        return {}, (timed[0] if timed else next(iter(short.values())))
    for innocent in [hid for hid in leaving if hid not in must]:  # push nobody whose staying still fits
        rest = {hid: form for hid, form in leaving.items() if hid != innocent}
        if not plan.short_on(devices, want, rest):
            leaving = rest
    no = _gap_of_all(want, leaving, s)
    return ({}, no) if no else (leaving, None)


def _gap_of_all(want: Want, leaving: Leaving, s: Snapshot) -> Verdict | None:
    """Is the gap worth a swap with all these models? That it is with each of them says nothing of all."""
    going = [x for hid in leaving if (x := s.service(hid)) is not None and x.form == x.top]
    return gaps.worth_it(want.holder, going, s) if len(going) > 1 and isinstance(want.holder, Job) else None


Way = tuple[tuple[object, ...], Holder, FormName]  # (what it costs, who, where to)


class _Victims:
    """Weaker holders in the eyes of one want. Each is looked at once, on however many sets of devices it stands."""

    def __init__(self, want: Want, plan: Plan, s: Snapshot) -> None:
        self._want, self._plan, self._s = want, plan, s
        self._ways: dict[str, list[Way]] = {}
        self._refusals: dict[str, Verdict | None] = {}

    def refusal(self, victim: Holder) -> Verdict | None:
        """Why it may not be pushed."""
        if victim.id not in self._refusals:
            verdicts = (rule(self._want, victim, self._plan, self._s) for rule in PUSH)
            self._refusals[victim.id] = next(filter(None, verdicts), None)
        return self._refusals[victim.id]

    def ways_out(self, devices: Devices) -> list[tuple[Holder, FormName]]:
        """Whom it may push and where to: who loses no work, then everybody's first form down, then the cheapest."""
        found = [way for victim in self._plan.weaker(self._want, devices) for way in self._ways_of(victim)]
        return [(victim, form) for _, victim, form in sorted(found, key=lambda way: way[0])]

    def _ways_of(self, victim: Holder) -> list[Way]:
        if victim.id not in self._ways:
            here = self._plan.form_of(victim)[0]
            forms = host_fit.step_forms(victim, here, self._s) or (victim.bottom,)
            if isinstance(self._want.holder, Job) and isinstance(
                victim, Job
            ):  # no deeper than it loses nothing
                forms = tuple(form for form in forms if not loses_work(victim, here, form)) or forms[:1]
            self._ways[victim.id] = []
            for depth, form in enumerate(forms):
                loses, *cost = rank.cost_to_push(victim, form)
                self._ways[victim.id].append(((loses, depth, *cost), victim, form))
        return self._ways[victim.id]
