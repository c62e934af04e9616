"""A disk that takes no byte: what is started there says so in one line, and leaves nothing half written."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli.ask import of_disk
from tests.parts.programs import ROOT

pytestmark = pytest.mark.contract

LIMIT_S = 60.0
CODES = {"init": "config_there", "up": "file_failed", "daemon": "file_failed", "gate": "file_failed"}


def _no_byte_more() -> None:
    """Every write to a file fails from now on; pipes take what they are given."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.mark.parametrize(("verb", "code"), CODES.items())
def test_a_start_that_can_write_nothing_says_which_file_and_leaves_none(
    verb: str, code: str, home: Path
) -> None:
    if verb != "init":
        (home / "config.toml").write_text('mode = "live"\n[gate]\nport = 0\n[api]\nport = 0\n')
    before = {path.name for path in home.iterdir()}
    words = [sys.executable, "-m", "headway.cli.main", "--home", str(home), verb]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        words, env=env, capture_output=True, text=True, timeout=LIMIT_S, preexec_fn=_no_byte_more
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert str(home) in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    whole = [path for path in home.rglob("*") if path.is_file() and path.name not in before]
    assert [path.name for path in whole if path.suffix != ".lock"] == [], "half a file was left"


def test_what_a_person_can_mend_is_told_and_a_mistake_of_ours_is_not_hidden() -> None:
    told = of_disk(OSError(28, "No space left on device", "/x/y"))
    assert told is not None and told.code == "file_failed" and told.facts["file"] == "/x/y"
    assert of_disk(FileNotFoundError(2, "No such file or directory", "/x")) is None
    assert of_disk(BrokenPipeError(32, "Broken pipe")) is None


def test_it_is_json_where_json_was_asked_for(home: Path) -> None:
    words = [sys.executable, "-m", "headway.cli.main", "--home", str(home), "init", "--json"]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        words, env=env, capture_output=True, text=True, timeout=LIMIT_S, preexec_fn=_no_byte_more
    )
    assert (done.returncode, json.loads(done.stderr)["code"]) == (1, "config_there")
