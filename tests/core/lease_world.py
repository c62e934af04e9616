"""The false world with programs that Headway did not start: they ask, take what they were granted, and let go."""

from __future__ import annotations

from typing import Any

from headway.core import leases
from headway.core.commands import AskLease, Claim, EndLease
from headway.core.facts import LeaseGone
from headway.core.model import Lease, Move
from headway.drivers.lease import MOVES
from tests.core.make import gib
from tests.core.programs import Habit, Program
from tests.core.timeline import LINK_S
from tests.core.world import World


class LeaseWorld(World):
    """A lease's driver answers at once and touches nothing; `taken` are bytes that it takes when it is granted."""

    def begin(self, move: Move) -> None:
        if isinstance(self.s.holders[move.holder], Lease):
            self.tasks[move.holder] = self.tasks.get(move.holder, 0) + 1
            assert move.run_id is None and move.creates is not move.frees
            self._answer(move, self.tasks[move.holder], 0.001)
        else:
            super().begin(move)

    def lease(self, size: float | None = 12, pid: int | None = 5000, **given: Any) -> str:
        """Ask for that much on each of `count` devices; the id."""
        spec = {key: given.pop(key) for key in ("count", "pinned_devices", "min_residency_s") if key in given}
        made = leases.spec_of("render", MOVES, None if size is None else gib(size), **spec)
        reply = self.command(AskLease(spec=made, pid=pid, **given))
        assert reply.accepted and reply.holder, reply
        return reply.holder

    def claim(self, size: float | None, *devices: str, pid: int = 6000, **given: Any) -> str:
        need = None if size is None else gib(size)
        reply = self.command(Claim(name="shell", pid=pid, need_bytes=need, devices=devices, **given))
        assert reply.accepted and reply.holder, reply
        return reply.holder

    def takes(self, lid: str, size: float) -> None:
        """Its program takes that much on each device it was granted."""
        self.habits.setdefault(lid, Habit())
        program = Program(run_id=f"{lid}.1", devices=self.s.holders[lid].devices, form="granted")
        self.programs[lid] = program
        self._hold(program, gib(size))

    def releases(self, lid: str) -> None:
        """It gives back by its word, and its memory falls at once."""
        if lid in self.programs:
            self._hold(self.programs[lid], 0)
        assert self.command(EndLease(target=lid)).accepted

    def exits(self, lid: str, falls_s: float = 0.0) -> None:
        """Its processes end; what they held falls a while later."""
        if lid in self.programs:
            program = self.programs[lid]
            program.alive = False
            self.later(falls_s, lambda: self._hold(program, 0))
        self.told(LeaseGone(lease=lid), LINK_S)
        self._measure()

    def of(self, lid: str) -> Lease:
        lease = self.s.holders[lid]
        assert isinstance(lease, Lease)
        return lease
