"""The roster by real locks, the fence by real signals, the socket the gates connect to, and the alert command."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest

from headway.core import wire
from headway.daemon.link_server import LinkServer
from headway.daemon.links import Links
from headway.host.gate_locks import GateLocks
from headway.host.locks import is_locked, take_lock
from tests.parts.fake_store import FakeClock
from tests.processes import Started, alive
from tests.waiting import wait_for, wait_until

pytestmark = pytest.mark.contract

LIMIT_S = 20.0
GATE = """
import fcntl, os, signal, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
os.write(fd, b"%d\\n" % (os.getpid() if len(sys.argv) < 3 else int(sys.argv[2])))
signal.pause()
"""


def gate(started: Started, path: Path, *pid: int) -> int:
    """A process that holds a gate's lock; its pid."""
    process = started.start([sys.executable, "-c", GATE, str(path), *map(str, pid)])
    wait_for(lambda: path.exists() and path.read_text(), LIMIT_S, "the lock")
    return int(process.pid)


def test_a_gate_is_who_holds_its_lock(tmp_path: Path, started: Started) -> None:
    locks = GateLocks(tmp_path)
    (tmp_path / "dead.lock").write_text("1\n")
    pid = gate(started, tmp_path / "g1.lock")
    assert locks.living() == {"g1"}
    assert locks.kill("g1", pid)
    wait_for(lambda: not locks.living(), LIMIT_S, "its end")
    assert not alive(pid) and not locks.kill("g1", pid) and not locks.kill("dead", None)


def test_without_a_pid_the_lock_file_names_it(tmp_path: Path, started: Started) -> None:
    pid = gate(started, tmp_path / "g1.lock")
    assert GateLocks(tmp_path).kill("g1", None)
    wait_for(lambda: not alive(pid), LIMIT_S, "its end")


def test_a_pid_that_does_not_have_the_lock_is_never_signalled(tmp_path: Path, started: Started) -> None:
    innocent = gate(started, tmp_path / "g2.lock")
    pid = gate(started, tmp_path / "g1.lock", innocent)
    locks = GateLocks(tmp_path)
    assert not locks.kill("g1", innocent) and not locks.kill("g1", None)
    assert alive(innocent) and alive(pid) and locks.living() == {"g1", "g2"}


def test_a_lock_is_held_until_its_descriptor_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    handle = take_lock(path)
    assert handle is not None and is_locked(path) and path.read_text() == f"{os.getpid()}\n"
    assert take_lock(path) is None
    os.close(handle)
    assert not is_locked(path) and not is_locked(tmp_path / "none")


# -------------------------------------------------------------------- the socket


class Server:
    """A LinkServer on a real socket."""

    def __init__(self, directory: Path, peer_uid: int = os.getuid()) -> None:
        self.path = directory / "link.sock"
        self.links = Links("d", frozenset, lambda document: None, lambda told: None)
        self.links.publish({"chat": wire.Service("chat", 1, "closed")}, "live", "s", 0.0)
        self.server = LinkServer(self.links, FakeClock(), lambda sock: peer_uid, os.getuid())

    async def start(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.bind(str(self.path))
        sock.listen()
        await self.server.start(sock)

    async def connect(self, hello: bool = True) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(str(self.path), limit=1 << 24)
        if hello:
            writer.write(wire.encode(wire.Hello(wire.PROTO, "g1", 1, "0", 0.0, "log")))
        return reader, writer


async def test_a_gate_says_hello_and_is_told_the_table(short_dir: Path) -> None:
    server = Server(short_dir)
    await server.start()
    reader, writer = await server.connect()
    assert wire.read_table(await asyncio.wait_for(reader.readline(), LIMIT_S)).services["chat"].rev == 1
    assert set(server.links.peers) == {"g1"}
    writer.close()
    await wait_until(lambda: not server.links.peers, LIMIT_S, "its end")
    await server.server.stop()


@pytest.mark.parametrize("first", [b"nonsense\n", wire.encode(wire.Ping(1))])
async def test_who_does_not_speak_the_protocol_is_cut(short_dir: Path, first: bytes) -> None:
    server = Server(short_dir)
    await server.start()
    reader, writer = await server.connect(hello=False)
    writer.write(first)
    assert await asyncio.wait_for(reader.read(), LIMIT_S) == b""
    writer.close()
    await server.server.stop()


async def test_another_user_is_not_a_gate(short_dir: Path) -> None:
    server = Server(short_dir, peer_uid=os.getuid() + 1)
    await server.start()
    reader, writer = await server.connect(hello=False)
    assert await asyncio.wait_for(reader.read(), LIMIT_S) == b""
    writer.close()
    await server.server.stop()


async def test_a_gate_that_reads_nothing_is_cut_and_not_kept_in_memory(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.daemon.link_server.UNREAD_MAX_BYTES", 1 << 16)
    server = Server(short_dir)
    await server.start()
    _, writer = await server.connect()
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await wait_until(lambda: server.links.peers, LIMIT_S, "hello")
    why = {"message": "x" * 10_000}
    for number in range(200):
        row = wire.Service("chat", 1, "closed", why={**why, "n": number})
        server.links.publish({"chat": row}, "live", "s", 0.0)
    await wait_until(lambda: not server.links.peers, LIMIT_S, "the cut")
    writer.close()
    await server.server.stop()
