"""What people see: rows, the board, and why. The one document that API, events, page, CLI and alerts show. Pure.

Ages are in seconds and sizes in bytes; the readers make them into words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from headway.core import gaps, words
from headway.core.fit import reserve_bytes
from headway.core.model import Device, Holder, HolderId, Job, Service, Snapshot, Verdict
from headway.core.phrases import help_for, note, sentence
from headway.core.rows import (
    DeviceRow,
    Head,
    JobPage,
    JobRow,
    Overview,
    Row,
    ServiceRow,
    Share,
    Stranger,
    Trouble,
    Why,
)

Verdicts = Mapping[HolderId, Verdict]


# ------------------------------------------------------------- why


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
        help=help_for(verdict.code, facts, hid),
    )


def reason(holder: Holder, s: Snapshot, verdicts: Verdicts) -> Verdict:
    """The verdict of the last pass; where there is none, or it only says "as planned", what the state itself says."""
    if isinstance(holder, Job) and holder.ended is not None:
        return Verdict(code=holder.ended)
    verdict = verdicts.get(holder.id)
    if verdict is None or verdict.code in ("keeps", "goes"):
        return _plain(holder, s) or verdict or _unlooked(holder, s)
    return verdict


def _unlooked(holder: Holder, s: Snapshot) -> Verdict:
    """The pass looks at the first entries of a queue only, and at nobody who wants nothing."""
    return Verdict(code="behind" if words.state(holder, s) == "queued" else "unseen")


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
    if not isinstance(holder, Service):
        return Verdict(code="granted")
    if state == "failed":
        return Verdict(code="start_failed")
    if holder.form == holder.top:
        return Verdict(code="answers" if holder.active else "idle")
    if holder.wish == "hold":
        return Verdict(code="held", facts={"by": holder.wish_by})
    return None if _waiting(holder) or holder.form is None else Verdict(code="aside")


def said(verdict: Verdict, holder: Holder, s: Snapshot) -> dict[str, Any]:
    """The facts of a verdict, made into ages, with what the sentences need beside them."""
    facts = dict(verdict.facts)
    facts.setdefault("in_state_s", s.now_s - holder.since_s)
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
            "ran_s": ran_s(holder, s),
        }
        facts["ended_s"] = None if holder.ended_s is None else s.now_s - holder.ended_s
        busy = s.service(str(facts.get("service")))
        if verdict.code == "model_busy" and busy is not None:
            facts["needed_s"] = max(s.policy.gap_min_s, s.policy.gap_factor * gaps.swap_s(holder, busy, s))
    if isinstance(holder, Service):
        facts.setdefault("active", holder.active)
        facts["quiet_s"] = facts.get("quiet_s", _quiet_s(holder, s))
    return {key: value for key, value in facts.items() if value is not None}


def _left_s(verdict: Verdict, s: Snapshot) -> float | None:
    return None if verdict.until_s is None else max(0.0, verdict.until_s - s.now_s)


# ------------------------------------------------------------- rows


def row(hid: str, s: Snapshot, verdicts: Verdicts) -> Row | DeviceRow | None:
    """The row of a holder or a device; None when there is no such thing (any more)."""
    if hid in s.devices:
        return device_row(s.devices[hid], s)
    holder = s.holders.get(hid)
    if isinstance(holder, Job):
        return job_row(holder, s, verdicts)
    if isinstance(holder, Service):
        return service_row(holder, s, verdicts)
    return None if holder is None else Row(**_common(holder, s, verdicts))


def job_row(job: Job, s: Snapshot, verdicts: Verdicts) -> JobRow:
    return JobRow(
        **_common(job, s, verdicts),
        recipe=job.recipe,
        lane=job.lane,
        position=words.position(job, s),
        priority=job.spec.priority,
        placement=job.spec.placement,
        driver=job.spec.driver,
        argv=job.spec.argv,
        after=(*job.spec.after, *job.spec.after_ok),
        age_s=s.now_s - job.enqueued_s,
        ran_s=ran_s(job, s),
        started=job.started_s is not None,
        progress=job.progress,
        saved_age_s=job.saved_age_s,
        saved_point=job.saved_point,
        attempts_left=job.attempts_left,
        exit_code=job.exit_code,
        ended_s=None if job.ended_s is None else s.now_s - job.ended_s,
        run=job.run.id if job.run else None,
        pid=job.run.pid if job.run else None,
        goal=job.spec.goal,
        tags=job.spec.tags,
    )


def service_row(service: Service, s: Snapshot, verdicts: Verdicts) -> ServiceRow:
    waits = [w for w in service.demand.values() if w.n]
    return ServiceRow(
        **_common(service, s, verdicts),
        driver=service.spec.driver,
        models=service.spec.models,
        upstream=service.upstream,
        ready=service.ready,
        gate=service.gate.wish,
        active=service.active,
        engine_active=service.engine_active,
        waiting=sum(w.n for w in waits),
        waiting_s=max((s.now_s - w.since_s for w in waits), default=None),
        quiet_s=_quiet_s(service, s),
        run=service.run.id if service.run else None,
        pid=service.run.pid if service.run else None,
    )


def device_row(device: Device, s: Snapshot) -> DeviceRow:
    there = [
        s.holders[hid]
        for hid in s.present
        if device.id in (*s.holders[hid].devices, *s.holders[hid].seen_bytes)
    ]
    age_s = None if device.read_at_s is None else s.now_s - device.read_at_s
    known = device.free_bytes is not None or device.confidence == "declared"
    return DeviceRow(
        id=device.id,
        name=device.name,
        index=device.index,
        total_bytes=device.total_bytes,
        used_bytes=device.used_bytes,
        free_bytes=device.free_bytes,
        foreign_bytes=device.foreign_bytes,
        reserve_bytes=reserve_bytes(device, False, s),
        confidence=device.confidence if known else "unknown",
        pool=device.pool,
        read_age_s=age_s,
        trouble=_device_trouble(device, age_s, s),
        holders=tuple(_share(holder, device, s) for holder in there),
        strangers=tuple(Stranger(pid=pid, bytes=held) for pid, held in device.strangers),
    )


def _share(holder: Holder, device: Device, s: Snapshot) -> Share:
    return Share(
        id=holder.id,
        kind=holder.kind,
        name=holder.spec.name,
        state=words.state(holder, s),
        bytes=holder.seen_bytes.get(device.id, 0 if device.per_process else None),
        need_bytes=holder.need_bytes(holder.form or holder.top),
    )


def _common(holder: Holder, s: Snapshot, verdicts: Verdicts) -> dict[str, Any]:
    verdict = reason(holder, s, verdicts)
    return {
        "id": holder.id,
        "kind": holder.kind,
        "name": holder.spec.name,
        "state": words.state(holder, s),
        "in_state_s": s.now_s - holder.since_s,
        "devices": tuple(words.label(d, s) for d in holder.devices),
        "bytes": _seen_bytes(holder, s),
        "need_bytes": holder.need_bytes(holder.top),
        "code": verdict.code,
        "why": sentence(verdict.code, said(verdict, holder, s), s),
        "wish": holder.wish,
        "wish_by": holder.wish_by,
        "note": note(holder.note, holder.note_facts, s) if holder.note else None,
        "failures": holder.failures,
    }


def _seen_bytes(holder: Holder, s: Snapshot) -> int | None:
    if holder.seen_bytes or not holder.devices:
        return sum(holder.seen_bytes.values())
    tells = all(
        s.devices[d].per_process and not s.devices[d].trouble for d in holder.devices if d in s.devices
    )
    return 0 if tells else None


def ran_s(job: Job, s: Snapshot) -> float:
    """Running time over all its runs, up to now."""
    return job.ran_s + (s.now_s - job.since_s if job.form == job.top and job.ended is None else 0.0)


def _quiet_s(service: Service, s: Snapshot) -> float | None:
    if service.active or service.last_end_s is None:
        return None
    return s.now_s - service.last_end_s


def _waiting(service: Service) -> int:
    return sum(w.n for w in service.demand.values())


# ------------------------------------------------------------- lists


def overview(s: Snapshot, verdicts: Verdicts, queued_max: int = 50) -> Overview:
    """The whole board, the first `queued_max` of the queue."""
    top = head(s)
    present = (h for hid in s.present if isinstance(h := s.holders[hid], Job))
    return Overview(
        mode=top.mode,
        mode_by=top.mode_by,
        rev=top.rev,
        up_s=top.up_s,
        devices=top.devices,
        jobs=top.jobs,
        troubles=top.troubles,
        services=services(s, verdicts),
        running=tuple(job_row(job, s, verdicts) for job in present if job.ended is None),
        queued=tuple(job_row(job, s, verdicts) for job in islice(_line(s), queued_max)),
    )


def head(s: Snapshot) -> Head:
    return Head(
        mode=s.mode,
        mode_by=s.mode_by,
        rev=s.rev,
        up_s=s.now_s - s.booted_s,
        devices=devices(s),
        jobs=counts(s),
        troubles=troubles(s),
    )


def services(s: Snapshot, verdicts: Verdicts) -> tuple[ServiceRow, ...]:
    return tuple(
        service_row(h, s, verdicts) for sid in s.services if isinstance(h := s.holders[sid], Service)
    )


def devices(s: Snapshot) -> tuple[DeviceRow, ...]:
    return tuple(device_row(d, s) for d in sorted(s.devices.values(), key=lambda d: (d.index, d.name)))


def counts(s: Snapshot) -> dict[str, int]:
    """Jobs by state, from the indexes alone: the length of the queue costs nothing."""
    found: dict[str, int] = {}
    for hid in s.present:
        if isinstance(job := s.holders[hid], Job) and job.ended is None:
            word = words.state(job, s)
            found[word] = found.get(word, 0) + 1
    for lane, line in s.queue.items():
        if line:
            word = "held" if lane == "held" else "queued"
            found[word] = found.get(word, 0) + len(line)
    return found


def jobs(
    s: Snapshot,
    verdicts: Verdicts,
    states: frozenset[str] = frozenset(),
    ended: bool = False,
    after: str | None = None,
    limit: int = 200,
) -> JobPage:
    """One page of jobs: those that are somewhere, the line in order, the held, and with `ended` those that are over.

    Args:
        states: only these words; empty: all.
        after: the cursor: the id of the last job of the page before; one that is gone begins anew.
    """
    order: list[Job] = [h for hid in s.present if isinstance(h := s.holders[hid], Job) and h.ended is None]
    order += _line(s)
    if ended or states & set(words.ENDED):
        over = [h for h in s.holders.values() if isinstance(h, Job) and h.ended is not None]
        order += sorted(over, key=lambda job: (-(job.ended_s or 0.0), job.id))
    start = next((n + 1 for n, job in enumerate(order) if job.id == after), 0) if after else 0
    fits = (job for job in order[start:] if not states or words.state(job, s) in states)
    page = list(islice(fits, limit + 1))
    more = page[limit - 1].id if len(page) > limit else None
    return JobPage(jobs=tuple(job_row(job, s, verdicts) for job in page[:limit]), next=more)


def _line(s: Snapshot) -> Iterable[Job]:
    """Everybody in line, lane by lane, the held last."""
    present = set(s.present)
    for lane in sorted(s.queue, key=lambda lane: (lane == "held", lane)):
        for _, hid in s.queue[lane]:
            if hid not in present and isinstance(job := s.holders.get(hid), Job):
                yield job


def troubles(s: Snapshot) -> tuple[Trouble, ...]:
    """What keeps Headway from its work: store, meters, devices, holders that failed or keep their memory."""
    found = []
    if not s.store_ok:
        found.append(Trouble(code="store_silent", sentence=sentence("store_silent", {})))
    if s.meter_trouble:
        found.append(Trouble(code="meter_silent", sentence=f"the meter does not answer: {s.meter_trouble}"))
    for device in s.devices.values():
        age_s = None if device.read_at_s is None else s.now_s - device.read_at_s
        if word := _device_trouble(device, age_s, s):
            found.append(Trouble(code="device_trouble", sentence=f"{device.name}: {word}", id=device.id))
    for hid in sorted({*s.pending, *s.services}):
        holder = s.holders[hid]
        pending = s.pending.get(hid)
        if pending is not None and pending.shortfall_told:
            words_ = (
                f"{words.label(hid, s)} says it {words.DID.get(pending.to, 'moved')}, but keeps its memory"
            )
            found.append(Trouble(code="not_released", sentence=words_, id=hid))
        elif words.state(holder, s) == "failed":
            words_ = note(holder.note, holder.note_facts, s) if holder.note else "could not start"
            found.append(Trouble(code="start_failed", sentence=f"{words.label(hid, s)}: {words_}", id=hid))
    return tuple(found)


def _device_trouble(device: Device, age_s: float | None, s: Snapshot) -> str | None:
    if device.trouble:
        return device.trouble
    if device.confidence == "declared":
        return None
    if age_s is None:
        return "not read yet"
    return f"last read {words.duration(age_s)} ago" if age_s > s.policy.reading_max_age_s else None
