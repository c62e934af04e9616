"""A job that is stopped to step aside and started again, from its saved point where it has one."""

from __future__ import annotations

import aiohttp

from headway.core.model import Holder, MoveRule
from headway.drivers import jobs
from headway.drivers.launching import limited, no_such_form
from headway.ports import Clock, Moved, Runs, Seen, Task

MOVES: tuple[MoveRule, ...] = (
    MoveRule(source="running", to="stopped", limit_s=30.0, frees=True, loses_work=True, overlaps_start=True),
    MoveRule(source="stopped", to="running", limit_s=30.0, frees=False, creates=True),
)


class RestartDriver:
    """Running is a run whose leader lives."""

    name = "restart"
    moves = MOVES

    def __init__(self, runs: Runs, http: aiohttp.ClientSession, clock: Clock) -> None:
        self.runs = runs

    async def observe(self, holder: Holder) -> Seen:
        """Running, stopped, or None when neither is true."""
        return jobs.look(self.runs, holder)

    async def move(self, task: Task) -> Moved:
        """Start or stop it.

        Raises:
            CannotStart: its command could not be executed.
            LimitPassed: not in time.
        """
        async with limited(task):
            if task.form == "running":
                return await jobs.start(self.runs, task)
            if task.form == "stopped":
                return await jobs.stop(self.runs, task)
        raise no_such_form(self.name, task)
