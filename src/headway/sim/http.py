"""What the daemon's HTTP client meets on the false machine, and a driver for servers that can sleep."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import aiohttp

from headway.core.model import Holder, MoveRule
from headway.drivers.launching import limited, no_such_form
from headway.drivers.serving import Serving, service_spec
from headway.errors import DriverFailed
from headway.ports import Clock, Moved, Runs, Seen, Task

if TYPE_CHECKING:
    from headway.sim.world import World

CONNECT_S = 0.001
MOVES: tuple[MoveRule, ...] = (
    MoveRule(source="awake", to="asleep", limit_s=30.0, frees=True, exclusive=True, to_host=True),
    MoveRule(source="awake", to="stopped", limit_s=30.0, frees=True),
    MoveRule(source="asleep", to="stopped", limit_s=30.0, frees=True),
    MoveRule(source="stopped", to="awake", limit_s=300.0, frees=False, creates=True, exclusive=True),
    MoveRule(source="asleep", to="awake", limit_s=60.0, frees=False),
)


class _Reply:
    """One answer, as `async with session.request(...)` gives it. `limit_s` is like aiohttp's total timeout."""

    def __init__(self, world: World, url: str, limit_s: float | None) -> None:
        self._world, self._url, self._limit_s = world, url, limit_s
        self._answer: asyncio.Future[tuple[int, bytes]] = world.loop.create_future()
        self._limit: asyncio.TimerHandle | None = None
        self.status, self._body = 0, b""

    async def __aenter__(self) -> _Reply:
        """Raises aiohttp's errors: nobody listens, or the connection broke. TimeoutError: no answer in time."""
        self._world.loop.call_later(CONNECT_S, self._connect)
        try:
            self.status, self._body = await self._answer
        finally:
            if self._limit is not None:
                self._limit.cancel()
        return self

    def _connect(self) -> None:
        if self._answer.done():  # given up
            return
        parts = urlsplit(self._url)
        server = self._world.servers.get(parts.port or 0)
        if server is None:
            refused = aiohttp.ClientConnectorError(cast(Any, _Key), ConnectionRefusedError())
            self._answer.set_exception(refused)
            return
        server.asked(parts.path, self._answered)
        if self._limit_s is not None and not self._answer.done():
            self._limit = self._world.loop.call_later(self._limit_s - CONNECT_S, self._late)

    def _late(self) -> None:
        if not self._answer.done():
            self._answer.set_exception(TimeoutError())

    def _answered(self, status: int | None, body: bytes) -> None:
        if self._answer.done():
            return
        if status is None:
            self._answer.set_exception(aiohttp.ServerDisconnectedError())
        else:
            self._answer.set_result((status, body))

    async def __aexit__(self, *_: object) -> None:
        pass

    async def read(self) -> bytes:
        return self._body


class SimHttp:
    """Stands in for aiohttp's session: connections to ports of the false machine."""

    def __init__(self, world: World) -> None:
        self._world = world

    def request(self, verb: str, url: str, *, timeout: aiohttp.ClientTimeout, **_: Any) -> Any:
        return _Reply(self._world, url, timeout.total)


class _Key:
    host, port, ssl, is_ssl = "127.0.0.1", 0, False, False


class SleeperDriver:
    """A server with the routes /sleep, /wake_up, and /state: its form and its own count of requests."""

    name = "sleeper"
    moves = MOVES

    def __init__(self, runs: Runs, http: aiohttp.ClientSession, clock: Clock) -> None:
        self.serving = Serving(runs, http)

    async def observe(self, holder: Holder) -> Seen:
        seen = await self.serving.look(holder)
        if seen.form != "awake" or seen.upstream is None:
            return seen
        spec = service_spec(holder)
        answer = await self.serving.ask(spec, "GET", seen.upstream + "/state")
        if answer.status != 200:
            return Seen(form=None)
        form, _, active = answer.body.decode().partition(" ")
        return Seen(form=form, ready=form == "awake", upstream=seen.upstream, engine_active=int(active))

    async def move(self, task: Task) -> Moved:
        async with limited(task):
            if task.form == "stopped":
                await self.serving.stop(task)
                return Moved()
            if task.form == "asleep":
                await self._post(task, "/sleep")
                return Moved()
            if task.form == "awake":
                url = await self.serving.start(task)
                if (await self.observe(task.holder)).form == "asleep":
                    await self._post(task, "/wake_up")
                return Moved(upstream=url)
        raise no_such_form(self.name, task)

    async def _post(self, task: Task, path: str) -> None:
        spec, state = service_spec(task.holder), self.serving.state(task.holder)
        url = self.serving.url(spec, state.port if state is not None else None)
        answer = await self.serving.ask(spec, "POST", url + path, limit_s=None)
        if answer.status != 200:
            raise DriverFailed(
                f"{spec.name} answered {answer.status} to {path}. See `headway log {spec.name}`.",
                holder=spec.name,
            )
