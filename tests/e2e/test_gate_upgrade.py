"""A gate is replaced under load: a new child accepts, the old one finishes what it has; and sockets that systemd opened."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from headway.core import wire
from headway.gate import locks
from headway.gate.spec import write_spec
from tests.parts.gate_world import LIMIT_S, SWITCH, World, ask, case, request, running, until

pytestmark = pytest.mark.e2e


class Load:
    """Clients that never stop asking. `answered` counts whole answers; `lost` says what went wrong."""

    def __init__(self, port: int) -> None:
        self.port, self.answered = port, 0
        self.lost: list[str] = []
        self._stop = False
        self._tasks: list[asyncio.Task[None]] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Load"]:
        kinds = [self._keeps(pause_s) for pause_s in (0.001, 0.001, 0.001, 0.2, 0.3, 0.4)]
        kinds += [kind() for kind in (self._streams, self._once) for _ in range(4)]
        self._tasks = [asyncio.create_task(kind) for kind in kinds]
        try:
            yield self
        finally:
            self._stop = True
            await asyncio.gather(*self._tasks)

    async def _once(self) -> None:
        while not self._stop:
            await self._count(await ask(self.port, {"model": "gpt", "echo": 1}), b'"echo": 1}')

    async def _streams(self) -> None:
        while not self._stop:
            await self._count(await ask(self.port, {"model": "gpt", "do": "stream", "n": 25}), b"0\r\n\r\n")

    async def _keeps(self, pause_s: float) -> None:
        """Many requests on one connection, with pauses, until the gate says that it closes."""
        while not self._stop:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            goes_on = True
            while goes_on and not self._stop:
                writer.write(request({"model": "gpt", "echo": 2}))
                try:
                    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT_S)
                    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                    body = await asyncio.wait_for(reader.readexactly(length), LIMIT_S)
                except (OSError, ValueError, asyncio.IncompleteReadError) as error:
                    self.lost.append(repr(error))
                    break
                await self._count(head + body, b'"echo": 2}')
                goes_on = b"\r\nconnection: close\r\n" not in head.lower()
                await asyncio.sleep(pause_s)
            writer.close()

    async def _count(self, got: bytes, end: bytes) -> None:
        if got.startswith(b"HTTP/1.1 200 OK\r\n") and got.endswith(end):
            self.answered += 1
        else:
            self.lost.append(repr(got[-200:]))
        await asyncio.sleep(0)


def versions(world: World) -> dict[str, str]:
    """Living gates that said hello: id -> version."""
    hellos = {gate: world.daemon.last(gate, wire.Hello) for gate in world.gates()}
    return {gate: hello.version for gate, hello in hellos.items() if hello is not None}


@case
async def test_no_request_is_lost_over_three_upgrades_under_load() -> None:
    async with running() as world:
        parent = world.parents[0]
        async with Load(world.ports["front"]).running() as load:
            await until(lambda: load.answered > 50)
            for version in ("1", "2", "3"):
                before, answered = set(world.gates()), load.answered
                world.spec = replace(world.spec, version=version)
                write_spec(world.folder / "spec.json", world.spec)
                parent.send_signal(signal.SIGUSR2)
                await until(lambda version=version: version in versions(world).values())  # type: ignore[misc]
                await until(lambda answered=answered: load.answered > answered + 100)  # type: ignore[misc]
                await until(lambda before=before: not before & set(world.gates()), 3 * LIMIT_S)  # type: ignore[misc]
            assert len(world.gates()) == 1
        assert load.lost == []
        assert parent.poll() is None
        assert world.upstream.wrongly_called == 0


@case
async def test_a_held_request_stays_with_the_gate_that_is_replaced_and_is_sent() -> None:
    async with running("closed", "aside") as world:
        old = await world.gate()
        held = asyncio.create_task(ask(world.ports["front"], {"model": "gpt", "echo": "held"}))
        await until(lambda: world.daemon.last(old, wire.Demand).waiting != {})
        world.parents[0].send_signal(signal.SIGUSR2)
        await until(lambda: len(world.daemon.writers) == 2)
        world.daemon.send(wire.Open("chat", 2))
        assert b'"echo": "held"' in await held
        await until(lambda: old not in world.gates())
        assert world.daemon.last(old, wire.Bye) is not None


@case
async def test_a_drain_from_the_daemon_is_an_upgrade_and_nobody_is_refused() -> None:
    async with running() as world:
        old = await world.gate()
        async with Load(world.ports["front"]).running() as load:
            await until(lambda: load.answered > 20)
            world.daemon.send(wire.Drain())
            await until(lambda: set(world.gates()) - {old})
            await until(lambda: old not in world.gates(), 3 * LIMIT_S)
        assert load.lost == []
        assert len(world.gates()) == 1


@case
async def test_a_new_gate_that_cannot_start_leaves_the_old_one_serving() -> None:
    async with running() as world:
        old = await world.gate()
        world.parents[0].kill()
        world.parents[0].wait()
        world.spec = replace(world.spec, version="broken", requests_dir=str(world.folder / "req"))
        broken = {"PYTHONPATH": str(_broken(world.folder)), "PATH": os.environ["PATH"]}
        world.start(env=broken)
        await until(lambda: len((world.folder / "broken" / "tries").read_text()) >= 2)
        assert old in world.gates()
        assert b"200 OK" in await ask(world.ports["front"], {"model": "gpt"})


def _broken(folder: Path) -> Path:
    """A place from which every child ends at once, and says so."""
    place = folder / "broken"
    place.mkdir()
    code = f"import sys\nif 'child' in sys.argv[1:]:\n    open({str(place / 'tries')!r}, 'a').write('x')\n    sys.exit(3)\n"
    (place / "sitecustomize.py").write_text(code)
    (place / "tries").write_text("")
    return place


@case
async def test_sockets_that_systemd_opened_are_used_and_it_is_told() -> None:
    world = World()
    front, chat = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
    notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notified.bind(str(world.folder / "notify"))
    notified.setblocking(False)
    heard: list[bytes] = []

    def told(word: bytes) -> bool:
        with contextlib.suppress(BlockingIOError):
            while True:
                heard.append(notified.recv(4096))
        return word in heard

    try:
        await world.upstream.start()
        world.set_table("open", "awake")
        await world.daemon.start()
        # as systemd does it: from descriptor 3 on, and the variables name the process itself
        low = [os.dup2(front.fileno(), 103), os.dup2(chat.fileno(), 104)]
        script = 'LISTEN_PID=$$ exec "$0" "$@" 3<&103 4<&104 103<&- 104<&-'
        env = {**os.environ, "LISTEN_FDS": "2", "LISTEN_FDNAMES": "front:chat"}
        env |= {"NOTIFY_SOCKET": str(world.folder / "notify"), "WATCHDOG_USEC": "1000000"}
        parent = world.start("bash", "-c", script, env=env, pass_fds=low)
        for fd in low:
            os.close(fd)
        await until(lambda: told(b"READY=1") and told(b"WATCHDOG=1"))
        ports = {"front": front.getsockname()[1], "chat": chat.getsockname()[1]}
        assert world.ports == ports
        front.close()
        chat.close()
        assert b"200 OK" in await ask(ports["front"], {"model": "gpt"})
        assert b"200 OK" in await ask(ports["chat"], {})
        (gate,) = world.gates()
        environment = Path(f"/proc/{world.gates()[gate]}/environ").read_bytes()
        assert b"LISTEN_FDS" not in environment and b"NOTIFY_SOCKET" not in environment
        parent.send_signal(signal.SIGUSR2)  # it keeps them over its own exec
        await until(lambda: set(world.gates()) - {gate})
        await until(lambda: gate not in world.gates())
        assert b"200 OK" in await ask(ports["chat"], {})
        parent.terminate()
        await until(lambda: parent.poll() is not None)
        assert parent.returncode == 0 and told(b"STOPPING=1")
    finally:
        world.end()
        notified.close()
        await world.daemon.stop()


@case
async def test_a_parent_never_adopts_a_gate_that_is_leaving() -> None:
    async with running() as world:
        old = await world.gate()
        stream = asyncio.create_task(ask(world.ports["front"], {"model": "gpt", "do": "stream", "n": 150}))
        await until(lambda: world.upstream.active == 1)
        world.parents[0].kill()
        world.parents[0].wait()
        os.kill(world.gates()[old], signal.SIGHUP)
        await until(lambda: (row := locks.take_over(world.spec.gates, old)) is not None and row.leaving)
        world.start()
        await until(lambda: set(world.gates()) - {old})
        assert b"200 OK" in await ask(world.ports["front"], {"model": "gpt"})
        assert not stream.done(), "the new one did not wait for the old one's end"
        assert (await stream).endswith(b"0\r\n\r\n")
        assert json.loads(world.spec.ports.read_bytes()) == world.ports


@case
async def test_without_uvloop_it_is_the_same_gate() -> None:
    with tempfile.TemporaryDirectory() as folder:
        code = "import sys\nsys.modules['uvloop'] = None\n"
        (Path(folder) / "sitecustomize.py").write_text(code)
        paths = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
        async with running(env={**os.environ, "PYTHONPATH": paths}) as world:
            (pid,) = world.gates().values()
            assert "uvloop" not in Path(f"/proc/{pid}/maps").read_text()
            async with Load(world.ports["front"]).running() as load:
                await until(lambda: load.answered > 200)
                world.parents[0].send_signal(signal.SIGUSR2)
                await until(lambda: pid not in world.gates().values(), 3 * LIMIT_S)
            assert load.lost == []


@case
async def test_a_gate_too_busy_to_hand_over_is_replaced_once_it_can() -> None:
    async with running() as world:
        old = await world.gate()
        pid = world.gates()[old]
        os.kill(pid, signal.SIGSTOP)
        world.parents[0].send_signal(signal.SIGUSR2)
        await until(lambda: set(world.gates()) - {old})
        assert b"200 OK" in await ask(world.ports["front"], {"model": "gpt"})
        os.kill(pid, signal.SIGCONT)
        await until(lambda: old not in world.gates())


@case
async def test_a_websocket_without_a_byte_does_not_keep_a_replaced_gate_alive() -> None:
    world = World()
    world.spec = replace(world.spec, tunnel_quiet_s=1.0)
    async with running(world=world):
        old = await world.gate()
        sockets = [await websocket(world.ports["chat"]) for _ in range(2)]
        (quiet, _), (busy, writer) = sockets
        world.parents[0].send_signal(signal.SIGUSR2)
        await until(lambda: set(world.gates()) - {old})
        closed = asyncio.create_task(quiet.read(1))
        while not closed.done():  # the other one is used all the time
            writer.write(b"x")
            assert await asyncio.wait_for(busy.readexactly(1), LIMIT_S) == b"x"
            await asyncio.sleep(0.05)
        assert await closed == b"" and old in world.gates()
        assert await asyncio.wait_for(busy.read(1), LIMIT_S) == b"", "then this one rests, too"
        await until(lambda: old not in world.gates())
        for _, one in sockets:
            one.close()


async def websocket(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A tunnel through the gate, open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT_S)
    assert head.startswith(SWITCH[:12])
    return reader, writer
