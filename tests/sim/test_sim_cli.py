"""`headway sim`: what it prints, and how it exits."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result

from headway.cli.main import cli
from headway.core import fit
from headway.sim.campaign import Summary
from headway.sim.faults import FAULTS, rows
from tests.waiting import wait_for

pytestmark = pytest.mark.sim

ROOT = Path(__file__).parents[2]
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
    assert max(map(len, found.stderr.splitlines())) <= 100
    assert "Did you mean link_drops?" in headway("3", "--faults", "link_drop").stderr


def test_faults_are_named_as_the_summary_prints_them() -> None:
    found = headway("3", *SHORT, "--faults", "Link Drops, clock-jumps,", "--json")
    came = {what for what in json.loads(found.stdout)["seen"] if what.startswith("fault ")}
    assert came and came <= {"fault link_drops", "fault clock_jumps"}


def test_a_fault_that_finds_nothing_to_happen_to_is_traced_as_such_and_not_counted() -> None:
    words = ("3", "--hours", "1", "--faults", "gate_lives_on,client_leaves")
    lines = headway(*words, "--trace").stdout.splitlines()
    came = [line.partition(" fault ")[2] for line in lines if " fault " in line]
    assert "client_leaves: nothing to happen to" in came
    assert sum(":" not in line for line in came) == sum(
        n
        for what, n in json.loads(headway(*words, "--json").stdout)["seen"].items()
        if what.startswith("fault ")
    )


def test_json_is_the_result() -> None:
    doc = json.loads(headway("3", *SHORT, "--json").stdout)
    assert doc["seed"] == 3 and doc["violations"] == [] and len(doc["digest"]) == 64 and doc["seen"]["moves"]
    assert "last" not in doc
    words = (ROOT / "docs" / "howto" / "simulate.md").read_text("utf-8")
    campaign = (*Summary().to_doc(), "real_s", "never", "missing")
    assert [field for field in (*doc, "last", *campaign) if f"`{field}`" not in words] == []


def test_the_documentation_lists_the_faults() -> None:
    lines = (ROOT / "docs" / "howto" / "simulate.md").read_text("utf-8").splitlines()
    listed = [line for line in lines if line.startswith("| `")]
    assert listed == list(rows()), "\n".join(rows())


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
    assert found.stdout.startswith("2 seeds, each twice: ") and "never seen: " not in found.stdout
    assert re.search(r"^not seen: .*\d+ verdicts.* \(--coverage lists them\)$", found.stdout, re.MULTILINE)
    assert found.stdout.endswith("No violation.\n")


def test_too_little_seen_is_a_failure_where_that_is_asked() -> None:
    found = headway("--seeds", "1", "--hours", "0.2", "--workers", "1", "--coverage", "--json")
    doc = json.loads(found.stdout)
    assert found.exit_code == 1 and doc["failed"] == [] and doc["missing"]


COMMAND = (sys.executable, "-m", "headway.cli.main", "sim")


def interrupted(*words: str) -> tuple[int, str]:
    """(exit status, stdout) of a campaign of two workers that got a SIGINT."""
    asked = (*COMMAND, "--hours", "0.2", "--workers", "2", *words)
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as campaign:
        root = psutil.Process(campaign.pid)
        wait_for(lambda: len(root.children()) == 2, 60.0)
        workers = root.children()
        campaign.send_signal(signal.SIGINT)
        out, _ = campaign.communicate(timeout=60.0)
    assert not [one for one in workers if one.is_running()]
    return campaign.returncode, out


def test_ctrl_c_ends_a_campaign_with_what_it_found_and_leaves_no_process() -> None:
    code, out = interrupted("--seeds", "1-5000")
    assert code == 130 and re.search(r"^interrupted: \d+ of 5000 seeds were played$", out, re.MULTILINE), out
    code, out = interrupted("--seeds", "1-", "--json")
    assert code == 130 and json.loads(out)["interrupted"]


def test_ctrl_c_ends_a_seed_with_a_word() -> None:
    asked = (*COMMAND, "3", "--hours", "1000", "--trace")
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as played:
        assert played.stdout is not None
        played.stdout.readline()
        played.send_signal(signal.SIGINT)
        _, said = played.communicate(timeout=60.0)
    assert (played.returncode, said) == (130, "interrupted\n")


CLOSED = {
    "a trace": ("3", *SHORT, "--trace"),
    "a board": ("3", *SHORT, "--board"),
    "a summary": ("3", *SHORT),
    "a campaign": ("--seeds", "1", "--hours", "0.2", "--workers", "1"),
}


@pytest.mark.parametrize("words", CLOSED.values(), ids=CLOSED.keys())
def test_where_nobody_reads_it_ends_quietly_and_not_as_if_something_was_found(words: tuple[str, ...]) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "wb") as closed:
        ended = subprocess.run((*COMMAND, *words), stdout=closed, stderr=subprocess.PIPE, timeout=120.0)
    assert (ended.returncode, ended.stderr) == (141, b"")


MISUSED = {
    "no seed": (),
    "both": ("3", "--seeds", "1-2"),
    "a board of many": ("--seeds", "1-2", "--board"),
    "one seed twice": ("3", "--twice"),
    "no span": ("--seeds", "many"),
    "a span from last to first": ("--seeds", "6-1"),
    "hours without rest": ("3", "--hours", "0.1"),
    "hours that are no number": ("3", "--hours", "nan"),
    "hours without end": ("3", "--hours", "inf"),
    "a board in JSON": ("3", "--json", "--board"),
    "a trace in JSON": ("3", "--json", "--trace"),
    "faults without a name": ("3", "--faults", ""),
    "all faults and one": ("3", "--faults", "all,link_drops"),
    "no faults and one": ("3", "--faults", "none,link_drops"),
}


@pytest.mark.parametrize("words", MISUSED.values(), ids=MISUSED.keys())
def test_misuse_is_refused(words: tuple[str, ...]) -> None:
    assert headway(*words).exit_code == 2
