"""Tokens of programs: `hw_` and 48 hex digits, kept as a hash, shown once. The gate knows them by the same hash."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

import structlog

from headway.core import codec, wire
from headway.errors import NotFound, Refused
from headway.ports import Clock, Keeper, Kept

KIND = "token"
PREFIX = "hw_"
SECRET_BYTES = 24
TOKENS_MAX = 1000
log = structlog.get_logger("headway")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """One token without its secret. Times are seconds since the epoch.

    `class_` and `priority_max` are what its requests may have at most at the gate.
    """

    id: str
    name: str
    scopes: tuple[str, ...]
    class_: Literal["attended", "background"]
    priority_max: int
    created_s: float
    expires_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    row: TokenRow
    sha256: str


def digest(secret: str) -> str:
    """Secrets of 192 random bits need no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _read(text: str) -> _Token:
    """Raises: one of codec.ODD."""
    doc = json.loads(text)
    sha256 = doc["sha256"]
    if not (isinstance(sha256, str) and sha256.isascii()):
        raise ValueError("its hash is no text")
    return _Token(row=codec.from_doc(TokenRow, doc), sha256=sha256)


class Tokens:
    """All of them, in memory; a change is written before it counts."""

    def __init__(self, keeper: Keeper, clock: Clock, saved: Iterable[Kept]) -> None:
        self._keeper, self._clock = keeper, clock
        self._tokens: dict[str, _Token] = {}
        for kept in saved:
            try:
                self._tokens[kept.key] = _read(kept.doc)
            except codec.ODD as error:
                log.error(
                    "a token cannot be read and lets nobody in", table="kept", key=kept.key, error=str(error)
                )

    def find(self, secret: str) -> TokenRow | None:
        """The token with that secret; None: there is none, or it has expired."""
        wanted, found = digest(secret), None
        for token in self._tokens.values():  # all of them: the time says nothing about where one matched
            if hmac.compare_digest(wanted, token.sha256) and self._valid(token):
                found = token.row
        return found

    def rows(self) -> list[TokenRow]:
        """By age, those that expired too."""
        return sorted((token.row for token in self._tokens.values()), key=lambda row: (row.created_s, row.id))

    def for_gates(self) -> tuple[wire.Token, ...]:
        """What the gates need to know of those that are valid now."""
        valid = (token for token in self._tokens.values() if self._valid(token))
        return tuple(
            wire.Token(t.sha256, t.row.name, t.row.class_, t.row.priority_max)
            for t in sorted(valid, key=lambda token: token.row.id)
        )

    async def create(
        self,
        name: str,
        scopes: Iterable[str],
        class_: Literal["attended", "background"] = "attended",
        priority_max: int = 100,
        expires_in_s: float | None = None,
    ) -> tuple[str, TokenRow]:
        """A new one: its secret, which nobody can see again, and its row.

        Raises:
            Refused: another has that name, or there are too many.
            StoreFailed: it could not be saved; it does not exist.
        """
        if any(token.row.name == name for token in self._tokens.values()):
            raise Refused(
                "name_taken",
                f"there is a token {name!r}. Revoke it first: `headway token revoke {name}`.",
                name=name,
            )
        if len(self._tokens) >= TOKENS_MAX:
            raise Refused("too_many", f"there are {TOKENS_MAX} tokens. Revoke some: `headway token list`.")
        secret, now_s = PREFIX + secrets.token_hex(SECRET_BYTES), self._clock.wall_s()
        row = TokenRow(
            id=secrets.token_hex(4),
            name=name,
            scopes=tuple(sorted(scopes)),
            class_=class_,
            priority_max=priority_max,
            created_s=now_s,
            expires_s=None if expires_in_s is None else now_s + expires_in_s,
        )
        token = _Token(row=row, sha256=digest(secret))
        doc = json.dumps({**asdict(row), "sha256": token.sha256})
        await self._keeper.keep([Kept(kind=KIND, key=row.id, doc=doc, wall_s=now_s)])
        self._tokens[row.id] = token
        return secret, row

    async def revoke(self, target: str) -> TokenRow:
        """By id or name. Raises: NotFound, StoreFailed."""
        for token in self._tokens.values():
            if target in (token.row.id, token.row.name):
                await self._keeper.keep(gone=[(KIND, token.row.id)])
                self._tokens.pop(token.row.id, None)
                return token.row
        raise NotFound(f"there is no token {target!r}. See them: `headway token list`.", target=target)

    def _valid(self, token: _Token) -> bool:
        return token.row.expires_s is None or self._clock.wall_s() < token.row.expires_s
