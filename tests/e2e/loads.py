"""Clients with a mind of their own: any request, many at once, and some that leave before their answer."""

import asyncio
import contextlib
import json
import random
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp

from tests.e2e.stack import LIMIT_S, Stack
from tests.e2e.tables import Table
from tests.parts.programs import ROOT

LOOK_EVERY_S = 0.02
CHAT = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole answer. `took_s`: seconds from the question to its last byte."""

    id: str
    status: int
    headers: Mapping[str, str]
    text: str
    took_s: float

    @property
    def doc(self) -> Any:
        """The JSON document."""
        return json.loads(self.text)

    @property
    def error(self) -> dict[str, Any]:
        """The `error` object of OpenAI's shape."""
        found: dict[str, Any] = self.doc["error"]
        return found

    @property
    def words(self) -> str:
        """What the model said, in an answer that is no stream."""
        return str(self.doc["choices"][0]["message"]["content"])


async def asked(
    session: aiohttp.ClientSession,
    url: str,
    method: str = "GET",
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Send one request and read its answer, whatever its status. The request id is new."""
    own_id, began_s = uuid.uuid4().hex, time.monotonic()
    given = {"x-request-id": own_id, **(headers or {})}
    limit = aiohttp.ClientTimeout(total=LIMIT_S)
    async with session.request(method, url, json=body, headers=given, timeout=limit) as answer:
        text = await answer.text()
        seen = {name.lower(): value for name, value in answer.headers.items()}
        return Reply(own_id, answer.status, seen, text, time.monotonic() - began_s)


def up(stack: Callable[[Table], Stack], config: Table) -> Stack:
    """A stack whose devices were read, and whose gate has its table: before that it answers 503."""
    made = stack(config)
    if "service" in config:
        made.wait(lambda: call(made, "/v1/models").doc["data"], "the gate's table")
    made.wait(lambda: made.api("/api/v1/devices"), "the first reading")
    return made


def begin(
    stack: Stack,
    path: str,
    method: str = "GET",
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Future[Reply]:
    """One request to the front door in the background."""

    async def one() -> Reply:
        async with aiohttp.ClientSession() as session:
            return await asked(session, stack.front + path, method, body, headers)

    return stack.asking.work(one())


def call(
    stack: Stack,
    path: str,
    method: str = "GET",
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """One request to the front door, to its end."""
    return begin(stack, path, method, body, headers).result(LIMIT_S + 5)


def chat_body(model: str, **script: Any) -> dict[str, Any]:
    """A chat request; `script` is for the tiny server."""
    return {"model": model, "messages": [{"role": "user", "content": "Hello?"}], **script}


def begin_chat(
    stack: Stack, model: str, headers: Mapping[str, str] | None = None, **script: Any
) -> Future[Reply]:
    """A chat request in the background."""
    return begin(stack, CHAT, "POST", chat_body(model, **script), headers)


def chat(stack: Stack, model: str, headers: Mapping[str, str] | None = None, **script: Any) -> Reply:
    """A chat request, to its end."""
    return begin_chat(stack, model, headers, **script).result(LIMIT_S + 5)


def many_chats(stack: Stack, models: Sequence[str], at_once: int) -> list[Reply]:
    """One chat request for each name, in that order, at most `at_once` of them under way."""

    async def all_of_them() -> list[Reply]:
        places = asyncio.Semaphore(at_once)

        async def one(model: str) -> Reply:
            async with places:
                return await asked(session, stack.front + CHAT, "POST", chat_body(model))

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            return await asyncio.gather(*(one(model) for model in models))

    return stack.asking.work(all_of_them()).result(2 * LIMIT_S)


def server_stats(stack: Stack, service: str) -> dict[str, Any]:
    """What a tiny server counts, asked past the gate."""
    with urllib.request.urlopen(stack.service(service)["upstream"] + "/stats", timeout=LIMIT_S) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


# ---------------------------------------------------------------- leaving


@dataclass(frozen=True, slots=True)
class Leaver:
    """A client that leaves `after_s` seconds after it asked. `rude`: by a reset instead of an end of file."""

    id: str
    after_s: float
    rude: bool
    background: bool = False
    script: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Left:
    """One that left, or was answered before it could. `at_s`: on this process's monotonic clock."""

    id: str
    at_s: float
    got_bytes: int
    whole: bool


def leavers(
    count: int, longest_s: float, random_: random.Random, *, background: bool = False, **script: Any
) -> list[Leaver]:
    """Clients that leave at random times up to `longest_s`, half of them rudely."""
    return [
        Leaver(uuid.uuid4().hex, random_.uniform(0, longest_s), random_.random() < 0.5, background, script)
        for _ in range(count)
    ]


def begin_leaving(stack: Stack, model: str, clients: Sequence[Leaver], at_once: int) -> Future[list[Left]]:
    """Let all of them ask and leave, at most `at_once` at a time."""
    host, port = urlsplit(stack.front).netloc.split(":")

    async def all_of_them() -> list[Left]:
        places = asyncio.Semaphore(at_once)

        async def one(client: Leaver) -> Left:
            async with places:
                return await _ask_and_leave(host, int(port), model, client)

        return await asyncio.gather(*(one(client) for client in clients))

    return stack.asking.work(all_of_them())


async def _ask_and_leave(host: str, port: int, model: str, client: Leaver) -> Left:
    reader, writer = await asyncio.open_connection(host, port)
    body = json.dumps(chat_body(model, stream=True, **client.script)).encode()
    lines = [f"POST {CHAT} HTTP/1.1", f"host: {host}:{port}", "content-type: application/json"]
    lines += [f"content-length: {len(body)}", f"x-request-id: {client.id}"]
    lines += ["x-headway-class: background"] if client.background else []
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    got, whole = b"", False
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(client.after_s):
            await writer.drain()
            while not whole and (data := await reader.read(4096)):
                got += data
                whole = got.endswith(b"0\r\n\r\n")
    if client.rude:
        writer.transport.abort()
    else:
        writer.close()
    at_s = time.monotonic()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return Left(client.id, at_s, len(got), whole)


class RecordWatch:
    """A thread that notes when each line came into a tiny server's record, 20 ms exact."""

    def __init__(self, record: Path) -> None:
        self.seen_s: dict[tuple[str, str], float] = {}  # (step, request id) -> monotonic seconds
        self.twice: list[tuple[str, str]] = []
        self._record = record
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="record watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()

    def ids(self, step: str) -> set[str]:
        """Requests with that step in the record."""
        return {one for what, one in list(self.seen_s) if what == step}

    def over_s(self, request_id: str) -> float | None:
        """When the server was done with a request; None: it is not."""
        return self.seen_s.get(("gone", request_id), self.seen_s.get(("end", request_id)))

    def _watch(self) -> None:
        offset, rest, ending = 0, "", False
        while not ending:
            ending = self._ending.wait(LOOK_EVERY_S)  # one more look after the end
            if not self._record.exists():
                continue
            with self._record.open() as lines:
                lines.seek(offset)
                text = rest + lines.read()
                offset = lines.tell()
            now_s = time.monotonic()
            *whole, rest = text.split("\n")
            for line in whole:
                step, request_id = line.split(" ", 1)
                if (step, request_id) in self.seen_s:
                    self.twice.append((step, request_id))
                self.seen_s.setdefault((step, request_id), now_s)


# ---------------------------------------------------------------- the command line


def cli(stack: Stack, *words: str) -> "subprocess.CompletedProcess[str]":
    """`headway WORDS` in the stack's home, to its end; its output as text."""
    command = [sys.executable, "-m", "headway.cli.main", "--home", str(stack.home), *words]
    env = {"PYTHONPATH": f"{ROOT / 'src'}", "PATH": "/usr/bin:/bin", "NO_COLOR": "1"}
    return subprocess.run(
        command,
        env=env,
        cwd=stack.home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def cli_json(stack: Stack, *words: str) -> Any:
    """What `headway WORDS --json` prints; it must succeed."""
    done = cli(stack, *words, "--json")
    assert done.returncode == 0, f"headway {' '.join(words)}: {done.returncode}\n{done.stderr}"
    return json.loads(done.stdout)
