"""A real gate for tests: its processes, a small real model server, and a scripted daemon on the link."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from headway.core import wire
from headway.gate import locks
from headway.gate.spec import Spec, write_spec

LIMIT_S = 20.0
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


class Upstream:
    """A model server: answers at once, streams, or stays silent, as the body's `do` says."""

    def __init__(self) -> None:
        self.calls = self.active = self.gone = 0
        self.allowed = True
        self.wrongly_called = 0
        self.ids: list[str] = []
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(row.lower().split(b": ", 1) for row in head.split(b"\r\n")[1:] if b": " in row)
                body = await reader.readexactly(int(fields.get(b"content-length", b"0")))
                self.calls += 1
                self.wrongly_called += not self.allowed
                self.ids.append(fields.get(b"x-request-id", b"").decode())
                self.active += 1
                try:
                    if b"upgrade" in fields:
                        await self._echo(reader, writer)
                    await self._answer(json.loads(body or b"{}"), reader, writer)
                finally:
                    self.active -= 1
        writer.close()

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A websocket, as far as a gate can see: the head, then bytes both ways until one side leaves."""
        writer.write(SWITCH)
        while data := await reader.read(4096):
            writer.write(data)
        self.gone += 1
        raise ConnectionResetError

    async def _answer(
        self, ask: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        what = ask.get("do", "now")
        if what == "silent":
            await reader.read(1)  # until the gate cancels
            self.gone += 1
            raise ConnectionResetError
        if what == "stream":
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            for number in range(int(ask.get("n", 3))):
                data = b"data: %d\n\n" % number
                writer.write(b"%x\r\n%b\r\n" % (len(data), data))
                await writer.drain()
                await asyncio.sleep(0.02)
                if writer.is_closing() or reader.at_eof():
                    self.gone += 1
                    raise ConnectionResetError
            writer.write(b"0\r\n\r\n")
        else:
            data = json.dumps({"model": ask.get("model"), "echo": ask.get("echo")}).encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(data)
            )
            writer.write(data)
        await writer.drain()


class Daemon:
    """The daemon's side of the link, as a script: keeps what every gate said last."""

    def __init__(self, world: "World") -> None:
        self.world, self.rev = world, 1
        self.said: dict[str, list[wire.Message]] = {}
        self.writers: dict[str, asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        path = self.world.spec.link
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        self._server = await asyncio.start_unix_server(self._serve, str(path))

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self.writers.values():
            writer.close()
        self.writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = wire.decode(await reader.readline())
        assert isinstance(hello, wire.Hello)
        self.writers[hello.gate] = writer
        said = self.said.setdefault(hello.gate, [])
        said.append(hello)
        writer.write(wire.encode(self.world.table))
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                said.append(wire.decode(line))
        if self.writers.get(hello.gate) is writer:
            del self.writers[hello.gate]

    def send(self, message: wire.Message) -> None:
        for writer in self.writers.values():
            writer.write(wire.encode(message))

    def last(self, gate: str, kind: type[Any]) -> Any:
        return next((m for m in reversed(self.said.get(gate, [])) if isinstance(m, kind)), None)


class World:
    """A gate in processes of its own, in a folder of its own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hwgate"))
        self.spec = Spec(
            str(self.folder / "run"),
            str(self.folder / "req"),
            {"front": ("127.0.0.1", 0), "chat": ("127.0.0.1", 0)},
        )
        self.spec.run.mkdir(mode=0o700)
        self.upstream = Upstream()
        self.daemon = Daemon(self)
        self.table = wire.Table(wire.PROTO, "test", {})
        self.parents: list[subprocess.Popen[bytes]] = []

    def set_table(self, gate: str, state: str, **more: Any) -> None:
        row = wire.Service(
            "chat", self.daemon.rev, gate, state, upstream=f"http://127.0.0.1:{self.upstream.port}",  # type: ignore[arg-type]
            model="real", names=("gpt",), **more,
        )  # fmt: skip
        self.table = wire.Table(wire.PROTO, "test", {"chat": row})
        self.spec.routes.write_bytes(wire.encode(self.table))

    def start(self, *before: str, **more: Any) -> subprocess.Popen[bytes]:
        """Start a parent; `before` runs it (a shell, say), `more` is for Popen."""
        path = self.folder / "spec.json"
        write_spec(path, self.spec)
        argv = [*before, sys.executable, "-m", "headway.gate.main", "parent", "--spec", str(path)]
        parent = subprocess.Popen(argv, start_new_session=True, **more)
        self.parents.append(parent)
        return parent

    @property
    def ports(self) -> dict[str, int]:
        ports: dict[str, int] = json.loads(self.spec.ports.read_bytes())
        return ports

    def gates(self) -> dict[str, int]:
        """Living gates that serve: id -> pid."""
        found = {}
        for lock in self.spec.gates.glob("*.lock"):
            if (pid := locks.holder(lock)) is not None:  # the file of one that just ended may go meanwhile
                found[lock.stem] = pid
        return found

    async def gate(self) -> str:
        """The id of the one gate, once it has answered the daemon's table."""
        await until(lambda: any(self.daemon.last(g, wire.Demand) is not None for g in self.gates()))
        return next(g for g in self.gates() if self.daemon.last(g, wire.Demand) is not None)

    def end(self) -> None:
        pids = list(self.gates().values())
        for parent in self.parents:
            parent.kill()
            parent.wait()
        for pid in [*pids, *self.gates().values()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder)


async def until(seen: Callable[[], Any], limit_s: float = LIMIT_S) -> None:
    end_s = time.monotonic() + limit_s
    while True:
        with contextlib.suppress(OSError, ValueError):
            if seen():
                return
        assert time.monotonic() < end_s, "it never happened"
        await asyncio.sleep(0.01)


async def ask(port: int, body: dict[str, Any], path: str = "/v1/chat/completions", extra: str = "") -> bytes:
    """One request on a connection of its own; the whole answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(body, path, extra + "Connection: close\r\n"))
    try:
        async with asyncio.timeout(LIMIT_S):
            return await reader.read()
    finally:
        writer.close()


def request(body: dict[str, Any], path: str = "/v1/chat/completions", extra: str = "") -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{extra}"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


@contextlib.asynccontextmanager
async def running(
    gate: str = "open",
    state: str = "awake",
    env: dict[str, str] | None = None,
    world: World | None = None,
    **more: Any,
) -> AsyncIterator[World]:
    world = world or World()
    try:
        await world.upstream.start()
        world.set_table(gate, state, **more)
        await world.daemon.start()
        world.start(env=env)
        await until(lambda: world.ports and world.gates())
        await world.gate()
        yield world
        assert world.upstream.wrongly_called == 0
    finally:
        world.end()
        await world.daemon.stop()


def case(
    play: Callable[[], Coroutine[Any, Any, None]],
) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(asyncio.wait_for(play(), 6 * LIMIT_S))

    run.__name__, run.__doc__ = play.__name__, play.__doc__
    return run
