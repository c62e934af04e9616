"""What must never be, looked at after every turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway.core import calling, floors, freezing, windows
from headway.core.decide import never_fits
from headway.core.lifecycle import rule
from headway.core.model import Decision, Event, Holder, Job, Lease, Move, Rank, Snapshot, Want
from headway.core.steps import limit_at_s
from headway.ports import RunSpec

if TYPE_CHECKING:
    from headway.sim.world import World

SLACK_S = 3.0
ENDING = ("hold", "stop", "cancel", "kill")
UNDER_WAY_S = 0.1  # from a move that is asked for to the process that it starts
SHUT_S = 30.0  # an engine may be busy with what went past the gate
SHUT_WAITS = ("stayed", "no_way", "device_busy", "draining", "host_short")
STAYS = (
    "beside_only",
    "cannot_step_aside",
)  # a model stays: beside which it asked to run, or that is not ours


@dataclass(slots=True)
class _Told:
    """What somebody was promised."""

    jobs: dict[str, float] = field(default_factory=dict)  # accepted jobs, and when
    cleared: set[str] = field(default_factory=set)  # forgotten, as somebody asked
    again: dict[str, int] = field(default_factory=dict)  # how often somebody asked for one more run


class Checks:
    """Args:
    world: every violation goes to its `wrong`.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.told = _Told()
        self.logged = 0  # whole lines that gates wrote
        self._late: dict[str, float] = {}
        self._shut_s: dict[str, float] = {}  # since when each is closed and empty in a no_model window
        self._odd_s: dict[str, float] = {}  # since when each job is where or how it should not be
        self._live_s = 0.0  # when the mode was not live for the last time

    # ---------------------------------------------------------------- from the world

    def launched(self, spec: RunSpec) -> None:
        """The daemon starts a process: is that wished?"""
        s = self._world.snapshot()
        holder = s.holders.get(spec.holder) if s is not None else None
        if holder is None:
            self._world.wrong(f"{spec.id} is started for {spec.holder}, which nobody knows")
            return
        if spec.kind == "main" and holder.wish in ENDING and not self._was_under_way(holder):
            self._world.wrong(f"{spec.id} is started although {holder.id} is wished {holder.wish}")
        if isinstance(holder, Job) and spec.kind == "main" and holder.ended is not None:
            self._world.wrong(f"{spec.id} is started although {holder.id} has ended {holder.ended}")

    def _was_under_way(self, holder: Holder) -> bool:
        """Had its start been asked for when it was wished otherwise, a moment ago?"""
        s, wish_s = self._world.snapshot(), holder.wish_s or 0.0
        pending = s.pending.get(holder.id) if s is not None else None
        late_s = self._world.loop.now_s - wish_s
        return (
            pending is not None and pending.started_s <= wish_s and late_s <= UNDER_WAY_S * self._world.pace
        )

    def forgotten(self, run_id: str) -> None:
        """The files of a run are removed: nobody may still need them."""
        s = self._world.snapshot()
        pending = s.pending.get(run_id.rpartition(".")[0]) if s is not None else None
        if pending is not None and pending.run_id == run_id and not pending.creates:
            self._world.wrong(f"{run_id} is forgotten while {pending.to} of it is under way")

    def accepted(self, job: str) -> None:
        self.told.jobs[job] = self._world.loop.now_s

    def daemon_ended(self) -> None:
        self._late.clear()
        self._shut_s.clear()
        self._odd_s.clear()

    def event(self, event: Event) -> None:
        if event.code == "job.cleared" and event.holder is not None:
            self.told.cleared.add(event.holder)

    # ---------------------------------------------------------------- after every turn

    def turn(self, s: Snapshot, decision: Decision) -> None:
        for action in decision.actions:
            if isinstance(action, Move):
                self._move(action, s)
        for hid, verdict in decision.verdicts.items():
            if not verdict.code:
                self._world.wrong(f"{hid} is refused without a code")
            if verdict.code in ("reserved", "kept"):
                self._reserved(str(verdict.facts["for"]), s)
        self._pending(s)
        self._windows(s)
        self._placements(s)
        self._ages(s)

    def _move(self, move: Move, s: Snapshot) -> None:
        holder, pending = s.holders[move.holder], s.pending[move.holder]
        ends = move.form == holder.bottom and bool(holder.spec.argv)
        if rule(holder, pending.source, move.form) is None and not ends:
            self._world.wrong(f"{holder.id} goes from {pending.source} to {move.form}: no table has that")
        if not move.frees and len(move.devices) != holder.spec.count:
            self._world.wrong(f"{holder.id} takes {move.devices}, and needs {holder.spec.count}")
        if not move.frees:
            self._alone(move, s)
        if not move.frees and s.prod_only_by is not None and isinstance(holder, Job | Lease):
            self._world.wrong(f"{holder.id} goes to {move.form} although only models run")
        begins = move.creates and isinstance(holder, Job | Lease)
        if begins and (low := next(floors.low(s.host, s.policy), None)):
            self._world.wrong(f"{holder.id} starts although {low.free_bytes} bytes of {low.what} are free")
        if not move.frees and s.queue_hold is not None and isinstance(holder, Job):
            self._world.wrong(f"{holder.id} goes to {move.form} although the whole queue is held")
        pusher = s.holders.get(move.cause or "")
        if move.frees and move.rung == 0 and pusher is not None:
            self._pushed(holder, pusher, pending.source, s)

    def _alone(self, move: Move, s: Snapshot) -> None:
        """One taking move at a time on a device, and none beside an exclusive one."""
        for other in s.pending.values():
            if other.holder == move.holder or not set(other.devices) & set(move.devices):
                continue
            if other.exclusive or not other.frees:
                self._world.wrong(f"{move.holder} takes {move.devices} while {other.holder} moves there")

    def _pushed(self, holder: Holder, pusher: Holder, source: str | None, s: Snapshot) -> None:
        """Nobody is pushed in his residency; it protects jobs from jobs only."""
        if source != holder.top or (isinstance(holder, Job) and not isinstance(pusher, Job)):
            return
        if (here_s := s.now_s - holder.since_s) < holder.spec.min_residency_s - 1e-6:
            self._world.wrong(f"{holder.id} is pushed by {pusher.id} after {here_s:.3f} s")

    def _reserved(self, hid: str, s: Snapshot) -> None:
        holder = s.holders.get(hid)
        if holder is not None and never_fits(
            Want(holder=holder, form=holder.top, rank=(Rank.JOB, 0.0, hid)), s
        ):
            self._world.wrong(f"{hid} reserves a place although it can never fit")

    def _pending(self, s: Snapshot) -> None:
        """No move under way outlives its limit while the daemon lives, and may act."""
        if s.mode == "shadow":
            self._live_s = s.now_s
        if s.now_s - self._live_s < SLACK_S * self._world.pace:
            return
        for hid, pending in s.pending.items():
            over_s = s.now_s - limit_at_s(pending)
            if over_s > SLACK_S * self._world.pace and hid not in self._late:
                self._late[hid] = s.now_s
                self._world.wrong(f"{hid} to {pending.to} is {over_s:.1f} s over its limit")

    def _windows(self, s: Snapshot) -> None:
        """A model that a window closed, or somebody sent to sleep, is not awake past the close of its gate, and what
        that waited for.
        """
        for sid in s.services:
            service = s.service(sid)
            if service is None:
                continue
            closed = windows.closing(service, s) is not None or calling.dismissed(service, s) is not None
            shut = closed and s.mode == "live"
            if not (shut and service.form == service.top and sid not in s.pending and service.gate.drained):
                self._shut_s.pop(sid, None)
            elif s.now_s - self._shut_s.setdefault(sid, s.now_s) > SHUT_S * self._world.pace:
                why = self._world.verdicts().get(sid)
                if why is None or why.code not in SHUT_WAITS:
                    self._world.wrong(f"{sid} is awake, though it is to be aside, closed and empty: {why}")

    def _placements(self, s: Snapshot) -> None:
        """Nobody is frozen without a request for it, or works beside one; a window's job is where it may be."""
        for hid in s.present:
            job = s.holders[hid]
            if not isinstance(job, Job) or job.form != job.top or hid in s.pending or s.mode != "live":
                self._odd_s.pop(hid, None)
                continue
            odd = self._odd(job, s)
            if odd is None:
                self._odd_s.pop(hid, None)
            elif s.now_s - self._odd_s.setdefault(hid, s.now_s) > SLACK_S * self._world.pace:
                self._world.wrong(f"{hid} {odd}")

    def _odd(self, job: Job, s: Snapshot) -> str | None:
        program = self._world.runs.job_of(job.id)
        busy = freezing.answering(job, s)
        if job.spec.placement == "yield":
            if (program is not None and program.frozen) and busy is None:
                return "is frozen, and nobody asks for the model beside it"
            if program is not None and not program.frozen and busy is not None:
                return f"works while {busy.id} answers beside it"
        elif job.frozen_by_gate or (program is not None and program.frozen):
            return f"is frozen, and its placement is {job.spec.placement}"
        awake = freezing.beside(job, s) if windows.bound(job) else []
        if awake and not any(windows.over(x.id, s) for x in awake) and not self._leaves(job):
            return f"runs beside {awake[0].id}, and no window is open over it"
        return None

    def _leaves(self, job: Job) -> bool:
        """Is it on its way, and waits for its turn to move?"""
        why = self._world.verdicts().get(job.id)
        return why is not None and why.code in (
            "device_busy",
            "outside_window",
            "no_way_aside",
            "gap_over",
            "made_room",
            "no_way",
        )

    def _ages(self, s: Snapshot) -> None:
        """No instant lies in the future, whatever the wall clock does."""
        for holder in s.holders.values():
            for name in ("since_s", "enqueued_s", "started_s", "ended_s", "pushed_s"):
                at_s = getattr(holder, name, None)
                if at_s is not None and at_s > s.now_s + 1e-6:
                    self._world.wrong(f"{holder.id} has {name} {at_s - s.now_s:.3f} s in the future")
