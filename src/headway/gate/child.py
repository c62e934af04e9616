"""The gate process that serves: lock, then routes.json, then accept; the link to the daemon, made anew for ever."""

import asyncio
import contextlib
import functools
import gc
import os
import resource
import signal
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from headway.core import wire
from headway.errors import AlreadyRunning
from headway.gate import locks
from headway.gate.hub import Hub
from headway.gate.link import Identity
from headway.gate.log import RequestLog
from headway.gate.protocol import Client
from headway.gate.spec import Spec

AGAIN_FIRST_S, AGAIN_MAX_S = 0.1, 1.0
LINK_HIGH_BYTES = 4 * 1024 * 1024
GONE_POLL_S = 0.05
LEAVE_QUIET_S = 10.0  # a kept connection without a request for this long is closed by a gate that is replaced


class LinkConnection(asyncio.Protocol):
    """One connection to the daemon."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.over: asyncio.Future[None] = hub.loop.create_future()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self.transport = transport
        sock = transport.get_extra_info("socket")
        if sock is not None and not _is_ours(sock):
            transport.abort()
            return
        self.hub.link.connect(self.hub.now())
        self.hub.send = self._send
        self._send(self.hub.link.take_out())

    def data_received(self, data: bytes) -> None:
        try:
            effects = self.hub.link.feed(data, self.hub.now())
        except wire.WireError:
            if self.transport is not None:
                self.transport.abort()
            return
        self.hub.obey(effects)
        self._send(self.hub.link.take_out())

    def connection_lost(self, exc: Exception | None) -> None:
        self.hub.link.disconnect()
        self.hub.send = lambda data: None
        if not self.over.done():
            self.over.set_result(None)

    def _send(self, data: bytes) -> None:
        if not data or self.transport is None or self.transport.is_closing():
            return
        self.transport.write(data)
        if self.transport.get_write_buffer_size() > LINK_HIGH_BYTES:
            self.transport.abort()  # a daemon that doesn't read; whole values are sent on the next connection


def _is_ours(sock: socket.socket) -> bool:
    """Whether the peer runs as this user (or as root)."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid = struct.unpack("3i", raw)[1]
    return uid in (0, os.getuid())


class Child:
    """One serving gate process."""

    def __init__(self, spec: Spec, gate: str, fds: dict[str, int], ready_fd: int | None) -> None:
        self.spec, self.gate, self.fds, self._ready_fd = spec, gate, fds, ready_fd
        loop = asyncio.get_running_loop()
        self.loop = loop
        self.log = RequestLog(Path(spec.requests_dir), gate)
        identity = Identity(gate, os.getpid(), spec.version, loop.time(), str(self.log.path()))
        self.hub = Hub(loop, identity, self.log.put, boot=_boot_id())
        self.hub.dropped = lambda: self.log.dropped_total
        self.hub.on_drain = self._told_to_drain
        self._servers: list[asyncio.Server] = []
        self._leave = asyncio.Event()
        self._hurry = False

    async def run(self) -> None:
        """Serve until told to leave. Raises AlreadyRunning when the id's lock is held."""
        self._lock = locks.hold(self.spec.gates / f"{self.gate}.lock")
        if self._lock is None:
            raise AlreadyRunning(f"a gate {self.gate} already runs. Start one with another --id.")
        with contextlib.suppress(OSError, wire.WireError):  # without a readable one, all is closed
            table = wire.read_table(self.spec.routes.read_bytes())
            self.hub.obey(self.hub.link.preload(table, self.loop.time()))
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, self._told_to_stop)
        self.loop.add_signal_handler(signal.SIGHUP, self.leave)  # replaced by a newer gate: no hurry
        control = self._control()
        self.log.start()
        self.hub.start()
        link = self.loop.create_task(self._keep_link())
        await self._accept()
        if self._ready_fd is not None:
            with contextlib.suppress(OSError):  # its parent was killed meanwhile
                os.write(self._ready_fd, b"1")
            os.close(self._ready_fd)
        gc.collect()
        gc.freeze()
        await self._leave.wait()
        await self._drain()
        self.hub.link.bye()
        self.hub.send(self.hub.link.take_out())
        link.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await link
        self.loop.remove_reader(control.fileno())
        control.close()
        self.log.close()

    def leave(self) -> None:
        """Stop accepting, finish what is here, leave."""
        self._leave.set()

    def _told_to_stop(self) -> None:
        self._hurry = True
        self._leave.set()

    def _told_to_drain(self) -> None:
        """The daemon wants a new gate: the parent starts one, and then tells this one to leave."""
        parent = locks.holder(self.spec.parent_lock)
        if parent is None:
            self.leave()
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(parent, signal.SIGUSR2)

    async def _accept(self) -> None:
        for name, fd in self.fds.items():
            sock = socket.socket(fileno=os.dup(fd))
            sock.setblocking(False)
            make = functools.partial(Client, self.hub, None if name == "front" else name)
            server = await self.loop.create_server(make, sock=sock, backlog=4096)
            self._servers.append(server)

    async def _drain(self) -> None:
        """Finish what is here. For an upgrade all may end, and a connection that is kept gets one more answer.

        Told to stop, held requests are refused and the rest has `drain_s`.
        """
        hub = self.hub
        hub.draining = True
        began_s = self.loop.time()
        until_s = began_s + self.spec.drain_s
        await stop_accepting(self._servers)
        while hub.clients and not (self._hurry and self.loop.time() >= until_s):
            if self._hurry:
                for exchange in list(hub.waiting):
                    exchange.refuse("gate_draining", 503)
            for client in list(hub.clients):
                client.leave_if_quiet(0.0 if self._hurry else LEAVE_QUIET_S)
            for tunnel in list(hub.tunnels):
                tunnel.leave(self.loop.time(), began_s, self.spec.tunnel_quiet_s)
            await asyncio.sleep(GONE_POLL_S)

    async def _keep_link(self) -> None:
        again_s = AGAIN_FIRST_S
        while True:
            try:
                _, made = await self.loop.create_unix_connection(
                    lambda: LinkConnection(self.hub), str(self.spec.link)
                )
            except OSError:
                await asyncio.sleep(again_s)
                again_s = min(AGAIN_MAX_S, again_s * 2)
                continue
            lived_s = self.loop.time()
            await made.over
            if self.loop.time() - lived_s > AGAIN_MAX_S:
                again_s = AGAIN_FIRST_S
            await asyncio.sleep(again_s)
            again_s = min(AGAIN_MAX_S, again_s * 2)

    def _control(self) -> socket.socket:
        """The socket over which a new parent takes the listeners."""
        path = self.spec.gates / f"{self.gate}.sock"
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        control.bind(str(path))
        control.listen(8)
        control.setblocking(False)
        self.loop.add_reader(control.fileno(), self._hand_over, control)
        return control

    def _hand_over(self, control: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection, _ = control.accept()
            with connection:
                if _is_ours(connection):
                    mine = locks.Handed(
                        self.gate, os.getpid(), self.spec.version, self.fds, self._leave.is_set()
                    )
                    locks.hand_over(connection, mine)


async def stop_accepting(servers: Sequence[asyncio.Server]) -> None:
    """Accept no more; every connection that was accepted has become a client when this returns.

    asyncio's own loop makes a client some steps after it accepted, and drops it when the server is closed in between:
    so it stops listening first. Other loops have no reader there, and make the client at once.
    """
    for server in servers:
        for sock in server.sockets:
            server.get_loop().remove_reader(sock.fileno())
    await asyncio.sleep(GONE_POLL_S)
    for server in servers:
        server.close()
    await asyncio.sleep(GONE_POLL_S)


def _boot_id() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


async def _serve(spec: Spec, gate: str, fds: dict[str, int], ready_fd: int | None) -> None:
    await Child(spec, gate, fds, ready_fd).run()


def run_child(spec: Spec, gate: str, fds: dict[str, int], ready_fd: int | None) -> None:
    """Serve in this process, on uvloop where it exists. One byte is written to `ready_fd` once it accepts."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a shell's 1024 would be 500 requests
    try:
        import uvloop
    except ImportError:
        asyncio.run(_serve(spec, gate, fds, ready_fd))
    else:
        uvloop.run(_serve(spec, gate, fds, ready_fd))
