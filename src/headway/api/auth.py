"""Who may do what: the kernel names the caller on the Unix socket; TCP reads on loopback and changes nothing.

Requests that a web page of somebody else could have sent are refused: a foreign Host (DNS rebinding), Origin,
Referer or Sec-Fetch-Site.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request

from headway.api.problems import problem
from headway.errors import HeadwayError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

READING = frozenset({"GET", "HEAD", "OPTIONS"})
PEER = "headway_peer"


class Forbidden(HeadwayError):
    code = "forbidden"
    http_status = 403


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end. `uid` None: TCP, nobody the kernel can name."""

    uid: int | None = None
    admin: bool = False
    name: str = "tcp"


async def peer_of(request: Request) -> Peer:
    found = request.scope.get(PEER)
    return found if isinstance(found, Peer) else Peer()


async def require_admin(request: Request) -> Peer:
    """Raises: Forbidden, for whoever did not come over the socket as the daemon's user or root."""
    peer = await peer_of(request)
    if not peer.admin:
        raise Forbidden("this is not shown over TCP, use the CLI or the socket.")
    return peer


class Door:
    """The first thing a request meets. Plain ASGI: it costs a stream nothing."""

    def __init__(self, app: Asgi, allowed_hosts: frozenset[str] = frozenset()) -> None:
        self.app, self.allowed_hosts = app, allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no websockets, no lifespan
        peer = scope.get("state", {}).get(PEER)
        peer = peer if isinstance(peer, Peer) else Peer()
        if refused := self.objection(scope, peer):
            await problem(403, *refused)(scope, receive, send)
            return
        scope[PEER] = peer
        await self.app(scope, receive, send)

    def objection(self, scope: Scope, peer: Peer) -> tuple[str, str] | None:
        """(code, words) of the refusal, None when the request may pass."""
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        reads = scope["method"] in READING
        if peer.uid is None:
            if not self._our_host(headers.get("host", "")):
                return "foreign_host", "this Host is not ours. Ask for 127.0.0.1 or localhost."
            if not loopback((scope.get("client") or ("", 0))[0]):
                return (
                    "not_loopback",
                    "only programs on this machine may read here: use the CLI or the socket.",
                )
        elif not peer.admin:
            return "other_user", "this daemon belongs to another user. Run the command as that user."
        if not reads and (word := self._foreign(headers)):
            return "foreign_origin", f"this change comes from a page that is not ours ({word}): use the CLI."
        if not reads and peer.uid is None:
            return (
                "read_only",
                "changes over TCP need a token, and there are none yet: use the CLI or the socket.",
            )
        return None

    def _our_host(self, host: str) -> bool:
        name = (urlsplit(f"//{host}").hostname or "") if host else ""
        return name == "localhost" or loopback(name) or name in self.allowed_hosts

    def _foreign(self, headers: dict[str, str]) -> str | None:
        """The header that shows a change to come from somebody else's page."""
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return "Sec-Fetch-Site"
        for name in ("origin", "referer"):
            given = headers.get(name)
            if given is not None and urlsplit(given).netloc != headers.get("host", ""):
                return name.capitalize()
        return None


def loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
