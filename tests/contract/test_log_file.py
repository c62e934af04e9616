"""The daemon's log file, in a process of its own: logging is global."""

import os
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
