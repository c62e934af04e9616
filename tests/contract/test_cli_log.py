"""`headway log`: a terminal gets text and colours, everybody else gets all of it."""

import asyncio
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from headway.cli.log import _gone
from headway.cli.log_text import RESET
from tests.parts.command_line import api as api
from tests.parts.command_line import headway
from tests.parts.false_api import Served
from tests.parts.programs import ROOT

pytestmark = pytest.mark.contract

PRINTED = "\x1b]0;gone\x07\x1b[2J\x1b[31mred"
SHOWN = {
    # name: (options, environment, what the terminal gets)
    "its colours": ((), {}, f"\x1b[31mred\r\n{RESET}"),
    "no colours where none are wanted": ((), {"NO_COLOR": "1"}, "red\r\n"),
    "all of it, asked for": (("--raw",), {}, f"{PRINTED}\r\n"),
}


@pytest.fixture
def loud(api: Served, home: Path) -> Served:
    """An API with a job that printed this."""
    (home / "run" / "log").write_text(f"{PRINTED}\n")
    return api


def read(master: int) -> str:
    found = b""
    with suppress(OSError):  # its other side was closed
        while data := os.read(master, 65536):
            found += data
    return found.decode()


@pytest.mark.parametrize("name", SHOWN)
async def test_on_a_terminal(loud: Served, home: Path, name: str) -> None:
    options, env, expected = SHOWN[name]
    master, slave = pty.openpty()
    argv = [sys.executable, "-m", "headway.cli.main", "--home", str(home), "log", "j1", *options]
    around = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    log = subprocess.Popen(
        argv, stdout=slave, start_new_session=True,
        env={**around, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm", **env},
    )  # fmt: skip
    os.close(slave)
    try:
        shown = await asyncio.wait_for(asyncio.to_thread(read, master), 30)
        assert log.wait(30) == 0
    finally:
        log.kill()
        os.close(master)
    assert shown == expected


async def test_in_a_pipe(loud: Served, home: Path) -> None:
    argv = [sys.executable, "-m", "headway.cli.main", "--home", str(home), "log", "j1"]
    log = await asyncio.create_subprocess_exec(
        *argv, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}
    )
    found, _ = await asyncio.wait_for(log.communicate(), 30)
    assert found.decode() == f"{PRINTED}\n"


async def test_one_that_printed_nothing_says_so(api: Served, home: Path) -> None:
    (home / "run" / "log").write_text("")
    argv = [sys.executable, "-m", "headway.cli.main", "--home", str(home), "log", "j1"]
    log = await asyncio.create_subprocess_exec(
        *argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    printed, told = await asyncio.wait_for(log.communicate(), 30)
    assert printed == b"" and b"printed nothing" in told


async def test_a_log_that_somebody_removed_is_said(api: Served, home: Path) -> None:
    (home / "run" / "log").rename(home / "run" / "elsewhere")
    result = await headway(home, "log", "j1")
    assert "removed or moved" in result.stderr and str(home / "run" / "log") in result.stderr


def test_a_log_that_went_with_its_run_and_one_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    assert _gone({"run": "j1.1", "path": str(tmp_path / "log")}) is None
    assert "not kept any more" in (_gone({"run": "j1.1", "path": str(tmp_path / "j1.1" / "log")}) or "")
