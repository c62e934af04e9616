"""`Idempotency-Key`: a POST that is sent again does nothing a second time, and gets the first one's answer."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import MutableMapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import structlog

from headway.api.auth import PEER, Asgi, Peer, Receive, Scope, Send
from headway.api.problems import answer_to
from headway.core import codec
from headway.errors import HeadwayError, Refused, StoreFailed
from headway.ports import Clock, Keeper, Kept

KIND = "answer"
KEPT_S = 24 * 3600.0
KEPT_MAX = 10_000
KEY_MAX = 255
HEADER = b"idempotency-key"
PRINTED = re.compile(rb"[!-~]+")
log = structlog.get_logger("headway")


class KeyInvalid(HeadwayError):
    code = "invalid"
    http_status = 422


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What was asked under a key, and what was answered. `status` 0: it was begun, and no more is known."""

    meaning: str
    wall_s: float
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""


class Once:
    """Remembers answers for a day, across restarts.

    A key is written before the request is carried out and its answer after it, so that a daemon which was killed in
    between never does it twice: it says that it does not know. Only what succeeded is kept; a refusal changed
    nothing, and its key is free again.
    """

    def __init__(self, app: Asgi, keeper: Keeper, clock: Clock) -> None:
        self._app, self._keeper, self._clock = app, keeper, clock
        self._running: set[str] = set()
        self._answers: dict[str, _Answer] = {}
        self._unreadable: list[str] = []  # keys of rows that go with the next that is written
        found = {kept.key: self._read(kept) for kept in keeper.kept() if kept.kind == KIND}
        known = [(key, one) for key, one in found.items() if one is not None]
        self._answers |= sorted(known, key=lambda pair: pair[1].wall_s)

    def _read(self, kept: Kept) -> _Answer | None:
        """None: its row is damaged. What was asked with that key is forgotten, a day early at most."""
        try:
            return codec.loads(_Answer, kept.doc)
        except codec.ODD as error:
            log.error(
                "a kept answer cannot be read and is dropped", table="kept", key=kept.key, error=str(error)
            )
            self._unreadable.append(kept.key)
            return None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = [value for name, value in scope["headers"] if name == HEADER]
        if scope["type"] != "http" or scope["method"] != "POST" or not given:
            await self._app(scope, receive, send)
            return
        try:
            key, body = _key(scope, given), await _read(receive)
            answer, crash = await self._answered(key, scope, body)
        except HeadwayError as error:
            await answer_to(error)(scope, receive, send)
            return
        await _send(answer, send)
        if crash is not None:
            raise crash  # the server writes it to the log

    async def _answered(self, key: str, scope: Scope, body: bytes) -> tuple[_Answer, Exception | None]:
        """The first answer under this key, now or then, and what went wrong behind a 500.

        Raises:
            Refused: the key is another request's, or what became of it is not known.
            StoreFailed: nothing was begun.
        """
        meaning, now_s = _meaning(scope, body), self._clock.wall_s()
        known = self._answers.get(key)
        if known is not None and now_s - known.wall_s <= KEPT_S:
            if known.meaning != meaning:
                raise Refused(
                    "key_used",
                    "this Idempotency-Key was used for another request. Use a new one for each thing to be done.",
                )
            if known.status:
                return replace(known, headers=(*known.headers, ("idempotency-replayed", "true"))), None
            raise _unfinished(key in self._running)
        self._running.add(key)
        self._answers[key] = begun = _Answer(meaning=meaning, wall_s=now_s)
        try:
            await self._keep(key, begun)
            answer, crash = await self._carried_out(begun, scope, body)
            await self._settle(key, answer)
            return answer, crash
        except BaseException:
            if self._answers.get(key) is begun:
                del self._answers[key]
            raise
        finally:
            self._running.discard(key)

    async def _carried_out(
        self, begun: _Answer, scope: Scope, body: bytes
    ) -> tuple[_Answer, Exception | None]:
        crash: Exception | None = None
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        try:
            await self._app(scope, receive, send)
        except Exception as error:
            if not sent:
                raise
            crash = error
        headers = tuple(
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in sent[0]["headers"]
        )
        said = b"".join(message.get("body", b"") for message in sent[1:])
        return replace(begun, status=sent[0]["status"], headers=headers, body=said.decode()), crash

    async def _settle(self, key: str, answer: _Answer) -> None:
        """It is done; what cannot be written about it now is still known to this daemon."""
        try:
            if answer.status < 300:
                self._answers[key] = answer
                await self._keep(key, answer)
            else:
                del self._answers[key]
                await self._keeper.keep(gone=[(KIND, key)])
        except StoreFailed:
            pass  # the row that says "begun" stays: a later daemon will not do it again

    async def _keep(self, key: str, answer: _Answer) -> None:
        """Write one, and forget those that are too old or too many. Raises: StoreFailed."""
        living = [one for one in self._answers if one not in self._running]
        surplus = max(0, len(self._answers) - KEPT_MAX)
        gone = [
            one
            for n, one in enumerate(living)
            if n < surplus or answer.wall_s - self._answers[one].wall_s > KEPT_S
        ]
        row = Kept(kind=KIND, key=key, doc=json.dumps(asdict(answer)), wall_s=answer.wall_s)
        unreadable = [one for one in self._unreadable if one != key]
        await self._keeper.keep([row], [(KIND, one) for one in (*gone, *unreadable)])
        self._unreadable.clear()
        for one in gone:
            self._answers.pop(one, None)


def _unfinished(running: bool) -> Refused:
    if running:
        return Refused(
            "key_running", "the first request with this Idempotency-Key is still under way.", retry_after_s=1
        )
    return Refused(
        "key_lost",
        "the daemon ended while it carried this out, so whether it was done is not known. "
        "Look with `headway ps -a`, then use a new key.",
    )


def _key(scope: Scope, given: list[bytes]) -> str:
    """The caller's key, as ours: two callers may use the same word. Raises: KeyInvalid."""
    if len(given) > 1 or len(given[0]) > KEY_MAX or not PRINTED.fullmatch(given[0]):
        raise KeyInvalid(
            f"Idempotency-Key must be one text of 1 to {KEY_MAX} letters, digits and signs of ASCII."
        )
    peer = scope.get(PEER)
    who = f"{peer.via}\0{peer.name}" if isinstance(peer, Peer) else ""
    return hashlib.sha256(who.encode() + b"\0" + given[0]).hexdigest()


def _meaning(scope: Scope, body: bytes) -> str:
    """The same for requests that ask for the same: the order and the spacing of JSON do not matter."""
    try:
        body = json.dumps(json.loads(body), sort_keys=True).encode()
    except (ValueError, RecursionError):
        pass  # no JSON: it means itself
    parts = (scope["method"].encode(), scope["path"].encode(), scope.get("query_string", b""), body)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


async def _read(receive: Receive) -> bytes:
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


async def _send(answer: _Answer, send: Send) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body.encode()})
