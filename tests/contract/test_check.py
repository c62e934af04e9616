"""`headway check`: problems fail, warnings fail only where that was asked for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.contract


def run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    argv = [sys.executable, "-m", "headway.cli.main", "--home", str(home), *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60)


def test_a_problem_in_the_config_is_exit_78_and_all_are_named(home: Path) -> None:
    (home / "config.toml").write_text('mode = "loud"\n[service.chat]\ndriver = "proces"\n')
    done = run(home, "check")
    assert done.returncode == 78
    assert "mode" in done.stdout
    assert "service.chat" in done.stdout


def test_a_warning_fails_only_a_strict_check(home: Path) -> None:
    (home / "config.toml").write_text(
        'mode = "live"\n[device.sim0]\nmeter = "simulated"\ntotal = "1GiB"\nreports = "."\n'
        '[job.train]\ndriver = "restart"\nstart = ["no-such-program"]\n'
    )
    done, strict = run(home, "check"), run(home, "check", "--strict")
    assert (done.returncode, strict.returncode) == (0, 78)
    assert done.stdout.startswith("warning: ") and "no-such-program" in done.stdout
    assert "no problems, 1 warning: mode live, 0 services, 1 job." in done.stdout
    document = json.loads(run(home, "check", "--json").stdout)
    assert (document["ok"], document["problems"], len(document["warnings"])) == (True, [], 1)


def test_a_warning_is_said_beside_a_problem(home: Path) -> None:
    (home / "config.toml").write_text(
        'mode = "live"\n[device.sim0]\nmeter = "simulated"\ntotal = "1GiB"\nreports = "."\n'
        '[job.train]\ndriver = "restart"\nstart = ["no-such-program"]\nno_key = 1\n'
    )
    done, document = run(home, "check"), json.loads(run(home, "check", "--json").stdout)
    assert done.returncode == 78
    assert "no_key" in done.stdout and "warning: " in done.stdout and "no-such-program" in done.stdout
    assert (document["ok"], len(document["problems"]), len(document["warnings"])) == (False, 1, 1)
