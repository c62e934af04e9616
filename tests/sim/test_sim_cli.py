"""`headway sim`: what it prints, and how it exits."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import psutil
import pytest
from click.testing import CliRunner, Result

from headway.cli.main import cli
from headway.core import fit
from headway.sim.faults import FAULTS
from tests.waiting import wait_for

pytestmark = pytest.mark.sim

SHORT = ("--hours", "0.25")


def headway(*words: str) -> Result:
    return CliRunner(env={"NO_COLOR": "1"}).invoke(cli, ["sim", *words], catch_exceptions=False)


def test_a_seed_says_what_it_saw() -> None:
    found = headway("3", *SHORT)
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert lines[0].startswith("seed 3: 15 min of virtual time") and lines[-1] == "No violation."
    assert [line.split()[0] for line in lines[1:-1]] == ["requests", "jobs", "swaps", "kills", "faults"]


def test_a_violation_is_told_with_its_last_turns_and_exits_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "measured", lambda *_: None)
    for seed in range(1, 60):
        found = headway(str(seed), *SHORT, "--faults", "falls_late,link_drops")
        if found.exit_code:
            break
    lines = found.stdout.splitlines()
    assert found.exit_code == 1 and any("overcommit" in line for line in lines) and "the last of it:" in lines
    assert lines[-1] == f"again: headway sim {seed} --faults falls_late,link_drops --hours 0.25"


def test_an_unknown_fault_is_refused_with_those_there_are() -> None:
    found = headway("3", "--faults", "link_drops,tornado")
    assert found.exit_code == 2 and "tornado" in found.stderr
    assert all(name in found.stderr for name in FAULTS)


def test_json_is_the_result() -> None:
    doc = json.loads(headway("3", *SHORT, "--json").stdout)
    assert doc["seed"] == 3 and doc["violations"] == [] and len(doc["digest"]) == 64 and doc["seen"]["moves"]


def test_a_board_is_a_line_for_each_look_where_there_is_no_terminal() -> None:
    lines = headway("3", *SHORT, "--board").stdout.splitlines()
    shown = [line for line in lines if line.endswith(" open")]
    assert len(shown) >= 30 and shown[0].startswith("    30 s  gpu0 ") and "requests answered" in shown[0]


def test_a_trace_is_every_line_of_it() -> None:
    lines = headway("3", *SHORT, "--trace").stdout.splitlines()
    assert any("daemon.started" in line for line in lines) and lines[-1] == "No violation."


def test_the_demo_swaps_and_parks_without_a_fault() -> None:
    doc = json.loads(headway("--demo", "--json").stdout)
    seen = doc["seen"]
    assert doc["violations"] == [] and not [what for what in seen if what.startswith("fault ")]
    assert {what for what in seen if what.startswith("request ")} == {"request done"}
    for kind in ("process:awake>stopped", "command:running>parked", "restart:running>stopped"):
        assert seen[f"action {kind}"] >= 5
    assert seen["event job.done"] >= 5


def test_the_demo_holds_with_every_fault() -> None:
    found = headway("2", "--demo", "--faults", "all", "--json")
    doc = json.loads(found.stdout)
    assert found.exit_code == 0, doc["violations"]
    assert [what for what in doc["seen"] if what.startswith("fault ")]


def test_a_campaign_plays_all_of_them_and_says_what_it_did_not_see() -> None:
    found = headway("--seeds", "1-2", "--hours", "0.2", "--twice", "--workers", "2")
    assert found.exit_code == 0, found.output
    assert found.stdout.startswith("2 seeds, each twice: ") and "verdicts never seen: " in found.stdout
    assert found.stdout.endswith("No violation.\n")


def test_too_little_seen_is_a_failure_where_that_is_asked() -> None:
    found = headway("--seeds", "1", "--hours", "0.2", "--workers", "1", "--coverage", "--json")
    doc = json.loads(found.stdout)
    assert found.exit_code == 1 and doc["failed"] == [] and doc["missing"]


def test_ctrl_c_ends_a_campaign_with_what_it_found_and_leaves_no_process() -> None:
    words = [
        sys.executable,
        "-m",
        "headway.cli.main",
        "sim",
        "--seeds",
        "1-",
        "--hours",
        "0.2",
        "--workers",
        "2",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as campaign:
        root = psutil.Process(campaign.pid)
        wait_for(lambda: len(root.children()) == 2, 60.0)
        workers = root.children()
        campaign.send_signal(signal.SIGINT)
        out, _ = campaign.communicate(timeout=60.0)
    assert campaign.returncode == 0 and " seeds: " in out, out
    assert not [one for one in workers if one.is_running()]


MISUSED = {
    "no seed": (),
    "both": ("3", "--seeds", "1-2"),
    "a board of many": ("--seeds", "1-2", "--board"),
    "one seed twice": ("3", "--twice"),
    "no span": ("--seeds", "many"),
    "hours without rest": ("3", "--hours", "0.1"),
}


@pytest.mark.parametrize("words", MISUSED.values(), ids=MISUSED.keys())
def test_misuse_is_refused(words: tuple[str, ...]) -> None:
    assert headway(*words).exit_code == 2
