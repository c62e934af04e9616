"""Everything by which somebody on TCP is known: tokens, the PIN's sessions, and the file for this machine's user."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Literal

from headway.api.auth import BY_PIN, Peer, Unknown
from headway.api.limits import Rates, Tries
from headway.api.sessions import KIND as PIN
from headway.api.sessions import Sessions
from headway.api.tokens import KIND as TOKEN
from headway.api.tokens import Tokens, digest
from headway.ports import Clock, Keeper

COOKIE = "headway_session"  # and the port: see cookie_name


class Access:
    """Who may come in.

    Args:
        keeper: where tokens and the PIN are; read now.
        read: "open": whoever is on this machine may look; "token": nobody without a token, a PIN or the socket.
        admin_token: the secret in run/admin.token where there is no socket; None or empty: there is none.

    Raises:
        StoreFailed: they cannot be read.
    """

    def __init__(
        self,
        keeper: Keeper,
        clock: Clock,
        read: Literal["open", "token"] = "open",
        admin_token: str | None = None,
    ) -> None:
        self.keeper, self._clock = keeper, clock
        kept = keeper.kept()
        self.tokens = Tokens(keeper, clock, [one for one in kept if one.kind == TOKEN])
        self.sessions = Sessions(keeper, clock, [one for one in kept if one.kind == PIN])
        self._admin_digest = digest(admin_token) if admin_token else None
        self._nobody = Peer(scopes=frozenset({"look"}) if read == "open" else frozenset())
        self._tries = Tries("the token")
        self.rates = Rates()

    def peer(self, headers: Mapping[str, str]) -> Peer:
        """Who the headers of a request on TCP show it to be. Raises: Unknown, TooMany, TooFast."""
        peer = self._peer(headers)
        self.rates.take(peer.name, self._clock.now_s())
        return peer

    def _peer(self, headers: Mapping[str, str]) -> Peer:
        if (said := headers.get("authorization")) is not None:
            return self._by_token(said)
        session = next(filter(None, map(self.sessions.find, cookies(headers))), None)
        if session is not None:
            return Peer(name="page", via="pin", scopes=BY_PIN | {"look"}, csrf=session.csrf)
        return self._nobody

    def _by_token(self, said: str) -> Peer:
        scheme, _, secret = said.partition(" ")
        secret = secret.strip()
        if scheme.lower() == "bearer" and secret:
            if self._admin_digest and hmac.compare_digest(digest(secret), self._admin_digest):
                return Peer(admin=True, name="admin.token", via="token")
            if (row := self.tokens.find(secret)) is not None:
                looks = {"look"} if self._nobody.may("look") or "read" in row.scopes else set()
                return Peer(name=f"token {row.name}", via="token", scopes=frozenset(row.scopes) | looks)
        self._tries.begin(self._clock.now_s())  # a right token is never refused for the wrong ones of others
        raise Unknown("token_unknown", "this token is not known. See them: `headway token list`.")


def cookie_name(headers: Mapping[str, str]) -> str:
    """Browsers keep cookies per host and not per port, so two Headways on one machine would log each other out.

    It is the port as the browser knows it: a tunnel may lead from another one.
    """
    port = headers.get("host", "").rpartition(":")[2]
    return f"{COOKIE}_{port if port.isdecimal() and port.isascii() else 80}"


def cookies(headers: Mapping[str, str]) -> list[str]:
    """What a page brought as the secret of its session.

    Another server on this machine can set a cookie of the same name: which of them comes first is not ours to say.
    """
    wanted = cookie_name(headers)
    pairs = [part.strip().partition("=") for part in headers.get("cookie", "").split(";")]
    return [value for name, _, value in pairs if name == wanted]
