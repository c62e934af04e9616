"""What the command line says where a newcomer would be lost: slips, first steps, and what is silent otherwise."""

import asyncio
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headway.cli import tables
from headway.cli.ask import tell
from headway.cli.main import GROUPS, VERBS, cli
from headway.cli.reference import reference
from headway.cli.show import ending
from headway.core.commands import Reply, SetWish
from headway.core.model import Device, Job
from headway.core.names import usable
from tests.core.make import gib
from tests.parts.command_line import api as api
from tests.parts.command_line import headway
from tests.parts.false_api import Served, serving, snapshot
from tests.parts.programs import ROOT
from tests.waiting import wait_until

pytestmark = pytest.mark.contract


def holding(job: str, **fields: Any) -> dict[str, Any]:
    before = snapshot().holders[job]
    assert isinstance(before, Job)
    return {"holders": {**snapshot().holders, job: replace(before, **fields)}}


# ---------------------------------------------------------------- verbs and help


def test_every_verb_is_in_one_group_and_the_help_shows_all() -> None:
    assert sum(map(len, GROUPS.values())) == len(VERBS)
    shown = CliRunner().invoke(cli, ["--help"]).output
    for title, group in GROUPS.items():
        assert f"{title}:" in shown
        assert all(f"\n  {verb} " in shown for verb in group)
    assert "..." not in shown.partition("Options:")[2], "nothing is cut"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("chek", "check"), ("stauts", "status"), ("addd", "add"), ("zzz", None), ("config aply", "apply")],
)
def test_a_slip_of_the_finger(typed: str, meant: str | None) -> None:
    result = CliRunner().invoke(cli, typed.split())
    assert result.exit_code == 2
    assert (f"`{meant}`" in result.output) is (meant is not None)


async def test_the_home_may_come_from_the_environment(api: Served, home: Path) -> None:
    result = await headway(home, "ps", "-q", env={"HEADWAY_HOME": str(home)}, at_home=False)
    assert result.stdout.split() == ["j1", "j2", "j3", "j4"]


# ---------------------------------------------------------------- several at once


async def test_one_unknown_id_and_nobody_is_touched(api: Served, home: Path) -> None:
    result = await headway(home, "hold", "j2", "j3", "nope")
    assert result.exit_code == 1 and "nope" in result.stderr
    assert api.inbox.given == []


async def test_names_become_ids_before_the_first_change(api: Served, home: Path) -> None:
    await headway(home, "hold", "eval", "j3", "--json")
    assert [given.target for given in api.inbox.given if isinstance(given, SetWish)] == ["j2", "j3"]


# ---------------------------------------------------------------- adding


SIM = Device(id="local/sim0", name="sim0", total_bytes=gib(24), free_bytes=gib(24), read_at_s=999.0)
ADDS = {
    # name: (line, words on stderr)
    "nothing": ("add", "behind `--`"),
    "both": ("add train -- echo", "not both"),
    "no program": ("add -- ", "is empty"),
    "bad name": ("add --name Bad -- echo", "a-z"),
    "memory of a recipe": ("add --gpu 1GiB train", "a recipe has its own gpu"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "words"), ADDS.values(), ids=ADDS.keys())
async def test_what_cannot_be_added(api: Served, home: Path, line: str, words: str) -> None:
    result = await headway(home, *line.split(" "))
    assert result.exit_code in (1, 2) and words in result.stderr
    assert "Value error" not in result.stderr
    assert api.inbox.given == []


async def test_one_that_can_never_fit_is_said_at_once(api: Served, home: Path) -> None:
    j3 = snapshot().holders["j3"]
    forms = (replace(j3.forms[0], declared_bytes=gib(100)), *j3.forms[1:])
    api.hub.publish(snapshot(8, devices={SIM.id: SIM}, **holding("j3", forms=forms)), {}, frozenset())
    for added, warned in (("j3", True), ("j2", False)):
        api.inbox.reply = Reply(accepted=True, code="accepted", facts={}, holder=added)
        result = await headway(home, "add", "train")
        assert result.exit_code == 0 and result.stdout == f"{added}\n"
        assert ("can never start here" in result.stderr and "sim0" in result.stderr) is warned


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("python3.11", "python3.11"),
        ("My Tool", "my-tool"),
        ("...", "job"),
        ("Ü", "job"),
        ("x" * 99, "x" * 64),
    ],
)
def test_a_program_s_name_becomes_a_name_that_may_be_used(program: str, name: str) -> None:
    assert usable(program) == name


UNKNOWN = {
    # what was typed: the commands that list what could have been meant
    "why nosuch": ["headway ps -a", "headway service ls", "headway lease ls -a"],
    "why j99": ["headway ps -a"],
    "why L99": ["headway lease ls -a"],
    "show C7": ["headway lease ls -a"],
    "stop nosuch": ["headway ps -a", "headway service ls", "headway lease ls -a"],
    "move nosuch --top": ["headway ps -a"],
    "add --after nosuch -- true": ["headway ps -a"],
    "service show nosuch": ["headway service ls"],
    "lease renew nosuch": ["headway lease ls -a"],
    "lease release L99": ["headway lease ls -a"],
    "events j99": ["headway ps -a"],
    "why a/b": ["headway ps -a", "headway service ls", "headway lease ls -a"],
    f"why {'x' * 70_000}": ["headway ps -a", "headway service ls", "headway lease ls -a"],
}


@pytest.mark.parametrize(
    ("typed", "lists"), UNKNOWN.items(), ids=[typed.replace("/", " ")[:30] for typed in UNKNOWN]
)
async def test_who_is_not_known_is_said_with_what_lists_that_kind(
    api: Served, home: Path, typed: str, lists: list[str]
) -> None:
    api.inbox.reply = Reply(accepted=False, code="not_found", facts={"target": "nosuch", "kind": "lease"})
    result = await headway(home, *typed.split())
    assert result.exit_code == 1
    assert re.findall(r"`(headway [a-z]+(?: ls)?(?: -a)?)`", result.stderr) == lists, result.stderr
    assert len(result.stderr) < 400, "what was typed is not repeated at length"


TWICE = {
    "one name, two labels": "add --label a=1 --label a=2 -- true",
    "one variable, two values": "add --env A=1 --env A=2 -- true",
    "one name, two new labels": "edit j2 --label a=1 --label a=2",
}


@pytest.mark.parametrize("typed", TWICE.values(), ids=TWICE.keys())
async def test_of_two_values_for_one_name_none_is_chosen(api: Served, home: Path, typed: str) -> None:
    result = await headway(home, *typed.split())
    assert result.exit_code == 2 and "twice" in result.stderr and api.inbox.given == []


def test_a_row_of_a_table_is_one_line_whatever_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    tables.table(("ID", "WHY"), [("j1", "cannot enter /a\nb"), ("j2", None)])
    assert len(capsys.readouterr().out.splitlines()) == 3


# ---------------------------------------------------------------- looking


async def test_who_set_the_mode_is_shown_where_the_config_says_another(api: Served, home: Path) -> None:
    api.hub.publish(snapshot(8, mode="shadow", mode_by="ada"), {}, frozenset())
    for line in ("status", "mode"):
        assert "shadow (set by ada; the config says live)" in (await headway(home, line)).stdout


async def test_a_held_job_is_moved_and_says_when_that_counts(api: Served, home: Path) -> None:
    queue = {"gpu": ((1.0, "j2"),), "held": ((2.0, "j3"),)}
    api.hub.publish(snapshot(8, queue=queue, **holding("j3", wish="hold")), {}, frozenset())
    api.inbox.reply = Reply(accepted=True, code="accepted", facts={}, holder="j3")
    result = await headway(home, "move", "j3", "--top")
    assert "None" not in result.stdout and "released" in result.stdout


async def test_a_state_is_said_once(api: Served, home: Path) -> None:
    held = holding("j2", wish="hold", wish_by="ada", wish_s=1000.0)
    api.hub.publish(snapshot(8, **held), {}, frozenset())
    api.inbox.reply = Reply(accepted=True, code="accepted", facts={}, holder="j2")
    assert (await headway(home, "hold", "j2")).stdout.startswith("j2 eval: held by ada just now")
    assert (await headway(home, "why", "j2")).stdout.startswith("held by ada just now")


async def test_show_leaves_out_what_says_nothing(api: Served, home: Path) -> None:
    queued = (await headway(home, "show", "j2")).stdout
    for word in ("code", "wish", "started", "failures", "failed starts", "ran for", "retries"):
        assert f"\n{word}" not in queued
    held = holding("j2", wish="hold", wish_by="ada", failures=2)
    api.hub.publish(snapshot(8, **held), {}, frozenset())
    shown = (await headway(home, "show", "j2")).stdout
    assert "asked to" in shown and "failed starts in a row" in shown


async def test_following_a_job_that_has_not_run_says_that_it_waits(api: Served, home: Path) -> None:
    argv = [sys.executable, "-m", "headway.cli.main", "--home", str(home), "log", "-f", "j2"]
    process = await asyncio.create_subprocess_exec(
        *argv, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}
    )
    assert process.stderr is not None
    said = (await asyncio.wait_for(process.stderr.readline(), 20)).decode()
    assert "queued" in said and "headway why j2" in said
    process.terminate()
    await asyncio.wait_for(process.wait(), 20)


async def test_one_line_that_cannot_be_said_does_not_hide_the_others(
    api: Served, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[int] = []

    def told(*_: object) -> str:
        said.append(1)
        if len(said) == 2:
            raise RecursionError("a row of another version")
        return "well said"

    monkeypatch.setattr("headway.api.routes.history.told", told)
    shown = await api.get("/api/v1/history", last=3)
    assert [row["sentence"] for row in shown] == ["well said", "job done", "well said"]


async def test_history_of_somebody_who_never_was(api: Served, home: Path) -> None:
    result = await headway(home, "events", "nope")
    assert result.exit_code == 1 and "nope" in result.stderr


# ---------------------------------------------------------------- waiting


async def test_waiting_where_no_daemon_ever_was_is_exit_69(home: Path) -> None:
    assert (await headway(home, "wait", "j1")).exit_code == 69


async def test_waiting_goes_on_over_a_restart_and_says_so(home: Path) -> None:
    (home / "run").mkdir()
    argv = [sys.executable, "-m", "headway.cli.main", "--home", str(home), "wait", "j1"]
    looks: list[int] = []

    def user(sock: object) -> int:
        looks.append(1)
        return os.getuid()

    async with serving(home / "run", user):
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        assert process.stderr is not None
        await wait_until(lambda: len(looks) > 1, 20, "a first look, and its answer")
    assert "waiting for the next one" in (await asyncio.wait_for(process.stderr.readline(), 20)).decode()
    async with serving(home / "run") as second:
        over = holding("j1", ended="done", ended_s=990.0, form="stopped")
        second.hub.publish(snapshot(8, present=(), **over), {}, frozenset({"j1"}))
        assert await asyncio.wait_for(process.wait(), 20) == 0


def test_the_reference_of_the_verbs_is_what_they_say() -> None:
    written = (ROOT / "docs" / "reference" / "cli.md").read_text("utf-8")
    assert written == reference(), "run: python -m headway.cli.reference > docs/reference/cli.md"


@pytest.mark.parametrize("shell", ("bash", "zsh", "fish"))
def test_shells_are_given_what_completes_the_verbs(shell: str) -> None:
    printed = CliRunner().invoke(cli, ["completion", shell])
    assert printed.exit_code == 0 and "_HEADWAY_COMPLETE" in printed.stdout
    at = "sta" if shell == "fish" else "1"  # fish gives the word itself
    asked = {"_HEADWAY_COMPLETE": f"{shell}_complete", "COMP_WORDS": "headway sta", "COMP_CWORD": at}
    command = [sys.executable, "-m", "headway.cli.main"]
    found = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **asked, "PYTHONPATH": str(ROOT / "src")},
    )
    assert "status" in found.stdout and "start" in found.stdout


@pytest.mark.parametrize("text", ["a\x1b]0;title\x07b", "a\x1b[2Jb", "a\rb", "a\x9b31mb", "a\x08b"])
def test_what_a_program_said_of_itself_steers_no_terminal(
    text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    tables.line(text + tables.paint("green", "running"))
    tell(text)
    shown, talk = capsys.readouterr()
    assert "\ufffd" in talk and text not in talk
    assert "\ufffd" in shown and "\x1b[32mgreen\x1b[0m" in shown
    assert not {"\x07", "\r", "\x9b", "\x08"} & set(shown) and shown.count("\x1b") == 2


async def test_to_hold_the_queue_is_no_look_to_take_again_and_again(api: Served, home: Path) -> None:
    shown = await headway(home, "queue", "hold", "-w")
    assert shown.exit_code == 2 and not api.inbox.given


async def test_why_has_the_last_lines_of_one_that_is_held_for_failing_at_its_start(
    api: Served, home: Path
) -> None:
    note = {"failures": 3, "line": "no such file", "lines": ["Traceback", "no such file"]}
    held = holding("j3", wish="hold", wish_by="headway", note="crash_loop", note_facts=note)
    api.hub.publish(snapshot(8, queue={}, **held), {}, frozenset())
    shown = (await headway(home, "why", "j3")).stdout.splitlines()
    assert shown[-3:] == ["  Traceback", "  no such file", "what helps: headway release j3"]


# ---------------------------------------------------------------- where a newcomer would be lost


@pytest.mark.parametrize(
    "line",
    [
        "add python train.py",
        "add --gpu 8GiB python train.py",
        "priority j2",
        "priority j2 200",
        "log j1 --path -f",
    ],
)
async def test_a_command_that_is_not_said_whole_asks_nothing(api: Served, home: Path, line: str) -> None:
    result = await headway(home, *line.split())
    assert result.exit_code == 2 and not api.inbox.given


@pytest.mark.parametrize(
    ("words", "warned"),
    [
        (["--", "sh", "-c", "true"], False),
        (["--", "no-such-program-anywhere"], True),
        (["--cwd", "/no/such/directory", "--", "sh"], True),
        (["--env", "PATH=/elsewhere", "--", "sh"], True),
    ],
)
async def test_a_program_or_directory_that_is_not_there_is_said_and_queued_all_the_same(
    api: Served, home: Path, words: list[str], warned: bool
) -> None:
    result = await headway(home, "add", "--gpus", "0", *words)
    assert len(api.inbox.given) == 1
    assert bool(result.stderr) is warned


async def test_a_slip_in_a_name_is_answered_with_the_name(api: Served, home: Path) -> None:
    result = await headway(home, "why", "trian")
    assert result.exit_code == 1 and "`train`" in result.stderr


async def test_the_log_s_file_is_named(api: Served, home: Path) -> None:
    told = json.loads((await headway(home, "log", "j1", "--json")).stdout)
    assert (await headway(home, "log", "j1", "--path")).stdout == f"{told['path']}\n"


@pytest.mark.parametrize(
    ("code", "word"), [(0, "0"), (3, "3"), (-15, "SIGTERM"), (-9, "SIGKILL"), (-99, "99")]
)
def test_how_a_run_ended_is_said_by_the_signal_s_name(code: int, word: str) -> None:
    assert word in ending(code)


def test_a_verb_s_own_verbs_are_listed_whole() -> None:
    for verb in ("config", "lease", "token", "window"):
        assert "..." not in CliRunner().invoke(cli, [verb, "--help"]).output.partition("Commands:")[2]


async def test_a_device_that_nobody_measures_shows_the_sizes_that_were_said(api: Served, home: Path) -> None:
    unseen = replace(SIM, per_process=False)
    declared = replace(unseen, confidence="declared", free_bytes=None, read_at_s=None)
    j1 = snapshot().holders["j1"]
    forms = (replace(j1.forms[0], declared_bytes=gib(9)), *j1.forms[1:])
    running = holding("j1", devices=(SIM.id,), forms=forms)
    for device, said in ((declared, True), (unseen, False)):
        api.hub.publish(snapshot(8, devices={SIM.id: device}, **running), {}, frozenset())
        board = (await headway(home, "status")).stdout
        assert ("9 GiB" in board) is said
