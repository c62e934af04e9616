"""Thin blocking HTTP/1.1 client of the daemon: one connection per call, over its Unix socket or TCP.

The standard library's http.client would bring in email and ssl: a third of the start-up time of `headway status`.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlencode, urlsplit

from headway.errors import DaemonAway, HeadwayError, NotFound

LINE_MAX_BYTES = 65536
SEGMENT_MAX = 200  # as the API's own bound for a word; names are shorter
ANSWER_LIMIT_S = 30.0
SAVES_LIMIT_S, AGAIN_S = (
    5.0,
    0.25,
)  # a disk that stutters is over by then; nothing was done, so asking again is safe
SILENCE_LIMIT_S = 40.0  # of an event stream: the daemon says something every 15 s


class Answered(HeadwayError):
    """The daemon refused; `code`, status and facts are its own."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        detail = str(problem.get("detail") or problem.get("title") or f"the daemon answered {status}")
        facts = problem.get("facts")
        super().__init__(detail, **(facts if isinstance(facts, dict) else {}))
        self.http_status = status
        self.code = str(problem.get("code") or f"http_{status}")
        self.problem = dict(problem)


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event of the stream. `id` is the revision, None where the daemon gave none."""

    name: str
    data: Any
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """Where the daemon listens: a socket path, or a host and port with a path prefix."""

    path: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    prefix: str = ""
    token: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return str(self.path) if self.path else f"http://{self.host}:{self.port}{self.prefix}"


def address(run_dir: Path, environ: Mapping[str, str] = os.environ) -> Address:
    """HEADWAY_URL when it is set (`http://HOST:PORT`, with HEADWAY_TOKEN), else the socket in `run_dir`.

    A daemon without a socket leaves `admin.token` and its port there instead.

    Raises:
        DaemonAway: HEADWAY_URL is not such a URL.
    """
    url = environ.get("HEADWAY_URL")
    if not url:
        own = run_dir / "headway.sock"
        return Address(path=own) if own.exists() else by_token(run_dir) or Address(path=own)
    parts = urlsplit(url)
    try:
        port = parts.port or 80
    except ValueError:
        port = 0
    if parts.scheme != "http" or not parts.hostname or not port:
        raise DaemonAway(
            f"HEADWAY_URL is {url!r}, not http://HOST:PORT. Correct it, or unset it to use the socket."
        )
    token = environ.get("HEADWAY_TOKEN", "").strip() or None
    return Address(host=parts.hostname, port=port, prefix=parts.path.rstrip("/"), token=token)


def by_token(run_dir: Path) -> Address | None:
    """The way in where there is no socket; None: the daemon left none."""
    with suppress(OSError, ValueError):
        token = (run_dir / "admin.token").read_text("ascii").strip()
        port = int((run_dir / "api-port").read_text())
        return Address(port=port, token=token) if token else None
    return None


class Client:
    """Asks one daemon. Raises DaemonAway when nobody answers there, Answered when it refuses."""

    def __init__(self, where: Address, limit_s: float = ANSWER_LIMIT_S) -> None:
        self.where, self.limit_s = where, limit_s

    def get(self, path: str, **query: Any) -> Any:
        """The JSON document at `path`; parameters that are None are left out, lists are repeated."""
        given = {key: value for key, value in query.items() if value is not None}
        return self._call("GET", f"{path}?{urlencode(given, doseq=True)}" if given else path, None)

    def post(self, path: str, body: Mapping[str, Any] | None = None, if_match: str | None = None) -> Any:
        """`if_match`: an ETag; anything else by now is answered 412, and nothing is done."""
        return self._call("POST", path, dict(body or {}), {} if if_match is None else {"If-Match": if_match})

    def put(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._call("PUT", path, dict(body))

    def delete(self, path: str) -> Any:
        return self._call("DELETE", path, None)

    def events(self, path: str = "/api/v1/events", after: str | None = None) -> Iterator[SseEvent]:
        """The event stream, until the daemon ends it. `after` is the id of the last event already known."""
        headers = {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = after
        with self._opened("GET", path, None, headers, SILENCE_LIMIT_S) as reply:
            reply.check()
            yield from sse(reply.lines())

    def _call(
        self, verb: str, path: str, body: dict[str, Any] | None, headers: Mapping[str, str] | None = None
    ) -> Any:
        until_s = time.monotonic() + SAVES_LIMIT_S
        while True:
            try:
                return self._asked(verb, path, body, headers)
            except Answered as error:
                if error.code != "store_silent" or time.monotonic() > until_s:
                    raise
            time.sleep(AGAIN_S)

    def _asked(
        self, verb: str, path: str, body: dict[str, Any] | None, headers: Mapping[str, str] | None
    ) -> Any:
        said = {"Accept": "application/json", **(headers or {})}
        with self._opened(verb, path, body, said, self.limit_s) as reply:
            reply.check()
            try:
                return json.loads(reply.body() or b"null")
            except ValueError:
                raise strange(self.where) from None

    def _opened(
        self, verb: str, path: str, body: dict[str, Any] | None, headers: dict[str, str], limit_s: float
    ) -> HttpReply:
        sock = self._connect()
        sock.settimeout(limit_s)
        payload = b"" if body is None else json.dumps(body).encode()
        host = f"{self.where.host}:{self.where.port}" if self.where.path is None else "localhost"
        head = {"Host": host, "Connection": "close", **headers}
        if self.where.token is not None and self.where.path is None:
            head["Authorization"] = f"Bearer {self.where.token}"
        if body is not None:
            head |= {"Content-Type": "application/json", "Content-Length": str(len(payload))}
        lines = [
            f"{verb} {self.where.prefix}{path} HTTP/1.1",
            *(f"{key}: {value}" for key, value in head.items()),
        ]
        try:
            sock.sendall("\r\n".join((*lines, "", "")).encode() + payload)
            return HttpReply(sock, self.where)
        except OSError as error:
            sock.close()
            raise silent(self.where, error) from error

    def _connect(self) -> socket.socket:
        """Raises: DaemonAway."""
        where = self.where
        try:
            if where.path is None:
                return socket.create_connection((where.host, where.port), timeout=5.0)
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(5.0)
                sock.connect(str(where.path))
            except OSError:
                sock.close()
                raise
            return sock
        except PermissionError as error:
            raise DaemonAway(
                f"{where} belongs to another user. Run this as the user who runs `headway up`.",
                address=str(where),
                denied=True,
            ) from error
        except OSError as error:
            raise DaemonAway(
                f"no daemon answers at {where} ({words_of(error)}). Start one with `headway up`; "
                f"if it runs with --home DIR, give the same --home here.",
                address=str(where),
            ) from error


def words_of(error: OSError) -> str:
    """The system's words for an error, without number and path."""
    return (error.strerror or str(error) or type(error).__name__).lower()


def silent(where: Address, error: OSError) -> DaemonAway:
    """The error for a daemon that took the connection and then gave no answer."""
    return DaemonAway(
        f"the daemon at {where} took the request and did not answer ({words_of(error)}). "
        f"Its state is shown by `headway status`; if that hangs too, start `headway up` again: no job is lost by it.",
        address=str(where),
        sent=True,
    )


def strange(where: Address) -> DaemonAway:
    """The error for somebody who listens there and is no daemon of ours."""
    return DaemonAway(
        f"what listens at {where} does not speak like a daemon of Headway. "
        f"Check HEADWAY_URL, or unset it to use the socket.",
        address=str(where),
    )


class HttpReply:
    """One answer being read. Closes its connection at the end of the `with`."""

    def __init__(self, sock: socket.socket, where: Address) -> None:
        self._sock, self._where = sock, where
        self._file: IO[bytes] = sock.makefile("rb")
        self.status, self.headers = self._head()

    def __enter__(self) -> HttpReply:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._sock.close()

    def check(self) -> None:
        """Raises: Answered for every status of 400 and above."""
        if self.status < 400:
            return
        try:
            problem = json.loads(self.body() or b"{}")
        except ValueError:
            problem = {}
        raise Answered(self.status, problem if isinstance(problem, dict) else {})

    def body(self) -> bytes:
        return b"".join(self._chunks())

    def lines(self) -> Iterator[str]:
        """Text lines as they come, without their ends."""
        rest = b""
        for chunk in self._chunks():
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield line.rstrip(b"\r").decode("utf-8", "replace")

    def _head(self) -> tuple[int, dict[str, str]]:
        first = self._guarded(self._file.readline, LINE_MAX_BYTES)
        if not first:  # it was killed, or ended, before its first word
            raise silent(self._where, ConnectionResetError("it closed the connection"))
        parts = first.rstrip(b"\r\n").split(b" ", 2)
        if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not parts[1].isdigit():
            raise strange(self._where)
        headers: dict[str, str] = {}
        while line := self._line():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        return int(parts[1]), headers

    def _line(self) -> bytes:
        return self._guarded(self._file.readline, LINE_MAX_BYTES).rstrip(b"\r\n")

    def _guarded(self, read: Any, size: int) -> bytes:
        try:
            return bytes(read(size))
        except OSError as error:
            raise silent(self._where, error) from error

    def _chunks(self) -> Iterator[bytes]:
        """The body's bytes, by chunk, by length, or until the end of the connection.

        Raises:
            DaemonAway: the connection ended within the body.
        """
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while size := self._number(self._line().split(b";")[0] or b"0", 16):
                yield self._exactly(size)
                self._line()
        elif (length := self.headers.get("content-length")) is not None:
            yield self._exactly(self._number(length.encode(), 10))
        else:
            while piece := self._guarded(self._file.read, LINE_MAX_BYTES):
                yield piece

    def _number(self, text: bytes, radix: int) -> int:
        try:
            return int(text, radix)
        except ValueError:
            raise strange(self._where) from None

    def _exactly(self, size: int) -> bytes:
        data = self._guarded(self._file.read, size)
        if len(data) < size:
            raise DaemonAway(
                f"the daemon at {self._where} ended in the middle of its answer. Ask again; `headway up` restarts it.",
                address=str(self._where),
                sent=True,
            )
        return data


def sse(lines: Iterator[str]) -> Iterator[SseEvent]:
    """Events of a `text/event-stream`. Comments are skipped; data that is no JSON stays text."""
    name, data, last_id = "message", list[str](), None
    for line in lines:
        if not line:
            if data:
                yield SseEvent(name, parsed("\n".join(data)), last_id)
            name, data, last_id = "message", [], None
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "id":
            last_id = value


def parsed(text: str) -> Any:
    """JSON where it is JSON, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def segment(text: str) -> str:
    """One path segment, quoted: an id or a name that a person typed.

    Raises:
        NotFound: nothing can be called that, and no path can hold it.
    """
    if not text or "/" in text or len(text) > SEGMENT_MAX:
        from headway.core.wording import unknown  # most calls need no words

        raise NotFound(unknown(text), target=text)
    return quote(text, safe="")
