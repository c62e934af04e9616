"""The first thing a request meets: who asks, from where, and whether the route is open to it.

Requests that a web page of somebody else could have sent are refused: a foreign Host (DNS rebinding), Origin,
Referer or Sec-Fetch-Site. Plain ASGI: it costs a stream nothing, and a body is read only for those who may send it.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match

from headway.api.access import Access
from headway.api.auth import PEER, READING, SECRET, Asgi, Forbidden, Need, Peer, Receive, Scope, Send, need_of
from headway.api.limits import UNDER_WAY_MAX, Busy
from headway.api.once import KeyInvalid
from headway.api.problems import answer_to
from headway.errors import HeadwayError

HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{0,5})?")
BODY_MAX_BYTES, OPEN_BODY_MAX_BYTES = 32 * 1024 * 1024, 64 * 1024


class TooLarge(HeadwayError):
    code = "too_large"
    http_status = 413


class QueryInvalid(HeadwayError):
    code = "invalid"
    http_status = 422

    def __init__(self, strange: list[str], known: list[str]) -> None:
        fields = [{"field": f"query.{name}", "problem": "is not known"} for name in strange]
        words = f"it knows {', '.join(known)}" if known else "it knows none"
        super().__init__(f"there is no parameter {', '.join(map(repr, strange))}: {words}.", fields=fields)


class NoSuchMethod(HeadwayError):
    code = "no_such_method"
    http_status = 405

    def __init__(self, method: str, allowed: list[str]) -> None:
        super().__init__(
            f"{method} is not for this path: use {' or '.join(allowed)}, see /openapi.json.", allowed=allowed
        )


class Door:
    """Wraps the application.

    Args:
        routes: every route of the application; what none of them knows is answered 404 by the application itself.
        queries: the query parameters that each method and path knows.
        allowed_hosts: names besides loopback's by which a page may call us.
    """

    def __init__(
        self,
        app: Asgi,
        routes: Sequence[APIRoute],
        access: Access,
        queries: Mapping[tuple[str, str], frozenset[str]],
        allowed_hosts: frozenset[str] = frozenset(),
    ) -> None:
        self.app, self.access, self.allowed_hosts = app, access, allowed_hosts
        self._routes = [(route, *said) for route in routes for said in needs_of(route)]
        self._queries = queries
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no websockets, no lifespan
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        try:
            peer, need = self._admitted(scope, headers)
            scope[PEER] = peer
            if peer.uid is None and self._under_way >= UNDER_WAY_MAX:
                raise Busy(
                    f"{UNDER_WAY_MAX} requests are under way already. Try again in a moment, or use the CLI."
                )
            # whoever has not said who it is can only give a PIN
            bounded = _bounded(receive, headers, OPEN_BODY_MAX_BYTES if need == "open" else BODY_MAX_BYTES)
        except HeadwayError as error:
            await answer_to(error)(scope, receive, send)
            return
        self._under_way += 1
        try:
            await self.app(scope, bounded, send)
        finally:
            self._under_way -= 1

    def _admitted(self, scope: Scope, headers: Mapping[str, str]) -> tuple[Peer, Need]:
        """Who it is, and what it needs. Raises: Unknown, Forbidden, TooMany, TooFast."""
        peer = scope.get("state", {}).get(PEER)
        local = isinstance(peer, Peer) and peer.uid is not None
        self._check_place(scope, headers, peer if local else None)
        if not local:
            peer = self.access.peer(headers)
        assert isinstance(peer, Peer)
        need, secret = self._need(scope)
        peer.check(need)
        if secret and "idempotency-key" in headers:
            raise KeyInvalid("this answer holds a secret that is kept nowhere: leave Idempotency-Key out.")
        if need != "open" and scope["method"] not in READING and peer.csrf is not None:
            given = headers.get("x-csrf-token", "")
            if not hmac.compare_digest(given.encode(), peer.csrf.encode()):
                raise Forbidden(
                    "csrf", "a change from a page needs the header X-CSRF-Token that its session began with."
                )
        return peer, need

    def _need(self, scope: Scope) -> tuple[Need, bool]:
        """What it needs, and whether its answer is secret. What no route answers is open: it will be 404.

        Raises:
            NoSuchMethod: the path has others.
            QueryInvalid: it has parameters that the route does not know.
        """
        found = [one for one in self._routes if one[0].matches(scope)[0] != Match.NONE]
        for route, method, need, secret in found:
            if method == scope["method"]:
                self._check_query(self._queries[method, route.path_format], scope)
                return need, secret
        if found:
            raise NoSuchMethod(scope["method"], sorted({method for _, method, _, _ in found}))
        return "open", False

    def _check_query(self, known: frozenset[str], scope: Scope) -> None:
        """A parameter that nobody reads is a slip of the finger. Raises: QueryInvalid."""
        given = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        if strange := sorted({name for name, _ in given} - known):
            raise QueryInvalid(strange, sorted(known))

    def _check_place(self, scope: Scope, headers: Mapping[str, str], local: Peer | None) -> None:
        """Raises: Forbidden, for what another machine, another user or another page sent."""
        if local is None:
            if not self._our_host(headers.get("host", "")):
                raise Forbidden("foreign_host", "this Host is not ours. Ask for 127.0.0.1 or localhost.")
            if not loopback((scope.get("client") or ("", 0))[0]):
                raise Forbidden(
                    "not_loopback", "only programs on this machine may ask here: use the CLI or the socket."
                )
        elif not local.admin:
            raise Forbidden(
                "other_user", "this daemon belongs to another user. Run the command as that user."
            )
        if scope["method"] not in READING and (word := _foreign(headers)):
            raise Forbidden(
                "foreign_origin", f"this change comes from a page that is not ours ({word}): use the CLI."
            )

    def _our_host(self, host: str) -> bool:
        name = _host_name(host)
        return name == "localhost" or loopback(name) or name in self.allowed_hosts


def needs_of(route: APIRoute) -> list[tuple[str, Need, bool]]:
    """Each method of a route, what it needs, and whether its answer is secret."""
    extra = route.openapi_extra or {}
    return [
        (method, need_of(method, extra), bool(extra.get(SECRET))) for method in sorted(route.methods or ())
    ]


def _foreign(headers: Mapping[str, str]) -> str | None:
    """The header that shows a change to come from somebody else's page."""
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return "Sec-Fetch-Site"
    for name in ("origin", "referer"):
        given = headers.get(name)
        if given is not None and _place(given) != ("http", headers.get("host", "")):
            return name.capitalize()
    return None


def _place(url: str) -> tuple[str, str] | None:
    """Scheme, and host with port: another scheme is another page."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.netloc
    except ValueError:  # "http://[": no place of ours
        return None


def _host_name(host: str) -> str:
    """Without its port; empty: it is not a host and a port, and nothing else."""
    return found["name"].strip("[]").lower() if (found := HOST.fullmatch(host)) else ""


def _bounded(receive: Receive, headers: Mapping[str, str], limit_bytes: int) -> Receive:
    """`receive` that ends a body which grows too large. Raises: TooLarge."""
    words = f"a body may have up to {limit_bytes} bytes here"
    said = headers.get("content-length", "")
    if said.isdigit() and int(said[:20]) > limit_bytes:
        raise TooLarge(f"{words}. Send less.", limit_bytes=limit_bytes)
    if "transfer-encoding" not in headers:
        return receive
    left_bytes = limit_bytes

    async def bounded() -> MutableMapping[str, Any]:
        nonlocal left_bytes
        message = await receive()
        left_bytes -= len(message.get("body", b""))
        if left_bytes < 0:
            raise HTTPException(413, words)  # the one kind that passes through the reading of a body
        return message

    return bounded


def loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
