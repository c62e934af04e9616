"""Starts what ends on the false machine, and holds the roster: the locks of its gates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headway.sim.daemons import SimDaemon
from headway.sim.gates import SimGate

if TYPE_CHECKING:
    from headway.sim.world import World


class Supervisor:
    """Implements ports.Roster as well."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.there = True  # while it is gone, nobody starts anything
        self.gate_lives_on = False  # a gate that no signal ends

    def start(self) -> None:
        """The daemon and a gate."""
        self._new_daemon()
        self._new_gate()

    def _new_gate(self) -> None:
        gate = SimGate(self._world, "g1", self._world.machine.process().pid)
        self._world.gates[gate.id] = gate

    def _new_daemon(self) -> None:
        self._world.daemon = SimDaemon(self._world)

    def gate_ended(self, gate: SimGate) -> None:
        del self._world.gates[gate.id]
        self._world.machine.processes.pop(gate.pid, None)
        self._world.trace("gate ended")
        self._again(self._new_gate)

    def daemon_ended(self) -> None:
        self._world.daemon = None
        self._world.trace("daemon ended")
        self._world.checks.daemon_ended()
        self._again(self._new_daemon)

    def _again(self, start: Callable[[], None]) -> None:
        """Start it once the supervisor is there to do so."""
        if self.there:
            self._world.loop.later(self._world.chance.uniform(0.2, 1.0), start)
        else:
            self._world.loop.later(0.5, self._again, start)

    # ---------------------------------------------------------------- ports.Roster

    def living(self) -> frozenset[str]:
        return frozenset(self._world.gates)

    def kill(self, gate: str, pid: int | None) -> bool:
        found = self._world.gates.get(gate)
        if found is None or found.pid != pid or self.gate_lives_on:
            return False
        self._world.seen["fenced"] += 1
        found.kill()
        return True
