"""The command line where things go wrong around it: streams that are closed, wrong words, a daemon that is killed."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headway.core.commands import AddJob
from headway.host.locks import take_lock
from tests.parts.command_line import api as api
from tests.parts.command_line import headway
from tests.parts.false_api import Served, serving
from tests.parts.programs import ROOT
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

LIMIT_S = 60.0
HEADWAY = [sys.executable, "-m", "headway.cli.main"]
ENV = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")}

CLOSED = {
    # how a shell closes it: what it is told to do, its exit code, what is on stdout
    "its input, and a command is run": ("<&-", ["run", "--", "sh", "-c", "cat; echo ran; exit 4"], 4, "ran"),
    "its output, and a command is run": (">&-", ["run", "--", "sh", "-c", "echo ran; exit 4"], 4, ""),
    "its talk, and it has something to say": ("2>&-", ["why", "nosuch"], 69, ""),
    "all of them": ("<&- >&- 2>&-", ["run", "--", "sh", "-c", "cat; echo ran; exit 4"], 4, ""),
}


@pytest.mark.parametrize(("how", "words", "code", "out"), CLOSED.values(), ids=CLOSED.keys())
def test_a_stream_that_is_closed_is_one_with_nothing_in_it(
    how: str, words: list[str], code: int, out: str, home: Path
) -> None:
    command = ["sh", "-c", f'exec "$@" {how}', "sh", *HEADWAY, "--home", str(home), *words]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout.strip()) == (code, out), done.stderr
    assert "Traceback" not in done.stderr


def test_a_table_into_a_closed_output_is_no_crash(home: Path) -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", *HEADWAY, "--home", str(home), "config", "path"]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")


WRONG = {
    "a verb that there is not": "zz --json",
    "an option that there is not": "hold --json --bogus",
    "nobody named": "stop --json",
    "nothing to change": "edit j2 --json",
    "a value of another type": "add --json --gpus many -- true",
    "no command": "run --json",
    "words before it": "hold --bogus --json",
}


@pytest.mark.parametrize("typed", WRONG.values(), ids=WRONG.keys())
async def test_wrong_words_are_json_where_json_was_asked_for(api: Served, home: Path, typed: str) -> None:
    result = await headway(home, *typed.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert json.loads(result.stderr)["code"] == "usage" and api.inbox.given == []


async def test_json_behind_the_dashes_is_the_command_s_own(api: Served, home: Path) -> None:
    result = await headway(home, "add", "--gpus", "many", "--", "tool", "--json")
    assert result.exit_code == 2 and result.stderr.startswith("Usage:")


async def test_a_program_that_is_not_there_is_json_too(api: Served, home: Path) -> None:
    result = await headway(home, "run", "--json", "--", "no-such-program")
    assert (result.exit_code, json.loads(result.stderr)["code"]) == (127, "cannot_start")


async def test_a_daemon_that_is_killed_before_it_answers_is_not_taken_for_a_stranger(home: Path) -> None:
    (home / "run").mkdir()
    async with Dying(home) as first:
        result = await headway(home, "ps", "--json")
    assert result.exit_code == 69 and "HEADWAY_URL" not in result.stderr
    assert json.loads(result.stderr)["facts"]["sent"] and len(first.heads) == 1


async def test_a_job_is_queued_once_by_whichever_daemon_lives_to_answer(home: Path) -> None:
    """The first is killed while it is asked. The next is asked with the same key, so it knows what was done."""
    (home / "run").mkdir()
    lock = take_lock(home / "run" / "daemon.lock")  # a daemon is due
    assert lock is not None
    try:
        async with Dying(home) as first:
            argv = [*HEADWAY, "--home", str(home), "add", "--", "true"]
            pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            process = await asyncio.create_subprocess_exec(*argv, env=ENV, **pipes)
            assert process.stderr is not None
            assert b"went away" in await asyncio.wait_for(process.stderr.readline(), LIMIT_S)
            await wait_until(lambda: len(first.heads) > 1, LIMIT_S, "a second try")
        async with serving(home / "run") as second:
            out, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
            assert (process.returncode, out.decode()) == (0, "j9\n") and len(second.inbox.given) == 1
            (command,) = second.inbox.given
            assert isinstance(command, AddJob)
            assert {json.loads(asked)["ask_key"] for asked in first.bodies} == {command.ask_key}
    finally:
        os.close(lock)


class Dying:
    """A daemon that is killed as soon as it was asked: it takes a request and closes without a word."""

    def __init__(self, home: Path) -> None:
        self._path = home / "run" / "headway.sock"
        self.heads: list[str] = []
        self.bodies: list[str] = []

    async def __aenter__(self) -> "Dying":
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(str(self._path))
        self._server = await asyncio.start_unix_server(self._take, sock=sock)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()
        self._path.unlink()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        self.bodies.append((await reader.read(65536)).decode() if "Content-Length" in self.heads[-1] else "")
        writer.close()
