"""The real gate: parent and child processes, a small real upstream, and a scripted daemon on the link's socket."""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from headway.core import wire
from headway.gate import locks
from headway.gate.spec import Spec, write_spec

pytestmark = pytest.mark.e2e
LIMIT_S = 20.0


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
                    await self._answer(json.loads(body or b"{}"), reader, writer)
                finally:
                    self.active -= 1
        writer.close()

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

    def start(self) -> subprocess.Popen[bytes]:
        path = self.folder / "spec.json"
        write_spec(path, self.spec)
        argv = [sys.executable, "-m", "headway.gate.main", "parent", "--spec", str(path)]
        parent = subprocess.Popen(argv, start_new_session=True)
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
            text = lock.read_text().strip()
            if text and locks.is_held(lock):
                found[lock.stem] = int(text)
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
async def running(gate: str = "open", state: str = "awake", **more: Any) -> AsyncIterator[World]:
    world = World()
    try:
        await world.upstream.start()
        world.set_table(gate, state, **more)
        await world.daemon.start()
        world.start()
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


@case
async def test_forwards_by_model_name_and_by_port_and_logs() -> None:
    async with running() as world:
        got = await ask(world.ports["front"], {"model": "gpt", "echo": 1})
        assert b'{"model": "real", "echo": 1}' in got
        got = await ask(world.ports["chat"], {"echo": 2})
        assert b'"echo": 2' in got
        got = await ask(world.ports["front"], {"model": "gpt", "do": "stream"})
        assert got.endswith(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")
        assert b"X-Accel-Buffering: no" in got
        rows = lambda: [json.loads(r) for f in world.folder.glob("req/*") for r in f.read_text().splitlines()]  # noqa: E731
        await until(lambda: len(rows()) == 3)
        assert {row["service"] for row in rows()} == {"chat"}
        assert {row["status"] for row in rows()} == {200}


@case
async def test_holds_while_closed_then_sends_in_order() -> None:
    async with running("closed", "aside") as world:
        world.upstream.allowed = False
        gate = await world.gate()
        asks = [asyncio.create_task(ask(world.ports["front"], {"model": "gpt", "echo": n})) for n in range(5)]
        await until(
            lambda: world.daemon.last(gate, wire.Demand).waiting.get("attended", wire.Waiting(0, 0, 0)).n == 5
        )
        probe = await ask(world.ports["chat"], {}, "/health")
        assert probe.startswith(b"HTTP/1.1 503")
        world.daemon.send(wire.List("chat"))
        await until(lambda: world.daemon.last(gate, wire.Held) is not None)
        assert [entry.position for entry in world.daemon.last(gate, wire.Held).entries] == [1, 2, 3, 4, 5]
        assert world.upstream.calls == 0
        world.upstream.allowed = True
        world.daemon.send(wire.Open("chat", 2))
        for number, got in enumerate(await asyncio.gather(*asks)):
            assert b"200 OK" in got
            assert f'"echo": {number}'.encode() in got
        await until(lambda: world.daemon.last(gate, wire.Demand).waiting == {})
        await until(lambda: world.daemon.last(gate, wire.Demand).active == 0)


@case
async def test_closed_is_told_with_pinning_and_again_at_zero() -> None:
    async with running() as world:
        gate = await world.gate()
        streams = [
            asyncio.create_task(ask(world.ports["front"], {"model": "gpt", "do": "stream", "n": 20}))
            for _ in range(3)
        ]
        await until(lambda: world.upstream.active == 3)
        world.daemon.send(wire.Close("chat", 2))
        await until(lambda: world.daemon.last(gate, wire.Closed) == wire.Closed("chat", 2, 3, 0))
        held = asyncio.create_task(ask(world.ports["front"], {"model": "gpt", "echo": "held"}))
        await until(lambda: world.daemon.last(gate, wire.Closed) == wire.Closed("chat", 2, 0, 0))
        for got in await asyncio.gather(*streams):
            assert got.endswith(b"0\r\n\r\n")
        assert world.upstream.calls == 3
        world.daemon.send(wire.Open("chat", 3))
        assert b'"echo": "held"' in await held


@case
async def test_ping_is_answered_and_an_unknown_type_too() -> None:
    async with running() as world:
        gate = await world.gate()
        world.daemon.send(wire.Ping(17))
        await until(lambda: world.daemon.last(gate, wire.Pong) is not None)
        assert world.daemon.last(gate, wire.Pong).n == 17
        for writer in world.daemon.writers.values():
            writer.write(b'{"type":"zebra"}\n')
        await until(lambda: world.daemon.last(gate, wire.Unsupported) == wire.Unsupported("zebra"))


@case
async def test_a_daemon_that_is_away_changes_nothing_and_is_found_again() -> None:
    async with running() as world:
        gate = await world.gate()
        await world.daemon.stop()
        for number in range(5):
            assert b"200 OK" in await ask(world.ports["front"], {"model": "gpt", "echo": number})
        world.daemon.said.clear()
        world.set_table("closed", "aside")
        await world.daemon.start()
        await until(lambda: world.daemon.last(gate, wire.Closed) == wire.Closed("chat", 1, 0, 0))


@case
async def test_child_killed_the_queue_of_the_listener_is_served() -> None:
    async with running() as world:
        pid = next(iter(world.gates().values()))
        cut = asyncio.create_task(ask(world.ports["front"], {"model": "gpt", "do": "silent"}))
        await until(lambda: world.upstream.active == 1)
        os.kill(pid, signal.SIGSTOP)  # these connect, and wait in the listener's queue
        queued = [
            asyncio.create_task(ask(world.ports["front"], {"model": "gpt", "echo": n})) for n in range(40)
        ]
        await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
        started_s = time.monotonic()
        with contextlib.suppress(ConnectionError):
            assert await cut == b""
        answers = await asyncio.gather(*queued, return_exceptions=True)
        assert [b"200 OK" in got for got in answers if isinstance(got, bytes)] == [True] * 40
        assert time.monotonic() - started_s < 10.0
        assert set(world.gates().values()) - {pid}


@case
async def test_parent_killed_the_child_serves_on_and_a_new_parent_takes_the_listeners() -> None:
    async with running() as world:
        ports, pid = world.ports, next(iter(world.gates().values()))
        stream = asyncio.create_task(ask(ports["front"], {"model": "gpt", "do": "stream", "n": 60}))
        await until(lambda: world.upstream.active == 1)
        parent = world.parents[0]
        parent.kill()
        parent.wait()
        assert b"200 OK" in await ask(ports["front"], {"model": "gpt"})
        world.start()
        await until(lambda: locks.is_held(world.spec.parent_lock))
        assert b"200 OK" in await ask(ports["front"], {"model": "gpt"})
        assert (await stream).endswith(b"0\r\n\r\n")
        assert world.ports == ports
        assert list(world.gates().values()) == [pid]
        os.kill(pid, signal.SIGKILL)  # the new parent watches a child that isn't its own
        await until(lambda: world.gates() and list(world.gates().values()) != [pid])
        assert b"200 OK" in await ask(ports["front"], {"model": "gpt"})


@case
async def test_a_second_parent_is_refused() -> None:
    async with running() as world:
        second = world.start()
        await until(lambda: second.poll() is not None)
        assert second.returncode == 1
        assert len(world.gates()) == 1


@case
async def test_stopped_on_purpose_sent_requests_end_and_held_ones_are_told() -> None:
    async with running() as world:
        gate = await world.gate()
        stream = asyncio.create_task(ask(world.ports["front"], {"model": "gpt", "do": "stream", "n": 30}))
        await until(lambda: world.upstream.active == 1)
        world.daemon.send(wire.Close("chat", 2))
        held = asyncio.create_task(ask(world.ports["front"], {"model": "gpt"}))
        await until(lambda: world.daemon.last(gate, wire.Demand).waiting != {})
        world.parents[0].terminate()
        got = await held
        assert b"HTTP/1.1 503" in got
        assert b"gate_draining" in got
        assert (await stream).endswith(b"0\r\n\r\n")
        await until(lambda: world.parents[0].poll() is not None)
        assert world.parents[0].returncode == 0
        assert world.daemon.last(gate, wire.Bye) is not None
        assert world.gates() == {}


@case
async def test_a_dead_server_holds_its_requests_and_is_reported() -> None:
    async with running() as world:
        gate, port = await world.gate(), world.upstream.port
        await world.upstream.stop()
        asks = [asyncio.create_task(ask(world.ports["front"], {"model": "gpt", "echo": n})) for n in range(3)]
        await until(lambda: world.daemon.last(gate, wire.Trouble) == wire.Trouble("chat", "refused"))
        world.daemon.send(wire.Close("chat", 2))
        await until(lambda: world.daemon.last(gate, wire.Closed) == wire.Closed("chat", 2, 0, 0))
        await world.upstream.start(port)
        world.daemon.send(wire.Open("chat", 3))
        for got in await asyncio.gather(*asks):
            assert b"200 OK" in got


@case
async def test_a_thousand_clients_leave_at_random_phases() -> None:
    async with running() as world:
        gate, rng, port = await world.gate(), random.Random(5), world.ports["front"]
        flips = asyncio.create_task(_flip(world))
        gates = asyncio.Semaphore(100)

        async def leave(number: int) -> None:
            async with gates:
                do = rng.choice(("now", "stream", "silent"))
                data = request({"model": "gpt", "do": do, "n": 50})
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(data[: rng.choice((10, len(data) - 5, len(data)))])
                await asyncio.sleep(rng.random() * 0.2)
                if rng.random() < 0.5:
                    sock: socket.socket = writer.get_extra_info("socket")
                    with contextlib.suppress(OSError):
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                writer.close()
                del reader

        await asyncio.gather(*(leave(n) for n in range(1000)))
        flips.cancel()
        world.daemon.rev += 1
        world.daemon.send(wire.Close("chat", world.daemon.rev))
        await until(
            lambda: world.daemon.last(gate, wire.Closed) == wire.Closed("chat", world.daemon.rev, 0, 0)
        )
        await until(lambda: world.daemon.last(gate, wire.Demand).active == 0)
        await until(lambda: world.daemon.last(gate, wire.Demand).waiting == {})
        await until(lambda: world.upstream.active == 0)
        assert world.upstream.calls > 100
        assert len(world.upstream.ids) == len(set(world.upstream.ids))


async def _flip(world: World) -> None:
    while True:
        for message in (wire.Close, wire.Open):
            world.daemon.rev += 1
            world.daemon.send(message("chat", world.daemon.rev))
            await asyncio.sleep(0.1)


@case
async def test_each_upstream_call_is_cancelled_within_a_second() -> None:
    async with running() as world:
        writers = []
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", world.ports["front"])
            writer.write(request({"model": "gpt", "do": "silent"}))
            writers.append(writer)
        await until(lambda: world.upstream.active == 20)
        left_s = time.monotonic()
        for writer in writers:
            writer.close()
        await until(lambda: world.upstream.gone == 20, 10.0)
        assert time.monotonic() - left_s < 10.0
