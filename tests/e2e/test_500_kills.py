"""500 kills of a process that only launches and records: never two copies, and every end known or `lost`."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest

from headway.host.cgroups import Scopes
from headway.host.linux_runs import LinuxRuns
from tests.parts.killed import recorded
from tests.parts.programs import ROOT
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

KILLS = 500


def numbers(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def left_of(home: Path) -> list[psutil.Process]:
    """Processes whose command names the home: shims and jobs."""
    found = []
    for one in psutil.process_iter(["cmdline", "status"]):
        if any(str(home) in word for word in one.info["cmdline"] or ()) and one.info["status"] != "zombie":
            found.append(one)
    return found


@pytest.mark.timeout(300)
def test_500_kills(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.parts.killed",
        str(tmp_path),
        "--kills",
        str(KILLS),
        "--seed",
        "17",
    ]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    shims_killed = set(json.loads(done.stdout)["shims_killed"])

    lines = recorded(tmp_path)
    intents = [line["number"] for line in lines if "intent" in line]
    ends = {line["number"]: line["end"] for line in lines if "end" in line}
    executed = numbers(tmp_path / "executed")
    assert not numbers(tmp_path / "copies")
    assert intents == list(range(1, len(intents) + 1))
    assert ends.keys() == set(intents) and len(lines) == 2 * len(intents)
    assert max(Counter(executed).values()) == 1
    for number, end in ends.items():
        if end == "never":
            assert number not in executed
        elif end == "lost":
            assert number in shims_killed
        else:
            assert end == number % 100 and number in executed

    met = Counter(end if isinstance(end, str) else "code" for end in ends.values())
    assert met["code"] > KILLS / 10 and met["never"] > 0 and met["lost"] > 0, met
    wait_for(lambda: not left_of(tmp_path), 10.0, "the end of every shim")
    assert not list((tmp_path / "runs").iterdir())
    LinuxRuns(tmp_path / "runs")  # takes away what was made for runs that never came to be
    assert not Scopes(tmp_path / "runs").known()
