"""What people put in front of the gate: each client, unchanged, with a real llama.cpp server behind it."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demo.world import cached_model
from tests.e2e.stack import LIMIT_S, Stack
from tests.e2e.tables import Table, config, llama, render
from tests.parts import real_clients
from tests.parts.programs import ROOT

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]
CALL = '<tool_call>{"name": "light", "arguments": {"state": "on"}}</tool_call>'
SAID = "I will do that : "
LARGE = ROOT / ".cache" / "clients" / "bin" / "python"  # made by `make clients`


def python_with(library: str) -> Path | str:
    """The Python that has it: this one, or that of `make clients`."""
    if importlib.util.find_spec(library) is not None:
        return sys.executable
    if LARGE.exists():
        return LARGE
    missing = f"{library} is not installed: `make clients`"
    if os.environ.get("HEADWAY_CI"):
        pytest.fail(missing)
    pytest.skip(missing)


def understood(program: Path | str, name: str, url: str) -> dict[str, Any]:
    """What the client made of all its answers."""
    done = subprocess.run(
        [program, real_clients.__file__, name, url, "chat"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", real_clients.CLIENTS)
def test_chat_stream_and_tools_work_and_the_first_request_finds_the_model_aside(stack: Up, name: str) -> None:
    program = python_with(name)
    model = cached_model(name="calling", words=SAID + CALL)
    headway = stack(config(llama("chat", "16GiB", "--model", model), render()))
    headway.wait_job("render", "running")
    found = understood(program, name, headway.front)
    assert found.get("refused", 429) == 429
    assert found["chat"] == "".join(found["stream"]) == SAID + CALL
    assert found["tool"] == ["light", {"state": "on"}]
    assert found["models"] == ["chat"]

    rows = headway.wait(lambda: wanted(headway.requests("chat")), "its requests in the log")
    for refused in rows[: "refused" in found]:
        assert (refused["status"], refused["code"], refused["held"]) == (429, "wait_over", False)
    first, *later = rows["refused" in found :]
    assert (first["status"], first["held"]) == (200, True)
    assert all(row["status"] == 200 for row in later)
    assert later[0]["conversation"] == first["conversation"], "chat and stream are one"


def wanted(rows: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """The requests that ask for an answer, once one that called a tool is among them."""
    asked = [row for row in rows if row["method"] == "POST"]
    return asked if any(row.get("tool") == "light" for row in asked) else None
