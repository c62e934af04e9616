"""Runs the demo's programs, and asks them and the simulated device what they do."""

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from demo import client, sim_device

GIB = 1 << 30
ROOT = Path(__file__).parents[2]
LIMIT_S = 20.0


@contextmanager
def program(*arguments: object, environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """`python -m ARGUMENTS` in a session of its own, which is ended whole."""
    command = [sys.executable, "-m", *map(str, arguments)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment or dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """`python -m ARGUMENTS` to its end."""
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def get(port: int, path: str) -> tuple[int, Any]:
    """Status and JSON (or text) of a GET; status 0 when nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5.0)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        body = reply.read().decode()
        return reply.status, json.loads(body) if body.startswith(("{", "[")) else body
    except OSError:
        return 0, None
    finally:
        connection.close()


def healthy(port: int) -> bool:
    """Whether a model server on `port` says it is ready."""
    return get(port, "/health")[0] == 200


def held(reports: Path, device: str = "sim0") -> int:
    """Bytes held on a simulated device."""
    return sim_device.total_held(reports, device)


def ask(port: int, model: str = "tiny", stream: bool = True) -> client.Answer:
    """One chat request, straight to the server on `port`."""
    (answer,) = asyncio.run(client.burst(f"http://127.0.0.1:{port}", model, 1, stream=stream))
    return answer


def children(pid: int) -> list[int]:
    """The pids that `pid` started itself and has not reaped."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing until it is ended."""
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yield process
        finally:
            process.kill()
