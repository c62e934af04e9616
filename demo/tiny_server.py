"""A scripted model server for tests: small, up in a tenth of a second, standard library only.

It answers /health, /stats, /v1/models, and /v1/chat/completions and /v1/completions (JSON and SSE). Fields of
the body (or of the query) write the script of one answer:

- `chunks` (3): words of the answer; `pace_s` (0): seconds before each of them; `pad` (0): extra bytes in each
- `stream`: server-sent events, one word each
- `status`: answer with this error status instead
- `cut_after`: break the connection off after so many words of a stream

Every answer begins with the server's own name and the request's id, so nobody can mistake another server's
answer. `--record FILE` gets one line per step of each request: `begin ID`, then `end ID`, or `gone ID` when the
client left or the answer was cut.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from demo.sim_device import (
    OUT_OF_MEMORY_EXIT,
    FakeOutOfMemory,
    allocate,
    clear,
    parse_size,
    set_bytes,
    split_devices,
)

_INFERENCE = ("/v1/chat/completions", "/v1/completions")


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, read whole."""

    verb: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """What the client calls this request; `-` when it gave no id."""
        return self.headers.get("x-request-id", "-")

    def script(self) -> dict[str, Any]:
        """The fields of the JSON body, the query's on top."""
        fields = json.loads(self.body or b"{}")
        return {**fields, **{key: json.loads(value) for key, value in self.query.items()}}


def recorded(path: Path, step: str = "begin") -> list[str]:
    """The request ids that `--record FILE` noted with `step` (begin, end or gone), in order."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split(" ", 1)[1] for line in lines if line.startswith(step + " ")]


class ClientReader(asyncio.StreamReader):
    """What a client sends, and the moment it leaves: known without reading ahead into its next request."""

    def __init__(self) -> None:
        super().__init__()
        self.left = asyncio.Event()

    def feed_eof(self) -> None:
        """The client closed its side."""
        super().feed_eof()
        self.left.set()

    def set_exception(self, exc: BaseException | type[BaseException]) -> None:
        """The connection broke."""
        super().set_exception(exc)  # type: ignore[arg-type]
        self.left.set()


class TinyServer:
    """Answers scripted requests; counts and records them."""

    def __init__(self, name: str, record: Path | None) -> None:
        self.name, self.began, self.in_flight = name, 0, 0
        self._connections: set[asyncio.StreamWriter] = set()
        self._ending = False
        self._record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) if record else None

    def cut(self) -> None:
        """Break every connection off, and each that still comes."""
        self._ending = True
        for writer in self._connections:
            writer.transport.abort()

    async def serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request after the other until the client leaves. `reader` is a ClientReader."""
        assert isinstance(reader, ClientReader)
        self._connections.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while not self._ending and (request := await _read_request(reader, writer)) is not None:
                if request.path in _INFERENCE and request.verb == "POST":
                    await self._infer(request, reader, writer)
                else:
                    _send_json(writer, *self._plain_answer(request.path))
                await writer.drain()
        self._connections.discard(writer)
        writer.close()

    def _plain_answer(self, path: str) -> tuple[int, dict[str, Any]]:
        if path == "/health":
            return 200, {"status": "ok"}
        if path == "/stats":
            return 200, {
                "name": self.name,
                "pid": os.getpid(),
                "began": self.began,
                "in_flight": self.in_flight,
            }
        if path == "/v1/models":
            return 200, {"object": "list", "data": [{"id": self.name, "object": "model", "owned_by": "demo"}]}
        return 404, _error(404, f"no route {path}")

    async def _infer(self, request: Request, reader: ClientReader, writer: asyncio.StreamWriter) -> None:
        self.began += 1
        self.in_flight += 1
        self._note("begin", request.id)
        answer = asyncio.ensure_future(self._answer(request, writer))
        left = asyncio.ensure_future(reader.left.wait())
        step = "gone"
        try:
            await asyncio.wait({answer, left}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done() and answer.exception() is None and answer.result():
                step = "end"
            else:
                raise ConnectionResetError(f"request {request.id} was cut")
        finally:
            answer.cancel()
            left.cancel()
            await asyncio.wait({answer, left})
            self.in_flight -= 1
            self._note(step, request.id)
            if step == "gone":
                writer.transport.abort()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Send the scripted answer; False when the script says to cut it off."""
        script = request.script()
        if status := int(script.get("status", 0)):
            _send_json(writer, status, _error(status, f"{self.name} was told to fail {request.id}"))
        elif script.get("stream"):
            return await self._stream(request, script, writer)
        else:
            text = "".join([word async for word in self._words(request, script)])
            choice = {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "text": text,
                "finish_reason": "stop",
            }
            _send_json(writer, 200, {**self._about(request, "chat.completion"), "choices": [choice]})
        return True

    async def _stream(self, request: Request, script: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        about = self._about(request, "chat.completion.chunk")
        left = int(script.get("cut_after", -1))
        async for word in self._words(request, script):
            if left == 0:
                return False
            left -= 1
            choice = {"index": 0, "delta": {"content": word}, "text": word, "finish_reason": None}
            await _send_event(writer, json.dumps({**about, "choices": [choice]}))
        last = {"index": 0, "delta": {}, "text": "", "finish_reason": "stop"}
        await _send_event(writer, json.dumps({**about, "choices": [last]}))
        await _send_event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")
        return True

    async def _words(self, request: Request, script: dict[str, Any]) -> AsyncIterator[str]:
        pace_s, padding = float(script.get("pace_s", 0)), "." * int(script.get("pad", 0))
        for number in range(int(script.get("chunks", 3))):
            await asyncio.sleep(pace_s)
            yield (f" word{number}" if number else f"{self.name} {request.id}") + padding

    def _about(self, request: Request, kind: str) -> dict[str, Any]:
        return {"id": request.id, "object": kind, "created": int(time.time()), "model": self.name}

    def _note(self, step: str, request_id: str) -> None:
        if self._record is not None:
            os.write(
                self._record, f"{step} {request_id}\n".encode()
            )  # one write: appends of two servers do not mix


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    verb, target, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {key.strip().lower(): value.strip() for key, _, value in pairs}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    parts = urlsplit(target)
    return Request(verb, parts.path, dict(parse_qsl(parts.query)), headers, await _read_body(reader, headers))


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += (await reader.readexactly(size + 2))[:-2]
    while (await reader.readline()).strip():  # trailers
        pass
    return body


def _send_json(writer: asyncio.StreamWriter, status: int, document: dict[str, Any]) -> None:
    body = json.dumps(document).encode()
    head = (
        f"HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)


async def _send_event(writer: asyncio.StreamWriter, data: str) -> None:
    event = f"data: {data}\n\n".encode()
    writer.write(b"%x\r\n%b\r\n" % (len(event), event))
    await writer.drain()


def _error(status: int, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "scripted", "code": status}}


async def _run(options: argparse.Namespace) -> None:
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    if options.start_delay:
        with suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), options.start_delay)
    if ending.is_set():
        return
    server = TinyServer(options.name, options.record)

    def connect() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(ClientReader(), server.serve_connection)

    listener = await loop.create_server(connect, "127.0.0.1", options.port, backlog=1024)
    print("listening on", options.port, flush=True)
    await ending.wait()
    listener.close()
    server.cut()
    if options.lie == "keeps":
        await asyncio.Event().wait()  # only SIGKILL gets this memory back
    elif options.lie:
        await asyncio.sleep(options.lie)


def _lie(text: str) -> str | float:
    """`keeps`, or the seconds of `late:S`."""
    return text if text == "keeps" else float(text.removeprefix("late:"))


def _each_device(options: argparse.Namespace, verb: Callable[[str], None]) -> None:
    if options.reports is not None:
        for device in options.device:
            verb(device)


def main() -> int:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.tiny_server", description="A scripted model server."
    )
    parser.add_argument("--port", type=int, required=True, help="on 127.0.0.1")
    parser.add_argument("--name", default="tiny", help="its name and its model's")
    parser.add_argument("--record", type=Path, metavar="FILE", help="append what happens to each request")
    parser.add_argument(
        "--start-delay", type=float, default=0.0, metavar="S", help="open the port S seconds late"
    )
    parser.add_argument(
        "--reports", type=Path, metavar="DIR", help="report memory on the simulated device here"
    )
    parser.add_argument("--device", type=split_devices, default=("sim0",), metavar="NAME[,NAME]")
    parser.add_argument("--bytes", type=parse_size, default=0, metavar="SIZE", help="held per device")
    parser.add_argument(
        "--total", type=parse_size, metavar="SIZE", help="end at once when the memory does not fit"
    )
    parser.add_argument("--lie", type=_lie, metavar="keeps|late:S", help="what the memory does after SIGTERM")
    options = parser.parse_args()

    def hold(device: str) -> None:
        if options.total is None:
            set_bytes(options.reports, device, options.bytes)
        else:
            allocate(options.reports, device, options.bytes, options.total)

    try:
        _each_device(options, hold)
        asyncio.run(_run(options))
    except FakeOutOfMemory as error:
        print(error, file=sys.stderr, flush=True)
        return OUT_OF_MEMORY_EXIT
    finally:
        _each_device(options, lambda device: clear(options.reports, device))
    return 0


if __name__ == "__main__":
    sys.exit(main())
