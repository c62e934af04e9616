"""The daemon's log file, in a process of its own: logging is global."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts.programs import ROOT

pytestmark = pytest.mark.contract

LOGS = """
import logging, pathlib, sys
import structlog
from headway.host import log_file
log_file.LOG_BYTES = 2000
log_file.log_to(pathlib.Path(sys.argv[1]))
log = structlog.get_logger("headway")
for number in range(int(sys.argv[2])):
    log.info("job.done", holder="j1", number=number)
log.info("job.done", holder="\\ud800 \\u20ac \\x1b")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("unexpected")
    logging.getLogger("uvicorn.error").exception("a library said so")
"""


def logged(file: Path, lines: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LOGS, str(file), str(lines)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


def test_stdout_and_file_have_the_same_lines_with_tracebacks(tmp_path: Path) -> None:
    file = tmp_path / "daemon.log"
    done = logged(file, 2)
    text = file.read_text()
    for said in ("number=1", "unexpected", "ZeroDivisionError"):
        assert said in done.stdout and said in text
    assert "a library said so" in text and "a library said so" in done.stderr
    assert "\x1b" not in text


def test_the_file_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    file = tmp_path / "daemon.log"
    logged(file, 500)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["daemon.log", "daemon.log.1"]
    assert all(path.stat().st_size < 6000 for path in tmp_path.iterdir())
    both = (tmp_path / "daemon.log.1").read_text() + file.read_text()
    assert "number=499" in both and "number=1 " not in both


STDOUTS = {
    "nobody reads it": "closed",
    "its disk is full": "/dev/full",
    "it is closed": None,
    "its encoding has few letters": "latin-1",
}


@pytest.mark.parametrize("stdout", STDOUTS.values(), ids=STDOUTS.keys())
def test_no_line_and_no_stdout_ends_the_program(tmp_path: Path, stdout: str | None) -> None:
    file = tmp_path / "daemon.log"
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full", "wb") as full, open(os.devnull, "wb") as null:
        at = {"closed": writer, "/dev/full": full.fileno()}.get(stdout or "", null.fileno())
        begin = "import os; os.close(1)\n" if stdout is None else ""
        done = subprocess.run(
            [sys.executable, "-c", begin + LOGS, str(file), "3"],
            stdout=at,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT / "src"),
                "PYTHONIOENCODING": "latin-1" if stdout == "latin-1" else "utf-8",
            },
        )
    os.close(writer)
    text = (
        file.read_text() + Path(f"{file}.1").read_text() if Path(f"{file}.1").exists() else file.read_text()
    )
    assert "number=2" in text and "\\ud800" in text
    assert "a library said so" in done.stderr, "it went on to its end"


EVENT = """
import pathlib, sys
import structlog
from headway.host import log_file
log_file.log_to(pathlib.Path(sys.argv[1]))
structlog.get_logger("headway").info("job.done", holder="j1", said=lambda: "train (j1): \\x1b[2J done")
"""


@pytest.mark.parametrize("terminal", [True, False])
def test_people_get_sentences_that_steer_nothing_and_the_file_gets_facts(
    tmp_path: Path, terminal: bool
) -> None:
    file = tmp_path / "daemon.log"
    master, slave = pty.openpty()
    reader, writer = os.pipe()
    subprocess.run(
        [sys.executable, "-c", EVENT, str(file)],
        stdout=slave if terminal else writer,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    shown = os.read(master if terminal else reader, 4096).decode()
    for descriptor in (master, slave, reader, writer):
        os.close(descriptor)
    assert ("train (j1): " in shown, "holder=j1" in shown) == (terminal, not terminal)
    assert "\x1b" not in shown
    assert "holder=j1" in file.read_text() and "train" not in file.read_text()
