"""What a person's page is let in by: the PIN, a one-use ticket, and the session that either begins."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import structlog

from headway.api.auth import Unknown
from headway.api.limits import Tries
from headway.api.tokens import digest
from headway.core import codec
from headway.errors import Refused
from headway.ports import Clock, Keeper, Kept

T = TypeVar("T")
KIND = "pin"
SCRYPT = {"n": 2**14, "r": 8, "p": 1}  # 16 MiB and some 50 ms
SESSION_S, TICKET_S = 12 * 3600.0, 60.0
SESSIONS_MAX, TICKETS_MAX = 100, 100
log = structlog.get_logger("headway")


@dataclass(frozen=True, slots=True)
class Session:
    """One page that was let in. `csrf` is told to it once, and comes with each of its changes."""

    csrf: str
    until_s: float


class Sessions:
    """Sessions live in memory: a new daemon asks again."""

    def __init__(self, keeper: Keeper, clock: Clock, saved: Iterable[Kept]) -> None:
        self._keeper, self._clock = keeper, clock
        self._pin: str | None = next((kept.doc for kept in saved), None)
        self._tries = Tries("the PIN")
        self._sessions: dict[str, Session] = {}
        self._tickets: dict[str, float] = {}

    @property
    def pin_set(self) -> bool:
        return self._pin is not None

    async def set_pin(self, pin: str | None) -> None:
        """Set it, or (None) have none. Every session ends. Raises: StoreFailed, and the old one stays."""
        if pin is None:
            doc = None
            await self._keeper.keep(gone=[(KIND, KIND)])
        else:
            salt = os.urandom(16).hex()
            doc = json.dumps({"salt": salt, "hash": (await _hashed(pin, salt)).hex()})
            await self._keeper.keep([Kept(kind=KIND, key=KIND, doc=doc, wall_s=self._clock.wall_s())])
        self._pin = doc
        self._sessions.clear()

    async def by_pin(self, pin: str) -> tuple[str, Session]:
        """Begin a session: its secret for the cookie, and it. Raises: Refused, TooMany, Unknown."""
        if self._pin is None:
            raise Refused("no_pin", "there is no PIN yet. Set one: `headway pin set`, or use `headway open`.")
        try:
            salt, wanted = _read(self._pin)
        except codec.ODD as error:
            log.error("the PIN cannot be read and lets nobody in", table="kept", key=KIND, error=str(error))
            raise Refused(
                "pin_unreadable",
                "the PIN in the database is damaged. Set it anew: `headway pin set`, or use `headway open`.",
            ) from error
        self._tries.begin(self._clock.now_s())
        if not hmac.compare_digest(await _hashed(pin, salt), wanted):
            raise Unknown("pin_wrong", "this is not the PIN. Set a new one: `headway pin set`.")
        self._tries.right()
        return self._begin()

    def ticket(self) -> str:
        """A word that begins one session within a minute."""
        now_s, secret = self._clock.now_s(), secrets.token_hex(16)
        self._tickets = _newest(
            {one: until for one, until in self._tickets.items() if until > now_s}, TICKETS_MAX
        )
        self._tickets[digest(secret)] = now_s + TICKET_S
        return secret

    def by_ticket(self, secret: str) -> tuple[str, Session]:
        """Begin a session; the ticket is used up. Raises: Unknown."""
        until_s = self._tickets.pop(digest(secret), None)
        if until_s is None or self._clock.now_s() > until_s:
            raise Unknown(
                "ticket_over", "this link was used, or is older than a minute: `headway open` again."
            )
        return self._begin()

    def find(self, secret: str) -> Session | None:
        found = self._sessions.get(digest(secret))
        return found if found is not None and self._clock.now_s() < found.until_s else None

    def end(self, secret: str) -> None:
        self._sessions.pop(digest(secret), None)

    def _begin(self) -> tuple[str, Session]:
        now_s, secret = self._clock.now_s(), secrets.token_hex(24)
        living = {key: one for key, one in self._sessions.items() if one.until_s > now_s}
        self._sessions = _newest(living, SESSIONS_MAX)
        session = self._sessions[digest(secret)] = Session(secrets.token_hex(16), now_s + SESSION_S)
        return secret, session


def _newest(rows: dict[str, T], limit: int) -> dict[str, T]:
    """Room for one more."""
    return dict(list(rows.items())[-(limit - 1) :])


def _read(text: str) -> tuple[str, bytes]:
    """Salt and hash. Raises: one of codec.ODD."""
    doc = json.loads(text)
    bytes.fromhex(doc["salt"])
    return doc["salt"], bytes.fromhex(doc["hash"])


async def _hashed(pin: str, salt: str) -> bytes:
    """In a thread: it takes as long as ten turns of the loop."""
    return await asyncio.to_thread(
        hashlib.scrypt, pin.encode(), salt=bytes.fromhex(salt), n=SCRYPT["n"], r=SCRYPT["r"], p=SCRYPT["p"]
    )
