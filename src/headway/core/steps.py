"""The next safe step towards a target. Never asks who deserves what.

At most one move per holder, at most one exclusive move per device; memory is freed before it is given.
"""

from __future__ import annotations

from headway.core import deadlines, fit, host_fit
from headway.core.fit import Plan
from headway.core.leases import has_let_go
from headway.core.lifecycle import aside_form, engine_idle, next_rung, rule
from headway.core.model import (
    Action,
    CloseGate,
    FormName,
    Holder,
    Job,
    Lease,
    Measure,
    Move,
    MoveRule,
    OpenGate,
    Pending,
    Service,
    Snapshot,
    Verdict,
)
from headway.core.rules import slots_now
from headway.core.staying import stayed

UNREAD = ("unmeasured", "meter_silent", "device_trouble", "reading_stale")
LATE_S = 5.0  # past its limit the driver itself should have given up


class Steps:
    """The work of one call: actions so far, what each waits for, and which devices are taken."""

    def __init__(self, plan: Plan, s: Snapshot) -> None:
        self.plan, self.s = plan, s
        self.actions: list[Action] = []
        self.waits: dict[str, Verdict] = {}
        self.exclusive = {d for p in s.pending.values() if p.exclusive for d in p.devices}
        self.taking = {d for p in s.pending.values() if not p.frees for d in p.devices}
        self.freeing = {d for p in s.pending.values() if p.frees for d in p.devices}
        self.going: list[host_fit.Going] = []  # whom this call lets into a form

    def pending(self, moving: Pending) -> None:
        """Work under way: wait for it, or past its limit go one form lower."""
        holder = self.s.holders[moving.holder]
        cause = _given_up(moving, holder, self.s)
        if cause and (action := escalate(moving, holder, cause, self.s.now_s)):
            self.actions.append(action)
            return
        if cause == "limit_passed" and not isinstance(holder, Lease):  # nothing lower is ours: see staying
            self.waits[holder.id] = Verdict(code="given_up", facts={"to": moving.to})
            return
        self.waits[holder.id] = still_moving(moving, holder, self.s)
        if (
            moving.step == "answered"
            and moving.frees
            and has_let_go(holder)
            and self.s.now_s < moving.limit_at_s
        ):
            self.actions.append(Measure(devices=moving.devices))  # later the meter's own pace will do

    def move(self, holder: Holder, form: FormName, devices: fit.Devices) -> None:
        """One holder towards its target form, if that is safe now."""
        to, found = next_rung(holder, form)
        if found is None:
            self.waits[holder.id] = Verdict(code="no_way", facts={"form": holder.form, "to": form})
            return
        if found.frees:
            self._free(holder, to, found)
        else:
            self._take(holder, to, found, devices)

    def _free(self, holder: Holder, to: FormName, found: MoveRule) -> None:
        if isinstance(holder, Service) and not self._drained(holder, to):
            return
        if no := stayed(holder, self.s):
            self.waits[holder.id] = no
            return
        if no := host_fit.lacks(holder, to, self.s, others=self.going):
            self.waits[holder.id] = no
            return
        killed = holder.wish == "kill" and to == holder.bottom  # by a person, who waits for nobody's start
        if not killed and self._blocked(
            holder, self.exclusive | ((self.taking | self.freeing) if found.exclusive else set())
        ):
            return
        cause = self.plan.causes.get(holder.id)
        limit_s = deadlines.release_limit_s(holder, to, found, cause, self.s)
        self._do(holder, to, found, holder.devices, limit_s=limit_s, cause=cause)
        self.freeing |= set(holder.devices)

    def _drained(self, service: Service, to: FormName) -> bool:
        """Closed by every gate, nothing in flight, and the engine itself idle on a probe made after that."""
        if service.form != service.top:
            return True
        if service.gate.wish == "open":
            cause = self.plan.causes.get(service.id)
            self.actions.append(CloseGate(holder=service.id, cause=cause))
        if service.wish == "kill" and to == service.bottom:  # one that can only sleep is not ended by a kill
            return True
        if service.gate.drained and engine_idle(service, service.drained_s):
            return True
        facts = {"active": service.active, "pinning": service.gate.pinning, "engine": service.engine_active}
        self.waits[service.id] = Verdict(code="draining", facts={**facts, "closed": service.gate.closed})
        return False

    def _take(self, holder: Holder, to: FormName, found: MoveRule, devices: fit.Devices) -> None:
        if isinstance(holder, Service) and holder.spec.gated and not holder.gate.drained:
            # its gate closes first (see gates): a request must not meet a server that is coming up
            facts = {"active": holder.active, "pinning": holder.gate.pinning, "engine": holder.engine_active}
            self.waits[holder.id] = Verdict(code="draining", facts={**facts, "closed": holder.gate.closed})
            return
        if isinstance(holder, Job) and (no := slots_now(holder, self._starting(holder.lane), self.s)):
            self.waits[holder.id] = no
            return
        if self._blocked_for_start(holder, devices, found):
            return
        if isinstance(holder, Job) and (no := host_fit.lacks(holder, to, self.s, others=self.going)):
            self.waits[holder.id] = no
            return
        no = fit.measured(holder, to, devices, self.s)
        if no and no.code in UNREAD and isinstance(holder, Service) and self._provably_alone(holder, devices):
            no = None  # the way back of a model is never blocked by a meter
        if no:
            self.waits[holder.id] = no
            if no.code in ("reading_too_old", "reading_stale", "memory_now"):
                self.actions.append(Measure(devices=devices))
            return
        limit_s = holder.spec.wake_limit_s if isinstance(holder, Service) else found.limit_s
        self._do(holder, to, found, devices, limit_s=limit_s, cause=None)
        self.taking |= set(devices)

    def _starting(self, lane: str) -> int:
        begun = (self.s.holders[a.holder] for a in self.actions if isinstance(a, Move) and not a.frees)
        return sum(isinstance(holder, Job) and holder.lane == lane for holder in begun)

    def _provably_alone(self, holder: Holder, devices: fit.Devices) -> bool:
        """No other holder that is known to us is on these devices, by process evidence.

        A lease may hold memory before it is granted: where it was seen last, it is.
        """
        others = [self.s.holders[hid] for hid in self.s.present if hid != holder.id]
        if any(other.seen_bytes.get(device) for other in others for device in devices):
            return False
        return not any(
            _is_there(other) and (not other.devices or set(other.devices) & set(devices)) for other in others
        )

    def _blocked_for_start(self, holder: Holder, devices: fit.Devices, found: MoveRule) -> bool:
        beside = {
            d
            for p in self.s.pending.values()
            if p.frees
            for d in p.devices
            if not _overlaps(self.s.holders[p.holder], p)
        }
        freed_now = {d for a in self.actions if isinstance(a, Move) and a.frees for d in a.devices}
        locked = self.exclusive | self.taking | beside | freed_now
        return self._blocked(holder, locked | (self.freeing if found.exclusive else set()), devices)

    def _blocked(self, holder: Holder, locked: set[str], devices: fit.Devices | None = None) -> bool:
        if not (busy := sorted(locked & set(devices if devices is not None else holder.devices))):
            return False
        names = [self.s.devices[d].name if d in self.s.devices else d for d in busy]
        moving = sorted(p.holder for p in self.s.pending.values() if set(p.devices) & set(busy))
        self.waits[holder.id] = Verdict(code="device_busy", facts={"devices": names, "moving": moving})
        return True

    def _do(
        self,
        holder: Holder,
        to: FormName,
        found: MoveRule,
        devices: fit.Devices,
        limit_s: float,
        cause: str | None,
    ) -> None:
        self.actions.append(
            Move(
                holder=holder.id,
                form=to,
                devices=devices,
                limit_s=limit_s,
                creates=found.creates,
                frees=found.frees,
                exclusive=found.exclusive,
                run_id=run_id(holder, found.creates),
                kill=holder.wish == "kill",
                cause=cause,
            )
        )
        self.going.append((holder, to))
        if found.exclusive:
            self.exclusive |= set(devices)

    def gates(self, service: Service) -> None:
        """The gate opens last, and again when a close was not needed after all; it closes whenever it must."""
        up = service.form == service.top and service.ready and service.upstream is not None
        stays = self.plan.form_of(service)[0] == service.top and service.id not in self.s.pending
        if up and stays and service.gate.wish == "closed" and not service.retired:
            self.actions.append(OpenGate(holder=service.id))
        elif (service.form != service.top or _let_go(service)) and service.gate.wish == "open":
            self.actions.append(CloseGate(holder=service.id, cause="not_awake"))


def towards(plan: Plan, s: Snapshot) -> tuple[tuple[Action, ...], dict[str, Verdict]]:
    """Actions that are safe now, and what every other move waits for."""
    work = Steps(plan, s)
    for moving in sorted(s.pending.values(), key=lambda p: p.holder):
        work.pending(moving)
    todo = []
    for hid, (form, devices) in plan.placed.items():
        holder = s.holders[hid]
        if hid not in s.pending and holder.form != form:
            down = holder.form is None or holder.below(form, holder.form)
            todo.append((not down, plan.order.get(hid, 0), hid, form, devices))
    for _, _, hid, form, devices in sorted(todo):
        work.move(s.holders[hid], form, devices)
    for sid in s.services:
        if service := s.service(sid):
            work.gates(service)
    return tuple(_once(work.actions)), work.waits


def _let_go(service: Service) -> bool:
    """A server of somebody else's that the config does not have any more: it is not moved, only closed."""
    return service.retired and not service.spec.argv


def _once(actions: list[Action]) -> list[Action]:
    seen: list[Action] = []
    for action in actions:
        if action not in seen:
            seen.append(action)
    return seen


def run_id(holder: Holder, creates: bool) -> str | None:
    """The id of the run a move makes, or acts on. Ids are never used twice. A lease has none."""
    if creates and not isinstance(holder, Lease):
        return f"{holder.id}.{holder.runs + 1}"
    return holder.run.id if holder.run else None


def _overlaps(holder: Holder, pending: Pending) -> bool:
    found = rule(holder, pending.source, pending.to)
    return bool(found and found.overlaps_start)


def limit_at_s(moving: Pending) -> float:
    """When it is given up. Past its own limit a driver gives up a start by itself, and is given a moment to say so."""
    return moving.limit_at_s + (0.0 if moving.frees else LATE_S)


def _given_up(moving: Pending, holder: Holder, s: Snapshot) -> str | None:
    """Why a move under way is not waited for any longer: its limit, or a wish that cannot wait for it."""
    if s.now_s >= limit_at_s(moving):
        return "limit_passed"
    ends = ("stop", "kill", "cancel") if not moving.frees else ("kill",)
    if holder.wish in ends and not moving.kill:
        return "asked_" + holder.wish
    return None


def escalate(moving: Pending, holder: Holder, cause: str, now_s: float) -> Move | None:
    """One form lower that frees memory; at the bottom, again and without grace. None: nothing lower is ours to use.

    A job that is stuck past its limit gets no grace either; one whose driver said early that it cannot park does.

    A start, wake or resume that is given up goes to the bottom: what it left half done is ended with its process.
    """
    if isinstance(holder, Lease):
        return _ask_again(moving, holder)
    lower: FormName | None = holder.bottom
    if moving.frees and holder.wish != "kill":
        lower = aside_form(holder, moving.source or holder.top, under=moving.to) or holder.bottom
    if not holder.spec.argv:
        lower = aside_form(holder, moving.source if moving.frees else moving.to, under=moving.to)
    if lower is None:
        return None
    at_bottom = lower == holder.bottom
    late = cause == "limit_passed" and (moving.to == holder.bottom or isinstance(holder, Job))
    kill = at_bottom and ((late and not _may_save(moving, holder, now_s)) or holder.wish == "kill")
    patient_s = holder.spec.stop_grace_s + 5.0 if at_bottom else moving.limit_at_s - moving.started_s
    return Move(
        holder=holder.id,
        form=lower,
        devices=moving.devices,
        limit_s=10.0 if kill else max(10.0, patient_s),
        frees=True,
        run_id=moving.run_id or (holder.run.id if holder.run else None),
        kill=kill,
        rung=moving.rung + 1,
        cause=cause,
    )


def _may_save(moving: Pending, holder: Holder, now_s: float) -> bool:
    """Could not park, and has all of its grace left of the longest that a wake waits: what ends may still save."""
    parks = moving.frees and moving.to != holder.bottom
    return (
        parks and moving.failed and now_s + holder.spec.stop_grace_s <= moving.started_s + deadlines.LONGEST_S
    )


def _ask_again(moving: Pending, lease: Lease) -> Move | None:
    """A lease is never ended by us: it keeps its place (see leases.patience), or is asked once more."""
    if not moving.frees or (lease.ended is None and lease.wish == "run"):
        return None
    limit_s = moving.limit_at_s - moving.started_s
    return Move(
        holder=lease.id,
        form=lease.bottom,
        devices=moving.devices,
        limit_s=max(10.0, min(limit_s, 60.0)),
        frees=True,
        rung=moving.rung + 1,
        cause="limit_passed",
    )


def still_moving(moving: Pending, holder: Holder, s: Snapshot) -> Verdict:
    """What a move under way waits for; a shortfall in figures."""
    facts = {"to": moving.to, "since_s": s.now_s - moving.started_s, "rung": moving.rung}
    if moving.frees and not has_let_go(holder):
        pid = holder.pid if isinstance(holder, Lease) else None
        return Verdict(code="asked_to_leave", facts={**facts, "pid": pid})
    if moving.step == "answered" and moving.frees:
        over = fit.released(moving, holder, s)
        if over:
            names = {s.devices[d].name: held for d, held in sorted(over.items())}
            expected = fit.need(holder, moving.to) or 0
            pid = holder.run.pid if holder.run else None
            return Verdict(
                code="not_released", facts={**facts, "held": names, "expected_bytes": expected, "pid": pid}
            )
        lives = moving.to == holder.bottom and holder.run is not None and holder.run.alive
        pid = holder.run.pid if holder.run is not None and lives else None
        return Verdict(code="verifying", facts=facts if pid is None else {**facts, "pid": pid})
    return Verdict(code="moving", facts={**facts, "from": moving.source})


def _is_there(holder: Holder) -> bool:
    """May a process of it live? Of one that is not ours only its own answer tells."""
    if isinstance(holder, Lease) or (isinstance(holder, Service) and not holder.spec.argv):
        return holder.form != holder.bottom
    return holder.run is not None and holder.run.alive
