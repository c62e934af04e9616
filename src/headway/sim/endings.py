"""What must be in the end, once faults have stopped: everything answered, everything done, everything saved once."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from headway.core import codec
from headway.core.decide import never_fits
from headway.core.model import Holder, Job, Lease, Rank, Service, Snapshot, Want
from headway.core.samples import STEPS
from headway.sim import learned

if TYPE_CHECKING:
    from headway.sim.world import World

STAYS = (
    "beside_only",
    "cannot_step_aside",
    "no_way_aside",
    "outside_window",  # and no window need ever come
)  # a model stays: beside which it asked to run, or that is not ours


class Endings:
    """Args:
    world: every violation goes to its `wrong`.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    def drained(self) -> bool:
        """Is nothing left that should still come to an end?"""
        s = self._world.snapshot()
        if s is None or self._world.clients.open or s.pending:
            return False
        return not any(self._unfinished(h, s) for h in s.holders.values()) and not any(self._unlike())

    def _unfinished(self, holder: Holder, s: Snapshot) -> bool:
        if isinstance(holder, Lease):
            return holder.ended is None and not self._in_vain(holder, s)
        if isinstance(holder, Service):
            return holder.called_s is not None and not self._in_vain(holder, s)
        if not isinstance(holder, Job) or holder.ended is not None:
            return False
        if holder.wish != "run":
            return holder.form not in (holder.bottom, "parked")
        return not self._in_vain(holder, s)

    def _in_vain(self, holder: Holder, s: Snapshot) -> bool:
        """Does it wait for what this world will never give it?"""
        why = self._world.verdicts().get(holder.id)
        if holder.form == holder.top:
            return False
        if why is not None and (
            why.code in (*STAYS, "not_ours") or why.facts.get("service") in self._world.by_hand
        ):
            return True
        if (
            why is not None
            and why.code == "memory"
            and why.facts.get("foreign_bytes")
            and self._world.by_hand
        ):
            return True  # somebody's own server is in the way, and stays
        if why is not None and why.code == "needs_alone" and why.facts["holder"] in self._world.by_hand:
            return True  # the same: it sleeps, and keeps what it has
        if holder.form != holder.bottom:
            return False
        waits_for = (*holder.spec.after, *holder.spec.after_ok) if isinstance(holder, Job) else ()
        if any(isinstance(x := s.holders.get(w), Job) and x.ended is None for w in waits_for):
            return True
        return (
            never_fits(Want(holder=holder, form=holder.top, rank=(Rank.JOB, 0.0, holder.id)), s) is not None
        )

    def final(self) -> None:
        """Everything that had to happen has."""
        s = self._world.snapshot()
        if s is None:
            self._world.wrong("there is no daemon in the end")
            return
        for request in self._world.clients.open.values():
            waited_s = self._world.loop.now_s - request.sent_s
            self._world.wrong(f"{request.id} for {request.service} has no answer after {waited_s:.0f} s")
        verdicts = self._world.verdicts()
        for holder in s.holders.values():
            if self._unfinished(holder, s):
                why = verdicts.get(holder.id)
                self._world.wrong(f"{holder.id} never came to an end: {holder.form}, {why}")
        for hid, pending in s.pending.items():
            self._world.wrong(f"{hid} still goes to {pending.to}")
        self._jobs(s)
        self._saved(s)
        self._logs()
        for sentence in learned.differs(self._world):
            self._world.wrong(sentence)
        self._samples()

    def _jobs(self, s: Snapshot) -> None:
        for job in self._world.checks.told.jobs:
            if job not in s.holders and job not in self._world.checks.told.cleared:
                self._world.wrong(f"{job} was accepted and is lost")
        for hid, work in self._world.work.items():
            holder = s.holders.get(hid)
            done = isinstance(holder, Job) and holder.ended == "done"
            if work.finished > 1 + self._world.checks.told.again.get(hid, 0):
                self._world.wrong(f"{hid} did its work {work.finished} times")
            if done and not (work.finished or work.told):
                self._world.wrong(f"{hid} is called done, and its work was not done")
            again = self._world.checks.told.again.get(hid)
            if work.finished and not again and isinstance(holder, Job) and holder.ended is None:
                self._world.wrong(f"{hid} did its work, and nobody noticed: {holder.wish} {holder.form}")

    def _saved(self, s: Snapshot) -> None:
        """The rows are what is in memory."""
        rows = {hid: doc for hid, _, doc in self._world.disk.database.load().holders}
        for hid, holder in s.holders.items():
            if isinstance(holder, Job) and (row := rows.get(hid)) is not None:
                saved, now = _lasting(json.loads(row)), _lasting(json.loads(codec.dumps(holder)))
                if differs := sorted(key for key in now if saved.get(key) != now[key]):
                    self._world.wrong(f"the row of {hid} is not what is in memory: {', '.join(differs)}")
            elif isinstance(holder, Job):
                self._world.wrong(f"{hid} has no row")
        for hid in rows.keys() - s.holders.keys():
            self._world.wrong(f"the row of {hid} is nobody's")

    def _logs(self) -> None:
        """Each whole line that a gate wrote is in the database exactly once."""
        missing, more = self._unlike()
        if missing or more:
            self._world.wrong(f"request log: {missing} lines are missing, {more} are there twice")

    def _samples(self) -> None:
        """What is kept of memory says the same at every step: in so short a time no row is old."""
        sums = "series, sum(looks), sum(bytes), max(peak_bytes), sum(busy)"
        found: dict[object, set[tuple[object, ...]]] = {}
        for step_s, *row in self._world.disk.database.look(
            f"SELECT step_s, {sums} FROM sample GROUP BY 1, 2"
        ):
            found.setdefault(step_s, set()).add(tuple(row))
        steps = len(STEPS) if self._world.machine.cards else 0  # without a card there is nothing to look at
        if len(found) != steps or len({frozenset(rows) for rows in found.values()}) > 1:
            self._world.wrong(f"rows of memory differ by their step: {found}")

    def _unlike(self) -> tuple[int, int]:
        """Lines of the gates that are not in the database yet, and how many it has too often."""
        written: Counter[str] = Counter()
        for data in self._world.disk.logs.values():
            whole = bytes(data).rpartition(b"\n")[0]
            written.update(line.decode().strip() for line in whole.split(b"\n") if line.strip())
        saved = Counter(str(row[0]) for row in self._world.disk.database.look("SELECT doc FROM request"))
        return (written - saved).total(), (saved - written).total()


def _lasting(doc: dict[str, Any]) -> dict[str, Any]:
    """Without what is measured anew all the time and saved only now and then."""
    passing = {
        *("seen_bytes", "forms", "progress", "saved_age_s", "saved_point", "run"),
        *("marks", "told_s", "active_s", "log_bytes", "busy_s"),
    }
    return {key: value for key, value in doc.items() if key not in passing}
