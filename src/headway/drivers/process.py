"""A model server that Headway starts and stops: the driver that fits every server."""

from __future__ import annotations

import aiohttp

from headway.core.model import Holder, MoveRule
from headway.drivers.launching import limited, no_such_form
from headway.drivers.serving import Serving
from headway.ports import Clock, Moved, Runs, Seen, Task

MOVES: tuple[MoveRule, ...] = (
    MoveRule(source="awake", to="stopped", limit_s=30.0, frees=True),
    MoveRule(source="stopped", to="awake", limit_s=300.0, frees=False, creates=True),
)


class ProcessDriver:
    """Awake is a run whose own socket answers 200 on the health path; stopped is no run."""

    name = "process"
    moves = MOVES

    def __init__(self, runs: Runs, http: aiohttp.ClientSession, clock: Clock) -> None:
        self.serving = Serving(runs, http)

    async def observe(self, holder: Holder) -> Seen:
        """Awake, stopped, or None when it cannot tell; see Serving.look."""
        return await self.serving.look(holder)

    async def move(self, task: Task) -> Moved:
        """Start or stop it.

        Raises:
            DriverFailed: one of its kinds; see Serving.start and Serving.stop.
            LimitPassed: not in time.
        """
        async with limited(task):
            if task.form == "awake":
                return Moved(upstream=await self.serving.start(task))
            if task.form == "stopped":
                await self.serving.stop(task)
                return Moved()
        raise no_such_form(self.name, task)
