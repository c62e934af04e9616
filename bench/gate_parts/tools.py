"""What the gate's bench runs with: two cores, a load and a model server made of C, and whole requests in files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LIMIT_S = 300.0
UPLOAD_BYTES = 20_000_000
VARIANTS = 5_000
EVENT_PACE_US, CROWD_PACE_US = 5_000, 200_000


@dataclass(frozen=True, slots=True)
class Counts:
    """How much of everything one round does. `events` is how many a stream has."""

    requests: int = 20_000
    latencies: int = 2_000
    streams: int = 40
    events: int = 200
    held: int = 6_000
    uploads: int = 5
    rewrites: int = 300
    crowd_held: int = 5_000
    crowd_streams: int = 2_000
    crowd_events: int = 50

    def few(self) -> Counts:
        """For a proxy that needs a hundred times as long."""
        return replace(
            self,
            requests=max(64, self.requests // 100),
            streams=max(1, self.streams // 10),
            held=self.held // 10,
        )


QUICK = Counts(400, 40, 4, 10, 40, 1, 10, 100, 40, 5)


class BenchFailed(Exception):
    """The bench can't go on; the text says what is missing or what went wrong, and what to do."""


def end(process: subprocess.Popen[Any]) -> None:
    """Stop a process that we started, and wait for it."""
    process.terminate()
    try:
        process.wait(10.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Tools:
    """Everything outside the proxies. `loader` is the core of load and model server.

    `first`: what is started runs before all other work of the machine.

    Requests, as files: `small`; `traced`, each with a head of its own; `silent`, which is answered when
    `release_silent` says so; `aside`, for a service that ours holds; `stream` and `crowd`, paced; `sound` and
    `form`, of 20 MB.
    """

    def __init__(self, folder: Path, loader: int, counts: Counts, *, first: bool = False) -> None:
        """Compile, and write the requests. Raises BenchFailed."""
        self.folder, self.loader, self._first = folder, loader, first
        self._load, self._upstream = self._compile("load"), self._compile("upstream")
        self.small = self._chat("small")
        self.traced = self._chat("traced", traced=True)
        self.silent = self._chat("silent", "bench-silent")
        self.aside = self._chat("aside", model="aside")
        self.stream = self._chat("stream", f"bench-stream {EVENT_PACE_US} {counts.events}", stream=True)
        self.crowd = self._chat("crowd", f"bench-stream {CROWD_PACE_US} {counts.crowd_events}", stream=True)
        self.sound = self._keep(
            "sound", [_post("/v1/audio/transcriptions", "audio/wav", bytes(UPLOAD_BYTES))]
        )
        media = "multipart/form-data; boundary=part"
        self.form = self._keep("form", [_post("/v1/audio/transcriptions", media, _form())])
        with self.on_core(loader):
            self.upstream = subprocess.Popen([self._upstream, "0"], stdout=subprocess.PIPE, text=True)
        assert self.upstream.stdout is not None
        self.upstream_port = int(self.upstream.stdout.readline())

    @contextmanager
    def on_core(self, core: int) -> Iterator[None]:
        """What is started inside runs on that core for ever. Raises BenchFailed."""
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {core})
        try:
            if self._first:
                os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
            yield
        except PermissionError as error:
            raise BenchFailed(
                f"--first is for root, who alone may run before all else ({error.strerror})"
            ) from None
        finally:
            if self._first:
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            os.sched_setaffinity(0, cores)

    def close(self) -> None:
        """End the model server."""
        end(self.upstream)

    def release_silent(self) -> None:
        """Let the model server answer those that it left without an answer."""
        self.upstream.send_signal(signal.SIGUSR1)

    def start(self, *words: str | int | Path) -> subprocess.Popen[str]:
        """Start the load; see load.c."""
        argv = [str(self._load), *map(str, words)]
        with self.on_core(self.loader):
            return subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )

    def run(self, *words: str | int | Path) -> Any:
        """Run the load to its end; what it reports. Raises BenchFailed on any error of a request."""
        return self.finish(self.start(*words))

    def finish(self, process: subprocess.Popen[str], *, strict: bool = True) -> Any:
        """Wait for a load that was started; what it reports. Raises BenchFailed; `strict`: for a lost request too."""
        words = subprocess.list2cmdline(process.args)  # type: ignore[arg-type]
        try:
            out, said = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise BenchFailed(f"{words}: not done after {LIMIT_S:.0f} s") from None
        if process.returncode != 0:
            raise BenchFailed(f"{words}: {said.strip()}")
        report = json.loads(out.removeprefix("held\n"))
        if strict and isinstance(report, dict) and report["errors"]:
            raise BenchFailed(
                f"{report['errors']} of {report['asked']} requests failed: {said.strip()[:500]}"
            )
        return report

    def _compile(self, name: str) -> Path:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            raise BenchFailed("no C compiler: the load generator is compiled when it runs (apt install gcc)")
        path = self.folder / name
        argv = [compiler, "-O2", "-Wall", "-o", str(path), str(HERE / f"{name}.c")]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BenchFailed(f"{name}.c could not be compiled:\n{done.stderr}")
        return path

    def _chat(
        self, name: str, how: str = "", *, model: str = "gpt", stream: bool = False, traced: bool = False
    ) -> Path:
        """Chat requests as clients send them: of many lengths, and nobody says the same twice.

        `how` tells the model server how to answer; see upstream.c. With `traced` each has a header of its own too, as
        clients that trace their requests send it.
        """
        requests = []
        for number in range(VARIANTS):
            asked = f"{how} Question {number}: when is noon?" + " Please." * (number * 37 % 100)
            messages = [
                {"role": "system", "content": "You are a helpful assistant. Answer in one sentence. " * 5},
                {"role": "user", "content": asked},
            ]
            more = {"stream": True} if stream else {}
            chat = {"model": model, "temperature": 0.7, "max_tokens": 64, **more, "messages": messages}
            body = json.dumps(chat).encode()
            extra = f"traceparent: 00-{number:032x}-{number:016x}-01\r\n" if traced else ""
            requests.append(_post("/v1/chat/completions", "application/json", body, extra))
        return self._keep(name, requests)

    def _keep(self, name: str, requests: Sequence[bytes]) -> Path:
        file = self.folder / f"{name}.requests"
        file.write_bytes(b"".join(requests))
        return file


def _post(path: str, media: str, body: bytes, extra: str = "") -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nContent-Type: {media}\r\n"
        f"User-Agent: OpenAI/Python 1.99.0\r\nAccept-Encoding: gzip, deflate\r\n{extra}"
        f"Authorization: Bearer sk-none\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _form() -> bytes:
    """A form as an audio client sends it: the model's name, then the file."""
    head = b'--part\r\nContent-Disposition: form-data; name="model"\r\n\r\ngpt\r\n--part\r\n'
    head += (
        b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'
    )
    return head + bytes(UPLOAD_BYTES) + b"\r\n--part--\r\n"
