"""A model server that Headway starts and stops: the driver that fits every server."""

from __future__ import annotations

import aiohttp

from headway.core.model import Holder, MoveRule
from headway.drivers.launching import limited
from headway.drivers.serving import Serving, service_spec
from headway.errors import DriverFailed
from headway.ports import Clock, Moved, Runs, Seen, Task


class ProcessDriver:
    """Awake is a run whose own socket answers 200 on the health path; stopped is no run."""

    name = "process"
    moves: tuple[MoveRule, ...] = (
        MoveRule(source="awake", to="stopped", limit_s=30.0, frees=True),
        MoveRule(source="stopped", to="awake", limit_s=300.0, frees=False, creates=True),
    )

    def __init__(self, runs: Runs, http: aiohttp.ClientSession, clock: Clock) -> None:
        self.serving = Serving(runs, http)

    async def observe(self, holder: Holder) -> Seen:
        """Awake, stopped, or None: loading, hung, or what is left of a server that died."""
        spec = service_spec(holder)
        state = self.serving.state(holder)
        if spec.argv:
            over = self.serving.over(state)
            if over is not False:
                return Seen(form="stopped" if over else None, down=True)
        url = self.serving.url(spec, state.port if state else None)
        answer = await self.serving.ask(spec, "GET", url + spec.health_path)
        if answer.status == 200 and self.serving.is_ours(spec, state):
            return Seen(form="awake", ready=True, upstream=url)
        if answer.refused and not spec.argv:
            return Seen(form="stopped", down=True)
        return Seen(form=None, down=answer.refused or answer.status == 200)

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


def no_such_form(driver: str, task: Task) -> DriverFailed:
    """The error for a form that a driver's moves do not have."""
    return DriverFailed(
        f"the driver {driver} cannot bring {task.holder.id} into the form {task.form}. Check its `driver` in the config.",
        holder=task.holder.id,
        form=task.form,
    )
