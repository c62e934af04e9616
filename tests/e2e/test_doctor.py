"""`headway doctor` on this machine, beside a Headway that runs, is killed, and finds its port taken."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.doctor.checks import CHECKS
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, tiny, train
from tests.parts.fake_nvml import Box
from tests.parts.programs import ROOT

pytestmark = pytest.mark.e2e


def doctor(home: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    argv = [sys.executable, "-m", "headway.cli.main", "--home", str(home), "doctor", "--json"]
    (home / "no-gpu").mkdir(exist_ok=True)
    env = {
        **Box(home / "no-gpu").environment(),
        "PYTHONPATH": str(ROOT / "src"),
        "HEADWAY_URL": "",
        "HEADWAY_CONFIG": "",
    }
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env)
    assert done.stdout, done.stderr
    return done.returncode, {one["check"]: one for one in json.loads(done.stdout)["checks"]}


OF_HEADWAY = ("daemon", "gate", "versions", "ports", "other-servers", "runtime-dir", "leftovers")


def levels(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: found[name]["level"] for name in OF_HEADWAY}


def test_a_headway_that_runs_is_well_and_one_that_was_killed_is_told(
    stacks: Callable[[Table], Stack],
) -> None:
    headway = stacks(config(tiny("chat"), train("train", "6GiB", placement="share")))
    headway.start_gate()
    headway.start_daemon()
    job = headway.wait_job("train", "running")
    assert headway.ask("chat").error is None
    _, found = doctor(headway.home)
    assert found.keys() == CHECKS.keys()
    assert set(levels(found).values()) == {"ok"}, found
    assert not [one for one in found.values() if "itself failed" in one["measured"]]
    assert headway.job("train")["run"] == job["run"], "nothing was touched"

    headway.kill("daemon")
    _, found = doctor(headway.home)
    assert levels(found) == {**dict.fromkeys(OF_HEADWAY, "ok"), "daemon": "warning", "leftovers": "warning"}
    headway.kill("parent")
    assert doctor(headway.home)[1]["gate"]["level"] == "ok", "neither runs: that is no fault of the gate's"
    headway.start_daemon()
    status, found = doctor(headway.home)
    assert (status, found["gate"]["level"]) == (1, "problem")


def test_a_port_that_somebody_has_is_told_with_who(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (home / "config.toml").write_text(f"[gate]\nport = {port}\n[api]\nport = 0\n")
        status, found = doctor(home)
    assert (status, found["ports"]["level"]) == (1, "problem")
    assert found["ports"]["facts"] == {"ports": [port]}
    assert f"pid {os.getpid()}" in found["ports"]["measured"]
