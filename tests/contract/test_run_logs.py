"""The log of a run: capped by copy and truncate, while its writer knows nothing of that."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from headway.cli.log import _rest
from headway.host.linux_runs import LinuxRuns
from headway.host.run_files import LEFT_OUT, LogLimits, RunFiles
from headway.ports import RunSpec
from tests.parts.running import LIMIT_S
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

MAX_BYTES = 20_000
# Numbered lines of 100 bytes; after each piece it waits for a word from the test, so that each is told apart.
WRITER = """
import os, sys
piece = 0
while True:
    lines = (f"{piece:04d}-{line:04d} ".encode().ljust(99, b"x") + b"\\n" for line in range(250))
    os.write(1, b"".join(lines))
    piece += 1
    word, end = f"{sys.argv[1]}/{piece}", f"{sys.argv[1]}/end"
    while not os.path.exists(word):
        if os.path.exists(end) and not os.path.exists(word): raise SystemExit(0)  # the word comes before the end
        os.sched_yield()
"""


@pytest.fixture
def logged(tmp_path: Path) -> LinuxRuns:
    return LinuxRuns(tmp_path / "runs", LogLimits(MAX_BYTES, kept=2, look_s=0.02))


async def test_a_log_that_grows_without_end_stays_within_its_cap_and_loses_no_line_but_the_oldest(
    logged: LinuxRuns, tmp_path: Path
) -> None:
    words = tmp_path / "words"
    words.mkdir()
    logged.launch(RunSpec(id="r", holder="h", argv=(sys.executable, "-c", WRITER, str(words))))
    log = logged.directory("r") / "log"
    for piece in range(1, 6):
        part = log.with_name("log.1")
        first = f"{piece - 1:04d}-0000 ".encode()
        await wait_until(lambda p=part, f=first: p.exists() and p.read_bytes().startswith(f), LIMIT_S)
        await wait_until(lambda: log.stat().st_size == 0, LIMIT_S)
        assert _lines(part) == [f"{piece - 1:04d}-{line:04d}" for line in range(250)]
        (words / str(piece)).touch()
    (words / "end").touch()
    await wait_until(lambda: (state := logged.read("r")) is not None and state.gone, LIMIT_S)
    assert sorted(path.name for path in log.parent.glob("log*")) in (["log", "log.1", "log.2"],)
    assert sum(path.stat().st_size for path in log.parent.glob("log*")) <= 3 * 26_000
    shown = logged.log_tail("r", 300)
    assert shown and shown[-1].startswith("0005-0249"), "the tail goes on into the part before"
    state = logged.read("r")
    assert state is not None and state.exit is not None and state.exit.code == 0


def test_a_run_tells_what_it_was_asked_to_run_and_one_of_an_earlier_version_its_usual_grace(
    tmp_path: Path,
) -> None:
    files = RunFiles(tmp_path / "r")
    asked = RunSpec(id="r", holder="h", argv=("true", "x"), cwd="/", port=7, stop_grace_s=90.0)
    assert files.spec() is None
    os.close(files.create(asked, "token"))
    assert files.spec() == asked
    written = json.loads((files.directory / "spec.json").read_text())
    del written["stop_grace_s"]
    (files.directory / "spec.json").write_text(json.dumps(written))
    assert files.spec() == replace(asked, stop_grace_s=10.0)


KIB = 1024
TAILS = {
    # name: (the part before, the log, how many lines are asked for, the lines)
    "one line within what is read": (b"", b"x" * 64 * KIB, 9, ["x" * 64 * KIB]),
    "one byte too much": (b"", b"x" + b"y" * 64 * KIB, 9, [LEFT_OUT + "y" * 64 * KIB]),
    "a huge line before the last": (
        b"",
        b"x" * 70 * KIB + b"\nend\n",
        9,
        [LEFT_OUT + "x" * (64 * KIB - 5), "end"],
    ),
    "not asked for": (b"", b"x" * 70 * KIB + b"\nend\n", 1, ["end"]),
    "what is read begins with a line": (
        b"",
        b"x\n" + b"y" * (64 * KIB - 1) + b"\n",
        9,
        ["y" * (64 * KIB - 1)],
    ),
    "a huge line in the part before": (
        b"x" * 70 * KIB,
        b"\nend\n",
        9,
        [LEFT_OUT + "x" * (64 * KIB - 5), "end"],
    ),
    "nothing of the part before fits": (b"x", b"\n" + b"y" * 64 * KIB, 9, ["y" * 64 * KIB]),
    "feeds and returns are no ends of lines": (
        b"",
        b"a\fb\vc\x1cd\xc2\x85e\rf\r\ng",
        9,
        ["a\fb\vc\x1cd\x85e\rf", "g"],
    ),
    "empty lines": (b"", b"a\n\n\n", 9, ["a", "", ""]),
    "nothing": (b"", b"", 9, []),
}


@pytest.mark.parametrize(("before", "log", "lines", "wanted"), TAILS.values(), ids=TAILS.keys())
def test_the_last_lines(tmp_path: Path, before: bytes, log: bytes, lines: int, wanted: list[str]) -> None:
    files = RunFiles(tmp_path / "r")
    os.close(files.create(RunSpec(id="r", holder="h", argv=("true",)), "token"))
    (files.directory / "log").write_bytes(log)
    if before:
        (files.directory / "log.1").write_bytes(before)
    assert files.tail(lines) == wanted


def _lines(path: Path) -> list[str]:
    return [line[:9] for line in path.read_text().splitlines()]


async def test_a_log_that_may_not_be_copied_stays_as_it_is(logged: LinuxRuns, tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.mkdir()
    (words / "end").touch()
    held = logged.directory("r") / "log.1"
    logged.launch(
        RunSpec(
            id="r",
            holder="h",
            argv=("sh", "-c", f"mkdir {held}; mkdir {held}.tmp; yes x | head -c 50000; sleep 0.5"),
        )
    )
    await wait_until(lambda: (state := logged.read("r")) is not None and state.gone, LIMIT_S)
    assert (logged.directory("r") / "log").stat().st_size == 50_000
    state = logged.read("r")
    assert state is not None and state.exit is not None and state.exit.code == 0, "the shim is none the worse"


async def test_without_a_cap_nothing_is_rotated(tmp_path: Path) -> None:
    runs = LinuxRuns(tmp_path / "runs", LogLimits(0, look_s=0.02))
    runs.launch(RunSpec(id="r", holder="h", argv=("sh", "-c", "yes x | head -c 50000")))
    await wait_until(lambda: (state := runs.read("r")) is not None and state.gone, LIMIT_S)
    assert [path.name for path in runs.directory("r").glob("log*")] == ["log"]


def test_following_goes_on_over_a_rotation_without_a_gap(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\nthree\n")
    data, at = _rest(str(log), 0)
    assert data == b"one\ntwo\nthree\n"
    with open(log, "ab") as file:
        file.write(b"four\n")
    os.rename(log, tmp_path / "log.1")
    log.write_bytes(b"five\n")
    assert _rest(str(log), at) == (b"four\nfive\n", 5)


async def test_one_that_writes_without_a_pause_is_kept_within_bounds_and_ends_when_it_is_told_to(
    tmp_path: Path,
) -> None:
    largest = 1_000_000
    runs = LinuxRuns(tmp_path / "runs", LogLimits(largest, kept=2, look_s=0.1))
    runs.launch(RunSpec(id="r", holder="h", argv=("yes", "a line of no worth")))
    directory = runs.directory("r")
    await wait_until(lambda: (directory / "log.2").exists(), LIMIT_S)
    assert all(path.stat().st_size <= 4 * largest for path in directory.glob("log.?"))
    await asyncio.wait_for(runs.stop("r", 5.0), LIMIT_S)
    await wait_until(lambda: (state := runs.read("r")) is not None and state.gone, LIMIT_S)
    state = runs.read("r")
    assert state is not None and state.exit is not None and state.exit.code == -signal.SIGTERM
