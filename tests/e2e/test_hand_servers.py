"""A vLLM that somebody else started: its memory is its own, it sleeps for a job, and a request wakes it."""

import subprocess
import urllib.request
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.e2e.kills import linked
from tests.e2e.loads import cli
from tests.e2e.stack import Stack
from tests.e2e.tables import Entry, Table, config, python, train
from tests.e2e.test_vllm import asked
from tests.parts.programs import GIB
from tests.processes import free_port

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]


def answers(port: int) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as found:
        return bool(found.status == 200)
    return False


def started_by_hand(headway: Stack, port: int) -> subprocess.Popen[bytes]:
    words = [
        "--port",
        port,
        "--served-model-name",
        "chat",
        "--enable-sleep-mode",
        "--reports",
        headway.reports,
    ]
    words += [
        "--record",
        headway.home / "chat.record",
        "--bytes",
        "16GiB",
        "--residue",
        "1GiB",
        "--total",
        "24GiB",
    ]
    server = headway.by_hand(["env", "VLLM_SERVER_DEV_MODE=1", *python("tests.parts.fake_vllm", *words)])
    headway.wait(lambda: answers(port), "an answer of the server")
    return server


def test_it_gives_way_to_a_job_and_comes_back(stack: Up) -> None:
    port = free_port()
    table = {
        "driver": "vllm",
        "upstream": f"http://127.0.0.1:{port}",
        "models": ["chat"],
        "memory": {"awake": "16GiB", "asleep": "1GiB"},
    }
    headway = stack(config(Entry("service", "chat", table), train(hold=True)))
    started_by_hand(headway, port)
    linked(headway, "chat")
    headway.wait_service("chat", "awake")
    headway.wait(lambda: headway.service("chat")["bytes"] == 16 * GIB, "its own memory, and nobody else's")
    device = headway.api("/api/v1/devices")[0]
    assert (device["foreign_bytes"], device["strangers"]) == (0, [])
    assert cli(headway, "release", "train").returncode == 0
    headway.wait_job("train", "running")
    assert headway.service("chat")["state"] == "asleep"
    assert headway.events("release.verified", holder="chat"), "measured, not believed"
    asked(headway)
