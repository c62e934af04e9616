"""llama.cpp's server. It falls asleep by its own idle timer only, so asleep is seen here and never asked for.

/health, /props, /models and /metrics neither wake it nor reset that timer; /slots does both and is never read.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import aiohttp

from headway.core.engines import EngineRead
from headway.core.model import Holder, MoveRule, ServiceSpec
from headway.drivers.launching import limited, no_such_form
from headway.drivers.prometheus import Samples, samples, total
from headway.drivers.serving import SLOWEST_S, Serving, service_spec
from headway.errors import ServerSilent
from headway.ports import Clock, Moved, Runs, Seen, Task

ASLEEP_PROBES = ("/health", "/props", "/models", "/metrics")
BUSY = ("llamacpp:requests_processing", "llamacpp:requests_deferred")
TOKENS, TOKENS_S = "llamacpp:tokens_predicted_total", "llamacpp:tokens_predicted_seconds_total"
PROMPT, CACHED = "llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"
CACHE = "llamacpp:kv_cache_usage_ratio"  # older ones have it
WANTED = frozenset({*BUSY, TOKENS, TOKENS_S, PROMPT, CACHED, CACHE})

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
        found = await self._metrics(spec, seen.upstream)
        form, busy = "asleep" if asleep else "awake", _busy(found)
        return replace(seen, form=form, ready=not asleep, engine_active=busy, engine=_engine(found))

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

    async def _metrics(self, spec: ServiceSpec, url: str) -> Samples:
        """What it counts; empty: it was started without --metrics."""
        answer = await self.serving.ask(spec, "GET", f"{url}/metrics")
        return samples(answer.body.decode(errors="replace"), WANTED) if answer.status == 200 else {}


def _busy(found: Samples) -> int | None:
    """Requests processing and waiting inside the engine; None: it does not tell."""
    known = [total(found, name) for name in BUSY]
    return None if None in known else round(sum(one or 0.0 for one in known))


def _engine(found: Samples) -> EngineRead:
    """Tokens of prompts are counted where they are worked on: those from the cache come on top."""
    worked, cached = total(found, PROMPT), total(found, CACHED)
    return EngineRead(
        tokens=total(found, TOKENS),
        busy_s=total(found, TOKENS_S),
        cache_share=total(found, CACHE),
        prefix_tokens=None if worked is None or cached is None else worked + cached,
        prefix_hits=cached,
    )
