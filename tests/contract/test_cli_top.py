"""`headway top`: the board of `headway status`, kept fresh."""

import asyncio
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from headway.cli.main import cli
from headway.cli.watching import BACK, OTHER_SCREEN, fitting
from tests.parts.command_line import api as api
from tests.parts.false_api import Served
from tests.parts.programs import ROOT
from tests.waiting import wait_until

pytestmark = pytest.mark.contract


async def test_top_shows_the_board_again_and_again(api: Served, home: Path) -> None:
    words = ["--home", str(home), "top", "-n", "3", "--every", "0.1"]
    result = await asyncio.to_thread(CliRunner(env={"NO_COLOR": "1"}).invoke, cli, words)
    assert result.exit_code == 0 and result.stdout.count("mode live") == 3
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("by", ["a signal", "a key"])
async def test_top_on_a_terminal_leaves_it_as_it_was(api: Served, home: Path, by: str) -> None:
    master, slave = pty.openpty()
    top = subprocess.Popen(
        [sys.executable, "-m", "headway.cli.main", "--home", str(home), "top", "--every", "0.1"],
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm"},
    )  # fmt: skip
    before = termios.tcgetattr(slave)
    shown = b""

    def read() -> bool:
        nonlocal shown
        if select.select([master], [], [], 0)[0]:
            with suppress(OSError):  # its other side was closed
                shown += os.read(master, 65536)
        return shown.count(b"train") >= 2

    try:
        await wait_until(read, 20.0, "two boards")
        if by == "a key":
            os.write(master, b"xq")
        else:
            top.send_signal(signal.SIGINT)
        await wait_until(lambda: read() and top.poll() is not None, 20.0, "its end")
        read()
        assert top.returncode == 0
        assert termios.tcgetattr(slave) == before
    finally:
        top.kill()
        os.close(slave)
        os.close(master)
    assert shown.startswith(OTHER_SCREEN.encode()) and shown.endswith(BACK.encode())


@pytest.mark.parametrize(
    ("lines", "rows", "left"),
    [(["a"] * 5, 5, 5), (["a"] * 6, 5, 4), (["a" * 30, *["a"] * 4], 5, 2), (["a" * 200], 5, 0)],
)
def test_a_board_that_is_taller_than_the_terminal_keeps_its_top(
    lines: list[str], rows: int, left: int
) -> None:
    shown = fitting(lines, 10, rows)
    assert shown[:left] == lines[:left] and len(shown) == (left if left == len(lines) else left + 1)
