"""The real gate: parent and child processes, a small real upstream, and a scripted daemon on the link's socket."""

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import time
from dataclasses import replace

import pytest

from headway.core import wire
from headway.gate import locks
from tests.parts.gate_world import World, ask, case, request, running, until

pytestmark = pytest.mark.e2e


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


@case
async def test_a_client_that_leaves_while_its_upload_is_paused_is_noticed() -> None:
    async with running("closed", "aside") as world:
        gate = await world.gate()
        _, writer = await asyncio.open_connection("127.0.0.1", world.ports["chat"])
        head = "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Type: audio/wav\r\n"
        writer.write(
            f"{head}Content-Length: 50000000\r\n\r\n".encode() + b"x" * 330_000
        )  # some of it stays unread
        await until(lambda: world.daemon.last(gate, wire.Demand).waiting != {})
        await writer.drain()
        writer.close()
        await until(lambda: world.daemon.last(gate, wire.Demand).waiting == {}, 10.0)
        assert world.upstream.calls == 0


@case
async def test_a_new_parent_with_other_ports_replaces_the_gate_without_cutting_a_stream() -> None:
    async with running() as world:
        ports, old = world.ports, await world.gate()
        stream = asyncio.create_task(ask(ports["front"], {"model": "gpt", "do": "stream", "n": 80}))
        await until(lambda: world.upstream.active == 1)
        world.parents[0].kill()
        world.parents[0].wait()
        world.spec = replace(world.spec, listen={**world.spec.listen, "more": ("127.0.0.1", 0)})
        world.start()
        await until(lambda: "more" in world.ports and set(world.gates()) - {old})
        assert {name: world.ports[name] for name in ports} == ports
        await until(lambda: any(world.daemon.last(gate, wire.Demand) for gate in set(world.gates()) - {old}))
        assert b"200 OK" in await ask(ports["front"], {"model": "gpt"})
        assert (await stream).endswith(b"0\r\n\r\n")
        await until(lambda: old not in world.gates())
        assert world.daemon.last(old, wire.Bye) is not None
