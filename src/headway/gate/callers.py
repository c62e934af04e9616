"""Who asks: Host and Origin checks, our tokens, and what a caller may ask of its class, priority and wait.

A caller may lower its class or priority, never raise them.
"""

import hashlib
import hmac
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from headway.core import wire
from headway.gate.heads import BadRequest, RequestHead

OURS: Final = "hw_"
PRIORITY: Final = 50
PRIORITY_WORDS: Final = {"background": 20, "normal": 50, "high": 80}
LOOPBACK: Final = frozenset(("localhost", "127.0.0.1", "::1"))


@dataclass(frozen=True, slots=True)
class Caller:
    """A checked caller. `ours`: it came with a token of ours, which must not pass on."""

    client: str
    class_: str
    priority: int
    wait_s: float | None
    ours: bool


def check_place(head: RequestHead, hosts: tuple[str, ...], origins: tuple[str, ...], peer: str) -> None:
    """Refuse a foreign Host (DNS rebinding) or Origin.

    On loopback a Host must be loopback's or listed. A page may ask only from a listed origin or from this host.
    Raises BadRequest.
    """
    fields = head.fields
    refused = _place(fields.get(b"host", b""), fields.get(b"origin", b""), hosts, origins, _is_loopback(peer))
    if refused is not None:
        raise BadRequest(refused, 403)


@lru_cache(maxsize=1024)
def _place(
    raw_host: bytes, raw_origin: bytes, hosts: tuple[str, ...], origins: tuple[str, ...], loopback: bool
) -> str | None:
    """The code of the refusal, if any."""
    host, origin = raw_host.decode("latin-1"), raw_origin.decode("latin-1")
    name = _host_name(host)
    if host and loopback and not (name in LOOPBACK or name.endswith(".localhost") or name in hosts):
        return "host_refused"
    if origin and origin not in origins and "*" not in origins:
        try:
            split = urlsplit(origin)
        except ValueError:
            return "origin_refused"
        if split.netloc != host and not (split.hostname in LOOPBACK and name in LOOPBACK):
            return "origin_refused"
    return None


def check_caller(head: RequestHead, tokens: Iterable[wire.Token], peer: str, *, token_needed: bool) -> Caller:
    """Check the token, and read what the caller asks for itself. Raises BadRequest."""
    given = _token(head)
    if given is None and not head.asks and not token_needed:
        return _anybody(peer)
    token = _find(given, tokens) if given is not None else None
    if given is not None and token is None:
        raise BadRequest("token_unknown", 401)
    if token is None and token_needed:
        raise BadRequest("token_missing", 401)
    class_ = token.class_ if token is not None and token.class_ in wire.CLASSES else wire.CLASSES[0]
    wanted = head.text(b"x-headway-class")
    if wanted:
        if wanted not in wire.CLASSES:
            raise BadRequest("header_invalid")
        class_ = max(class_, wanted, key=wire.CLASSES.index)
    ceiling = token.priority_max if token is not None else PRIORITY
    wish = _priority(head.text(b"x-headway-priority") or head.text(b"x-prio"))
    priority = min(ceiling, PRIORITY if wish is None else wish)
    client = token.name if token is not None else head.text(b"x-headway-client")[:64] or peer
    wait_s = _seconds(head.text(b"x-headway-wait") or head.text(b"x-wait"))
    return Caller(client, class_, priority, wait_s, ours=token is not None)


@lru_cache(maxsize=1024)
def _anybody(peer: str) -> Caller:
    """Who asks for nothing in particular."""
    return Caller(peer, wire.CLASSES[0], PRIORITY, None, ours=False)


def needs_token(listen: str) -> bool:
    """Whether a caller that came to this address of ours must show a token."""
    return not _is_loopback(listen)


def _is_loopback(address: str) -> bool:
    return address in ("", "::1", "::ffff:127.0.0.1") or address.startswith("127.")


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _token(head: RequestHead) -> str | None:
    if b"authorization" in head.fields:
        scheme, _, value = head.text(b"authorization").partition(" ")
        if scheme.lower() == "bearer" and value.strip().startswith(OURS):
            return value.strip()
    if b"x-api-key" in head.fields:
        key = head.text(b"x-api-key")
        return key if key.startswith(OURS) else None
    return None


def _find(given: str, tokens: Iterable[wire.Token]) -> wire.Token | None:
    digest = hashlib.sha256(given.encode("latin-1")).hexdigest()
    found = None
    for token in tokens:  # all of them: the time says nothing about where one matched
        if hmac.compare_digest(digest, token.sha256):
            found = token
    return found


def _priority(text: str) -> int | None:
    if not text:
        return None
    if text in PRIORITY_WORDS:
        return PRIORITY_WORDS[text]
    if not text.isascii() or not text.isdigit() or int(text[:4]) > 100:
        raise BadRequest("header_invalid")
    return int(text)


def _seconds(text: str) -> float | None:
    if not text:
        return None
    try:
        wait_s = float(text.removesuffix("s"))
    except ValueError:
        raise BadRequest("header_invalid") from None
    if not math.isfinite(wait_s) or wait_s < 0:
        raise BadRequest("header_invalid")
    return wait_s
