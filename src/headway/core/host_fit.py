"""Who fits into main memory, and onto the disk of a job's directory, beside what has to stay free there (see floors).

A form above the bottom may take either: a job that parks, a server whose sleep copies its weights, a job that starts.
Where there is too little, the next lower form is taken, and a stop takes nothing: nobody's way back is blocked by it.
What is not known of the machine keeps nobody from anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headway.core import floors
from headway.core.draft import Draft
from headway.core.lifecycle import aside_form, rule
from headway.core.lifecycle import step_forms as all_step_forms
from headway.core.model import FormName, Holder, HolderId, Job, Service, Snapshot, Verdict

ARRIVES_S = 60.0  # within this long a program has taken the main memory that it will take
ASIDE = (
    "asked_pause",
    "held",
    "gap_over",
    "prod_only",
    "outside_window",
    "no_way_aside",
    "idle_ttl",
    "asked_sleep",
)
Going = tuple[Holder, FormName]  # somebody who was let into a form in this same turn


def lacks(
    holder: Holder, to: FormName, s: Snapshot, source: FormName | None = None, others: Sequence[Going] = ()
) -> Verdict | None:
    """What the machine has too little of for it to go to that form; None: nothing.

    Args:
        source: the form that it leaves; the present one if not given.
        others: who was let into a form in this same turn, and has taken nothing of it yet.
    """
    source = source if source is not None else holder.form
    if to == holder.bottom or to == source or (isinstance(holder, Service) and to == holder.top):
        return None
    return _memory(holder, source, to, s, others) or _disk(holder, to, s, others)


def _memory(
    holder: Holder, source: FormName | None, to: FormName, s: Snapshot, others: Sequence[Going]
) -> Verdict | None:
    need, found = more_bytes(holder, source, to), rule(holder, source, to)
    kept = isinstance(holder, Service) and holder.slept
    if need == 0 or kept or (need is None and not (found and found.to_host)):
        return None
    free, floor = s.host.memory_free_bytes, floors.memory_floor(s.host.memory_total_bytes, s.policy)
    if free is None or floor is None:
        return None
    promised, until_s = _promised(holder.id, s, others)
    if free - promised - (need or 0) >= floor:
        return None
    facts = _facts(holder, to, need, free, floor, promised)
    return Verdict(code="host_short", facts=facts, until_s=until_s)


def _disk(holder: Holder, to: FormName, s: Snapshot, others: Sequence[Going]) -> Verdict | None:
    form, room = holder.form_named(to), s.host.disks.get(where(holder))
    if form is None or not form.disk_bytes or room is None:
        return None
    floor = floors.disk_floor(room.total_bytes, s.policy) or 0
    going = [(s.holders[hid], moving.to) for hid, moving in sorted(s.pending.items())]
    promised = sum(
        there.disk_bytes or 0
        for other, name in (*going, *others)
        if other.id != holder.id and where(other) == where(holder) and (there := other.form_named(name))
    )
    if room.free_bytes - promised - form.disk_bytes >= floor:
        return None
    facts = _facts(holder, to, form.disk_bytes, room.free_bytes, floor, promised)
    return Verdict(code="disk_short", facts={**facts, "directory": where(holder)})


def _facts(
    holder: Holder, to: FormName, need: int | None, free: int, floor: int, promised: int
) -> dict[str, Any]:
    facts = {"holder": holder.id, "to": to, "free_bytes": free, "floor_bytes": floor}
    facts |= {"need_bytes": need} if need is not None else {}
    return facts | ({"promised_bytes": promised} if promised else {})


def where(holder: Holder) -> str:
    """The directory whose disk it writes to."""
    return holder.spec.cwd or "."


def more_bytes(holder: Holder, source: FormName | None, to: FormName) -> int | None:
    """Main memory that it takes on top of what it has in the form it leaves; None: nobody said."""
    form, left, found = holder.form_named(to), holder.form_named(source), rule(holder, source, to)
    if form is not None and form.host_bytes is None and found is not None and found.copies:
        known = (left.need_bytes if left else None) or 0  # where no reading tells its bytes
        return sum(holder.seen_bytes.values()) or known * len(holder.devices) or None
    if form is None or form.host_bytes is None:
        return None
    return max(0, form.host_bytes - ((left.host_bytes if left else None) or 0))


def _promised(hid: HolderId, s: Snapshot, others: Sequence[Going]) -> tuple[int, float | None]:
    """What others were let in for and may not have taken yet, and when the next of that counts as taken."""
    going = {other.id: more_bytes(other, other.form, to) or 0 for other, to in others}
    times: list[float] = []
    for other in (s.holders[one] for one in s.present):
        moving = s.pending.get(other.id)
        if moving is not None:
            going[other.id] = more_bytes(other, moving.source, moving.to) or 0
        elif isinstance(other, Job) and other.form == other.top and s.now_s - other.since_s < ARRIVES_S:
            going[other.id] = more_bytes(other, other.bottom, other.top) or 0
            times += [other.since_s + ARRIVES_S] if going[other.id] else []
    going.pop(hid, None)
    return sum(going.values()), min(times, default=None)


def aside_now(
    holder: Holder, s: Snapshot, source: FormName | None = None, under: FormName | None = None
) -> FormName | None:
    """`aside_form`, of the forms that the machine has room for."""
    form = aside_form(holder, source, under)
    while form is not None and lacks(holder, form, s, source):
        form = aside_form(holder, source, under=form)
    return form


def step_forms(holder: Holder, source: FormName, s: Snapshot) -> tuple[FormName, ...]:
    """Every form it can step aside to from `source` that the machine has room for, the highest first."""
    return tuple(form for form in all_step_forms(holder, source) if not lacks(holder, form, s, source))


def refused(holder: Holder, s: Snapshot, source: FormName | None = None) -> Verdict | None:
    """Why it does not go to the form it would step aside to; None when there is room for that."""
    form = aside_form(holder, source)
    return lacks(holder, form, s, source) if form is not None else None


def tell_lower(d: Draft, holder: Holder, to: FormName, cause: str | None) -> None:
    """It goes lower than it would have, as there is no room for that; `cause`: for whom, or the code of a rule."""
    if cause not in d.holders and cause not in ASIDE:
        return
    no = refused(holder, d.view())
    if no is None or no.facts["to"] == to:
        return
    facts = {key: value for key, value in no.facts.items() if key not in ("holder", "to")}
    code = "move.no_memory" if no.code == "host_short" else "move.no_disk"
    d.event(code, holder.id, form=to, instead=no.facts["to"], **facts)


def directories(s: Snapshot) -> Iterator[str]:
    """Whose disks have to be read: of those who are there, and write something when they step aside."""
    for hid in s.present:
        holder = s.holders[hid]
        if any(form.disk_bytes for form in holder.forms):
            yield where(holder)
