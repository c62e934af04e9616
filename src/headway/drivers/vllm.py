"""vLLM's server. It sleeps and wakes by routes of its development mode, which a server must be started with.

Its 200 is a promise, so nothing here reads a body as proof. `/is_sleeping` is answered by the engine itself: no answer
means that it is at work, perhaps at a sleep or a wake that was asked before, and then nothing is sent. The gauge of the
sleep level repeats what was asked last, so it may add the reload after a deep sleep and never save it.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, replace

import aiohttp

from headway.core.engines import EngineRead
from headway.core.model import Holder, MoveRule, ServiceSpec
from headway.drivers.launching import leader_lives, limited, no_such_form
from headway.drivers.prometheus import Samples, highest, samples, total
from headway.drivers.serving import SLOWEST_S, SOONEST_S, Answer, Serving, service_spec
from headway.errors import DriverFailed, LimitPassed, ServerSilent
from headway.ports import Clock, Moved, Runs, Seen, Task

# What its front process answers by itself. Not /is_sleeping, which asks the engine.
ASLEEP_PROBES = ("/health", "/ping", "/models", "/version", "/load", "/metrics")
BUSY = ("vllm:num_requests_running", "vllm:num_requests_waiting")
SLEEP_STATE = "vllm:engine_sleep_state"
UNDER_WAY = "vllm:sleep_mode_operations_in_flight"
LEVELS = {"awake": 0, "weights_offloaded": 1, "discard_all": 2}
TOKENS = "vllm:generation_tokens_total"
FIRST_N, FIRST_S = "vllm:time_to_first_token_seconds_count", "vllm:time_to_first_token_seconds_sum"
CACHE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")  # a share; the second in older ones
PREFIX, PREFIX_HITS = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
WANTED = frozenset({*BUSY, SLEEP_STATE, UNDER_WAY, TOKENS, FIRST_N, FIRST_S, *CACHE, PREFIX, PREFIX_HITS})
SAID_CHARS = 300  # of an answer that is told to people
SWITCHES = "--enable-sleep-mode among its arguments and VLLM_SERVER_DEV_MODE=1 in its environment"

# A sleeper cannot go deeper: vLLM answers 200 and stays where it is. Its start measures what others hold meanwhile.
MOVES: tuple[MoveRule, ...] = (
    MoveRule(source="awake", to="asleep", limit_s=60.0, frees=True, exclusive=True, to_host=True),
    MoveRule(source="awake", to="stopped", limit_s=30.0, frees=True),
    MoveRule(source="asleep", to="stopped", limit_s=30.0, frees=True),
    MoveRule(source="asleep", to="awake", limit_s=60.0, frees=False),
    MoveRule(source="stopped", to="awake", limit_s=600.0, frees=False, creates=True, exclusive=True),
)
WAKE_LIMIT_S = MOVES[3].limit_s  # a wake that reloads its weights has all the time of a start


@dataclass(frozen=True, slots=True)
class Sleep:
    """What the server says of its sleep. `asleep` None: not readable now. `told` False: it has no word for it."""

    asleep: bool | None
    level: int | None = None  # of the sleep that was asked last; 0 is awake, None is unread
    told: bool = True
    busy: int | None = None  # requests running and waiting in all its engines
    engine: EngineRead | None = None


class VllmDriver:
    """Sleeps, wakes, starts and stops the server. Asleep is the level that the service's `sleep_level` names."""

    name = "vllm"
    moves = MOVES

    def __init__(self, runs: Runs, http: aiohttp.ClientSession, clock: Clock) -> None:
        self.serving = Serving(runs, http)

    async def observe(self, holder: Holder) -> Seen:
        """Awake, asleep, stopped, or None when it cannot tell; with the engine's own count of requests."""
        seen = await self.serving.look(holder)
        if seen.form != "awake" or seen.upstream is None:
            return seen
        sleep = await self._sleep(service_spec(holder), seen.upstream, holder)
        if sleep.asleep is None:
            return replace(seen, form=None, ready=False, engine_active=sleep.busy)
        form = "asleep" if sleep.asleep else "awake"
        ready = not sleep.asleep
        return replace(seen, form=form, ready=ready, engine_active=sleep.busy, engine=sleep.engine)

    async def move(self, task: Task) -> Moved:
        """Start, sleep, wake or stop it.

        Raises:
            DriverFailed: it refused, or has no such route; or see Serving.start and Serving.stop.
            ServerSilent: it went away meanwhile.
            LimitPassed: not in time.
        """
        async with limited(task):
            if task.form == "awake":
                url = await self.serving.start(task)
                return Moved(upstream=url, facts=await self._ensure_awake(task, url))
            if task.form == "asleep":
                return Moved(facts=await self._ensure_asleep(task))
            if task.form == "stopped":
                await self.serving.stop(task)
                return Moved()
        raise no_such_form(self.name, task)

    # -------------------------------------------------------- sleeping

    async def _ensure_asleep(self, task: Task) -> dict[str, int]:
        """Ask once, and only one that is awake: to a sleeper the word would only change what its gauge says."""
        spec, url = service_spec(task.holder), self._url(task.holder)
        level = _level_of(spec)
        sleep = await self._readable(spec, url, task.holder)
        if not sleep.asleep or sleep.level == 0:
            await self._tell(spec, url, f"/sleep?level={level}&mode=wait")
        return {"level": level}

    def _url(self, holder: Holder) -> str:
        spec, state = service_spec(holder), self.serving.state(holder)
        if spec.argv and (state is None or not leader_lives(state)):
            raise ServerSilent(
                f"{spec.name} does not run, so it cannot sleep. See why: `headway log {spec.name}`.",
                holder=spec.name,
                refused=True,
            )
        return self.serving.url(spec, state.port if state else None)

    # -------------------------------------------------------- waking

    async def _ensure_awake(self, task: Task, url: str) -> dict[str, int]:
        spec = service_spec(task.holder)
        sleep = await self._readable(spec, url, task.holder)
        if not sleep.asleep:
            return {}
        level = max(_level_of(spec), sleep.level or 0)
        limit_s = task.limit_s if level == 2 else min(task.limit_s, WAKE_LIMIT_S)
        try:
            async with asyncio.timeout(limit_s):
                await self._wake(spec, url, level)
                while sleep.told and (await self._readable(spec, url, task.holder)).asleep:
                    await asyncio.sleep(SLOWEST_S)
        except TimeoutError as error:
            raise LimitPassed(
                f"{spec.name} did not wake within {limit_s:g} s. Its own words: `headway log {spec.name}`.",
                holder=spec.name,
                form=task.form,
                limit_s=limit_s,
            ) from error
        health = await self.serving.ask(spec, "GET", url + spec.health_path)
        if health.status != 200:
            raise _refusal(spec, "GET", spec.health_path, health)
        return {"level": level}

    async def _wake(self, spec: ServiceSpec, url: str, level: int) -> None:
        """After a deep sleep the weights are read anew before anything can run: without that it answers nonsense."""
        if level != 2:
            await self._tell(spec, url, "/wake_up")
            return
        await self._tell(spec, url, "/wake_up?tags=weights")
        await self._tell(spec, url, "/collective_rpc", {"method": "reload_weights"})
        await self._tell(spec, url, "/wake_up?tags=kv_cache")

    async def _tell(
        self, spec: ServiceSpec, url: str, route: str, body: dict[str, str] | None = None
    ) -> None:
        """One order, sent once; its answer comes when it was carried out.

        Raises:
            DriverFailed: any answer but 200, or none.
        """
        more = {} if body is None else {"json": body}
        answer = await self.serving.ask(spec, "POST", url + route, limit_s=None, **more)
        if answer.status != 200:
            raise _refusal(spec, "POST", route, answer)

    # -------------------------------------------------------- reading

    async def _readable(self, spec: ServiceSpec, url: str, holder: Holder) -> Sleep:
        """The state, as soon as it can be read; the move's limit bounds the wait.

        Raises:
            ServerSilent: nobody listens there any more.
        """
        pause_s = SOONEST_S
        while (sleep := await self._sleep(spec, url, holder)).asleep is None:
            health = await self.serving.ask(spec, "GET", url + spec.health_path)
            if health.refused:
                raise _refusal(spec, "GET", spec.health_path, health)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, SLOWEST_S)
        return sleep

    async def _sleep(self, spec: ServiceSpec, url: str, holder: Holder) -> Sleep:
        """What the engine says; without that route, what the gauge says; without both, the form it was brought to.

        The gauge is read last: an engine that answers late has just changed it.
        """
        said = await self.serving.ask(spec, "GET", f"{url}/is_sleeping")
        metrics = await self.serving.ask(spec, "GET", f"{url}/metrics")
        text = metrics.body.decode(errors="replace") if metrics.status == 200 else ""
        found = samples(text, WANTED)
        level, busy, engine = _asked_level(found), _busy(found), _engine(found)
        if total(found, UNDER_WAY):
            return Sleep(None, level, busy=busy)
        if said.status == 404 and level is not None:
            return Sleep(level > 0, level, busy=busy, engine=engine)
        if said.status == 404 and metrics.status is not None:
            return Sleep(holder.form == "asleep", None, told=False, busy=busy, engine=engine)
        return Sleep(_is_sleeping(said), level, busy=busy, engine=engine)


def _level_of(spec: ServiceSpec) -> int:
    return int(spec.options.get("sleep_level", 1))


def _is_sleeping(answer: Answer) -> bool | None:
    try:
        said = json.loads(answer.body)["is_sleeping"] if answer.status == 200 else None
    except (ValueError, KeyError, TypeError):
        return None
    return said if isinstance(said, bool) else None


def _busy(found: Samples) -> int | None:
    """Requests running and waiting, over all engines; None: it does not tell."""
    known = [total(found, name) for name in BUSY]
    return None if None in known else round(sum(one or 0.0 for one in known))


def _asked_level(found: Samples) -> int | None:
    """The deepest level that the gauge of any engine shows. Level 0 and a pause are shown as nothing at all."""
    if SLEEP_STATE not in found:
        return None
    shown = [re.search(r'sleep_state="(\w+)"', labels) for labels, value in found[SLEEP_STATE] if value]
    return max((LEVELS.get(one[1], 0) for one in shown if one), default=0)


def _engine(found: Samples) -> EngineRead:
    return EngineRead(
        tokens=total(found, TOKENS),
        first_n=total(found, FIRST_N),
        first_s=total(found, FIRST_S),
        cache_share=highest(found, *CACHE),
        prefix_tokens=total(found, PREFIX),
        prefix_hits=total(found, PREFIX_HITS),
    )


def _refusal(spec: ServiceSpec, verb: str, route: str, answer: Answer) -> DriverFailed:
    name, path = spec.name, route.partition("?")[0]
    if answer.status is None:
        how = "nobody listens there any more" if answer.refused else "it broke the connection off"
        return ServerSilent(
            f"{name} did not answer {verb} {path}: {how}. See why: `headway log {name}`.",
            holder=name,
            route=path,
            refused=answer.refused,
        )
    if answer.status == 404:
        return DriverFailed(
            f"{name} has no route {path}: its sleep is switched off. Start it with {SWITCHES}, "
            f'or use driver = "process", which only starts and stops it.',
            holder=name,
            route=path,
            status=404,
            detail=f"it has no route {path}; start it with {SWITCHES}",
        )
    said = _said(answer.body)
    return DriverFailed(
        f"{name} answered {answer.status} to {verb} {path}: {said or 'no words'}. "
        f"See more: `headway log {name}`.",
        holder=name,
        route=path,
        status=answer.status,
        detail=f"{answer.status} to {path}: {said}",
    )


def _said(body: bytes) -> str:
    """The message of an error in vLLM's shape, else the beginning of the text."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = body.decode(errors="replace")
    return str(message).strip()[:SAID_CHARS]
