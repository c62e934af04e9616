"""llama.cpp's server. It falls asleep by its own idle timer only, so asleep is seen here and never asked for.

/health, /props, /models and /metrics neither wake it nor reset that timer; /slots does both and is never read.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace

import aiohttp

from headway.core.model import Holder, MoveRule, ServiceSpec
from headway.drivers.launching import limited, no_such_form
from headway.drivers.serving import SLOWEST_S, Serving, service_spec
from headway.errors import ServerSilent
from headway.ports import Clock, Moved, Runs, Seen, Task

ASLEEP_PROBES = ("/health", "/props", "/models", "/metrics")
BUSY = ("llamacpp:requests_processing", "llamacpp:requests_deferred")

MOVES: tuple[MoveRule, ...] = (
    MoveRule(source="awake", to="stopped", limit_s=30.0, frees=True),
    MoveRule(source="asleep", to="stopped", limit_s=30.0, frees=True),
    MoveRule(source="stopped", to="awake", limit_s=300.0, frees=False, creates=True),
    MoveRule(source="asleep", to="awake", limit_s=300.0, frees=False),
)


class LlamaCppDriver:
    """Stops and starts the server; wakes one that fell asleep."""

    name = "llamacpp"
    moves = MOVES

    def __init__(self, runs: Runs, http: aiohttp.ClientSession, clock: Clock) -> None:
        self.serving = Serving(runs, http)

    async def observe(self, holder: Holder) -> Seen:
        """Awake, asleep, stopped, or None when it cannot tell; with the engine's own count of requests."""
        seen = await self.serving.look(holder)
        if seen.form != "awake" or seen.upstream is None:
            return seen
        spec = service_spec(holder)
        asleep = await self._is_asleep(spec, seen.upstream)
        if asleep is None:
            return replace(seen, form=None, ready=False)
        busy = await self._busy(spec, seen.upstream)
        return replace(seen, form="asleep" if asleep else "awake", ready=not asleep, engine_active=busy)

    async def move(self, task: Task) -> Moved:
        """Start, wake or stop it.

        Raises:
            DriverFailed: one of its kinds; see Serving.start and Serving.stop.
            LimitPassed: not in time.
        """
        async with limited(task):
            if task.form == "awake":
                url = await self.serving.start(task)
                await self._ensure_awake(service_spec(task.holder), url)
                return Moved(upstream=url)
            if task.form == "stopped":
                await self.serving.stop(task)
                return Moved()
        raise no_such_form(self.name, task)

    async def _ensure_awake(self, spec: ServiceSpec, url: str) -> None:
        """One request that needs the model, if it sleeps; its answer comes when the model is loaded."""
        if await self._is_asleep(spec, url):
            answer = await self.serving.ask(
                spec, "POST", f"{url}/tokenize", limit_s=None, json={"content": "x"}
            )
            if answer.refused:
                raise ServerSilent(
                    f"{spec.name} went away while it was to wake: nobody listens at {url}. "
                    f"See why: `headway log {spec.name}`.",
                    holder=spec.name,
                    refused=True,
                )
        while await self._is_asleep(spec, url) is not False:
            await asyncio.sleep(SLOWEST_S)

    async def _is_asleep(self, spec: ServiceSpec, url: str) -> bool | None:
        """What /props says; None: unread. A server too old for sleep does not name it, and is awake."""
        answer = await self.serving.ask(spec, "GET", f"{url}/props")
        if answer.status != 200:
            return None
        try:
            return bool(json.loads(answer.body).get("is_sleeping", False))
        except (ValueError, AttributeError):
            return None

    async def _busy(self, spec: ServiceSpec, url: str) -> int | None:
        """Requests processing and waiting inside the engine; None: it does not tell."""
        answer = await self.serving.ask(spec, "GET", f"{url}/metrics")
        if answer.status != 200:
            return None
        found = [
            re.search(rf"^{name}(?:{{.*}})? ([0-9.e+]+)$", answer.body.decode(), re.MULTILINE)
            for name in BUSY
        ]
        return sum(round(float(one[1])) for one in found if one) if all(found) else None
