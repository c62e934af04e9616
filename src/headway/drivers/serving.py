"""A model server as a run that listens on a port: what the drivers of servers that we start and stop share."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from headway.core.model import Holder, ServiceSpec
from headway.drivers.launching import (
    end_earlier,
    end_present,
    ensure_launched,
    last_words,
    leader_lives,
    left_behind,
)
from headway.errors import CannotStart, DriverFailed, PortTaken, ServerExited, ServerSilent
from headway.ports import Runs, RunSpec, RunState, Seen, Task

PROBE_LIMIT_S = 2.0
SOONEST_S, SLOWEST_S = 0.02, 0.25  # between two looks at a server that is loading
PORT = "{port}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said. `status` None: nothing in time; `refused`: nobody listens."""

    status: int | None
    body: bytes = b""
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Serving:
    """Looks at, starts and stops servers. Holds nothing about them."""

    runs: Runs
    http: aiohttp.ClientSession

    # -------------------------------------------------------- looking

    def state(self, holder: Holder) -> RunState | None:
        """The present run; None: there is none, or it never ran."""
        state = self.runs.read(holder.run.id) if holder.run else None
        return state if state is not None and (state.lock_held or state.ran) else None

    def url(self, spec: ServiceSpec, port: int | None) -> str:
        """Where the server answers, such as `http://127.0.0.1:8100`."""
        return spec.upstream.replace(PORT, str(port)).rstrip("/")

    async def look(self, holder: Holder) -> Seen:
        """Awake, stopped, or None: loading, hung, another program's port, or what is left of a server that died."""
        spec = service_spec(holder)
        state = self.state(holder)
        if spec.argv and (state is None or (state.ran and not leader_lives(state))):
            left = state is not None and left_behind(self.runs, state)
            return Seen(form=None if left else "stopped", down=True)
        url = self.url(spec, state.port if state else None)
        answer = await self.ask(spec, "GET", url + spec.health_path)
        if answer.status == 200 and self._is_ours(spec, state):
            return Seen(form="awake", ready=True, upstream=url)
        if answer.refused and not spec.argv:
            return Seen(form="stopped", down=True)
        return Seen(form=None, down=answer.refused or answer.status == 200)

    async def ask(
        self, spec: ServiceSpec, verb: str, url: str, limit_s: float | None = PROBE_LIMIT_S, **more: Any
    ) -> Answer:
        """One request, never repeated. `limit_s` None: as long as the move allows."""
        headers = {}
        try:
            if spec.key_file:
                key = await asyncio.to_thread(Path(spec.key_file).read_text)
                headers["Authorization"] = f"Bearer {key.strip()}"
            timeout = aiohttp.ClientTimeout(total=limit_s)
            async with self.http.request(verb, url, timeout=timeout, headers=headers, **more) as reply:
                return Answer(reply.status, await reply.read())
        except aiohttp.ClientConnectorError as error:
            return Answer(None, refused=isinstance(error.os_error, ConnectionRefusedError))
        except (aiohttp.ClientError, TimeoutError, OSError):
            return Answer(None)

    # -------------------------------------------------------- starting

    async def start(self, task: Task) -> str:
        """Start the server unless its run lives already, and wait until it answers; returns its URL.

        One run, one port: a taken port ends the run and raises, and the next try is a new run with a new port.

        Raises:
            CannotStart: no command, or it could not be executed.
            PortTaken: another program listens on the port.
            ServerExited: it ended before it was ready; what was left of its tree was ended.
        """
        spec = service_spec(task.holder)
        if not spec.argv:
            return await self._await_foreign(spec)
        await end_earlier(self.runs, task.holder, task.run_id)
        state = self.runs.read(task.run_id)
        port = state.port if state is not None and state.port is not None else self._choose_port(spec)
        words = tuple(word.replace(PORT, str(port)) for word in spec.argv)
        env = {name: value.replace(PORT, str(port)) for name, value in spec.env.items()}
        state = await ensure_launched(
            self.runs,
            RunSpec(
                id=task.run_id,
                holder=task.holder.id,
                argv=words,
                env={**env, **task.device_env},
                cwd=spec.cwd,
                port=port,
                stop_grace_s=spec.stop_grace_s,
            ),
        )
        await self._await_ready(spec, task.run_id, state.port or port)
        return self.url(spec, state.port or port)

    async def stop(self, task: Task) -> None:
        """End the server's tree.

        Raises:
            DriverFailed: it is not ours to end.
        """
        if not task.holder.spec.argv:
            raise DriverFailed(
                f"{task.holder.id} was not started by Headway and has no way to be stopped. "
                f"Give it a `start` command in the config, or stop it where it was started.",
                holder=task.holder.id,
            )
        await end_present(self.runs, task)

    def _is_ours(self, spec: ServiceSpec, state: RunState | None) -> bool:
        """Whether the program that answers is the run's own; a server we did not start is taken at its word."""
        if not spec.argv:
            return True
        return state is not None and state.port is not None and self.runs.listens(state.id, state.port)

    def _choose_port(self, spec: ServiceSpec) -> int:
        if PORT in spec.upstream:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                return int(probe.getsockname()[1])
        port = urlsplit(spec.upstream).port
        if port is None:
            raise CannotStart(
                f"{spec.name} has no port in its upstream {spec.upstream!r}. Write it like http://127.0.0.1:{PORT}.",
                holder=spec.name,
            )
        if owner := self.runs.listener(port):
            raise _port_taken(spec, port, owner)
        return port

    async def _await_ready(self, spec: ServiceSpec, run_id: str, port: int) -> None:
        health = self.url(spec, port) + spec.health_path
        pause_s, strangers = SOONEST_S, 0
        while True:
            state = self.runs.read(run_id)
            if state is None or not leader_lives(state):
                await self._end_failed(spec, run_id, port)
            ours = self.runs.listens(run_id, port)
            answer = await self.ask(spec, "GET", health)
            if ours and answer.status == 200:
                return
            # twice: between listening and answering a child of ours may have come up
            strangers = 0 if ours or answer.refused else strangers + 1
            if strangers > 1:
                owner = self.runs.listener(port) or "another program"
                await self.runs.stop(run_id, 0.0)
                raise _port_taken(spec, port, owner)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, SLOWEST_S)

    async def _end_failed(self, spec: ServiceSpec, run_id: str, port: int) -> None:
        await self.runs.stop(run_id, 0.0)
        state = self.runs.read(run_id)
        lines = last_words(self.runs, run_id)
        if owner := self.runs.listener(port):  # the tree is gone, so it is somebody else's
            raise _port_taken(spec, port, owner)
        code = state.exit.code if state is not None and state.exit is not None else None
        told = f"with code {code}" if code is not None else "and left no exit code"
        last = f" Its last line: {lines[-1]}" if lines else ""
        raise ServerExited(
            f"{spec.name} ended {told} while it was starting.{last} See all of it: `headway log {spec.name}`.",
            holder=spec.name,
            exit_code=code,
            lines=lines,
        )

    async def _await_foreign(self, spec: ServiceSpec) -> str:
        if PORT in spec.upstream:
            raise CannotStart(
                f"{spec.name} has no `start` command, so nobody chooses the {PORT} in its upstream. "
                f"Give it a `start` command, or the port where it listens.",
                holder=spec.name,
            )
        url = self.url(spec, None)
        answer = await self.ask(spec, "GET", url + spec.health_path)
        while answer.status != 200:
            if answer.refused:
                raise ServerSilent(
                    f"nobody listens at {url}, and {spec.name} has no `start` command. Start it by hand.",
                    holder=spec.name,
                    refused=True,
                )
            await asyncio.sleep(SLOWEST_S)
            answer = await self.ask(spec, "GET", url + spec.health_path)
        return url


def service_spec(holder: Holder) -> ServiceSpec:
    """The spec of a service.

    Raises:
        CannotStart: the holder is none.
    """
    if not isinstance(holder.spec, ServiceSpec):
        raise CannotStart(f"{holder.id} is no service, so the driver {holder.spec.driver} cannot run it.")
    return holder.spec


def _port_taken(spec: ServiceSpec, port: int, owner: str) -> PortTaken:
    return PortTaken(
        f"port {port} of {spec.name} is taken by {owner}. End that program, or let Headway choose: "
        f'put {{port}} into `start` and `upstream = "http://127.0.0.1:{{port}}"`.',
        holder=spec.name,
        port=port,
        owner=owner,
    )
