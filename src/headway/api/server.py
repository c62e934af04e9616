"""uvicorn inside the daemon's loop, on sockets that were bound before anything else was touched."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headway.api.app import create_app
from headway.api.auth import PEER, Peer
from headway.api.parts import Parts
from headway.api.taking import TRANSPORT

STOP_LIMIT_S = 2


class Known(HttpToolsProtocol):
    """A connection that its requests know."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.app_state = {**self.app_state, TRANSPORT: transport}


class ApiServer:
    """Serves one application on a TCP and a Unix socket.

    Args:
        parts: what the routes reach the daemon through.
        peer_uid: the user at the other end of a connected Unix socket, as the kernel says; None: unknown.
        user_name: words for a uid.
    """

    def __init__(
        self,
        parts: Parts,
        peer_uid: Callable[[Any], int | None],
        user_name: Callable[[int], str] = lambda uid: f"uid {uid}",
    ) -> None:
        self.parts, self._peer_uid, self._user_name = parts, peer_uid, user_name
        self._servers: list[tuple[uvicorn.Server, socket.socket]] = []

    async def start(self, tcp_socket: socket.socket | None, unix_socket: socket.socket | None) -> None:
        """Begin to accept on bound sockets. Each may be None; both are closed by `stop`."""
        app = create_app(self.parts)
        for sock in (tcp_socket, unix_socket):
            if sock is None:
                continue
            local = sock is unix_socket
            server = uvicorn.Server(self._config(app, local))
            server.config.load()
            server.lifespan = server.config.lifespan_class(server.config)
            # Neither serve() nor its main loop: they take the signals and need a task, and only refresh a Date header.
            await server.startup(sockets=[sock])
            self._servers.append((server, sock))

    async def stop(self) -> None:
        """End event streams, let other answers finish for up to 2 s, close the sockets."""
        self.parts.closing[0] = True
        servers, self._servers = self._servers, []
        await asyncio.gather(*(server.shutdown(sockets=[sock]) for server, sock in servers))

    def _config(self, app: Any, local: bool) -> uvicorn.Config:
        return uvicorn.Config(
            app,
            http=self._protocol() if local else Known,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            date_header=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=STOP_LIMIT_S,
        )

    def _protocol(self) -> type[HttpToolsProtocol]:
        """The protocol class of the Unix socket: it asks the kernel who connected, once per connection."""
        peer_of = self._peer

        class Local(Known):
            def connection_made(self, transport: Any) -> None:
                super().connection_made(transport)
                self.app_state = {**self.app_state, PEER: peer_of(transport.get_extra_info("socket"))}

        return Local

    def _peer(self, sock: Any) -> Peer:
        uid = self._peer_uid(sock)
        if uid is None:
            return Peer(uid=-1)  # a local caller whom the kernel does not name: nobody
        return Peer(uid=uid, admin=uid in (0, os.getuid()), name=self._user_name(uid), via="socket")
