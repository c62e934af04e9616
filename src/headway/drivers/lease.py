"""A lease: devices of a program that is not ours. Granting and asking back are said, not done to a process."""

from __future__ import annotations

import aiohttp

from headway.core.leases import RETURN
from headway.core.model import Holder, MoveRule
from headway.drivers.launching import no_such_form
from headway.ports import Clock, Moved, Runs, Seen, Task

MOVES: tuple[MoveRule, ...] = (
    RETURN,
    MoveRule(source="revoked", to="granted", limit_s=5.0, frees=False, creates=True),
)


class LeaseDriver:
    """Whoever asked learns of both from the state itself, and lets go by a release or by its end."""

    name = "lease"
    moves = MOVES

    def __init__(self, runs: Runs, http: aiohttp.ClientSession, clock: Clock) -> None:
        """Takes what every driver takes, and needs none of it."""

    async def observe(self, holder: Holder) -> Seen:
        """None: only its program and its processes tell, and they are asked by nobody here."""
        return Seen(form=None)

    async def move(self, task: Task) -> Moved:
        """Nothing to wait for.

        Raises:
            DriverFailed: there is no such form.
        """
        if task.form not in ("granted", "revoked"):
            raise no_such_form(self.name, task)
        return Moved()
