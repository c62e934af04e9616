"""Who asks, and what each may do: the scopes, the peer of one request, and what a route needs of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from fastapi import Request

from headway.errors import HeadwayError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

ScopeWord = Literal["read", "submit", "lease", "control", "exec", "admin"]
Need = Literal["open", "look", "read", "submit", "lease", "control", "exec", "admin"]

SCOPES: Final[tuple[ScopeWord, ...]] = ("read", "submit", "lease", "control", "exec", "admin")
BY_PIN: Final = frozenset(SCOPES) - {"admin"}
READING = frozenset({"GET", "HEAD", "OPTIONS"})
PEER = "headway_peer"
NEEDS, SECRET = "x-headway-scope", "x-headway-secret"


class Unknown(HeadwayError):
    """The caller must say who it is, or what it said is not known."""

    http_status = 401

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Forbidden(HeadwayError):
    """The caller is known, and may not do this."""

    http_status = 403

    def __init__(self, code: str, message: str, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.code = code


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end.

    Attributes:
        uid: as the kernel says, on the Unix socket; None: TCP.
        admin: it may do everything.
        name: for the audit.
        csrf: the word that each change of a page's session must bring; None: none is needed.
    """

    uid: int | None = None
    admin: bool = False
    name: str = "tcp"
    via: Literal["socket", "token", "pin", "none"] = "none"
    scopes: frozenset[str] = frozenset()
    csrf: str | None = None

    def may(self, need: Need) -> bool:
        return need == "open" or self.admin or "admin" in self.scopes or need in self.scopes

    def check(self, need: Need) -> None:
        """Raises: Unknown for nobody in particular, Forbidden for somebody who may do other things."""
        if self.may(need):
            return
        if self.via == "none":
            raise Unknown(
                "token_missing",
                f"this needs a token with the scope {need}, or the PIN. Use the CLI on this machine, or make one: "
                f"`headway token create NAME --scope {need}`.",
            )
        raise Forbidden(
            "scope_missing",
            f"{self.name} may {', '.join(sorted(self.scopes)) or 'do nothing'}, and this needs {need}. "
            f"Make another: `headway token create NAME --scope {need}`.",
            scope=need,
        )


def needs(need: Need, secret: bool = False) -> dict[str, Any]:
    """For a route's `openapi_extra`: what a caller must be allowed. Without it: a GET `look`, all else `control`.

    `open` asks nothing. `look` is reading what everybody on this machine may see (unless the config demands a token
    for it); `read` is reading what holds people's own words: logs, bodies, results. `secret`: its answer is shown once
    and kept nowhere, so an Idempotency-Key is refused.
    """
    return {NEEDS: need, SECRET: True} if secret else {NEEDS: need}


def need_of(method: str, extra: object) -> Need:
    """What a route needs, by its method and its `openapi_extra`."""
    said = extra.get(NEEDS) if isinstance(extra, dict) else None
    return cast(Need, said or ("look" if method in READING else "control"))


async def peer_of(request: Request) -> Peer:
    found = request.scope.get(PEER)
    return found if isinstance(found, Peer) else Peer()
