"""Flags that many verbs have: dry runs, ids alone, a look again and again; and what `add` takes for a job of one's own."""

import json
import os
import shlex
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from headway.cli.main import VERBS, Verbs
from headway.cli.watching import again
from headway.config.adhoc import adhoc
from headway.core.commands import AddJob, EditJob, MoveJob
from headway.core.model import JobSpec, Run
from headway.drivers.registry import DRIVERS
from headway.errors import DaemonAway
from tests.parts.command_line import api as api
from tests.parts.command_line import headway
from tests.parts.false_api import Served, serving, snapshot

pytestmark = pytest.mark.contract

MOVES = {name: driver.moves for name, driver in DRIVERS.items()}


@pytest.fixture
async def real(home: Path) -> AsyncIterator[Served]:
    """An API that makes jobs as the daemon does."""
    (home / "run").mkdir()
    async with serving(home / "run", make_job=lambda fields: adhoc(fields, MOVES)) as served:
        yield served


# ---------------------------------------------------------------- what a job of one's own may say

SAID: dict[str, tuple[str, Any]] = {
    # option: what the job has then
    "--saved 'cat my.step'": ("saved", ("cat", "my.step")),
    "--progress './p --all'": ("progress", ("./p", "--all")),
    "--summary 'tail -n 1 log'": ("summary", ("tail", "-n", "1", "log")),
    "--health true": ("health", ("true",)),
    "--device 0 --device gpu1": ("pinned_devices", ("0", "gpu1")),
    "--max-wait 2h": ("max_wait_s", 7200.0),
    "--oom-exit-code 9": ("oom_exit_code", 9),
    "--cwd /": ("cwd", "/"),
    "--driver restart": ("steps_aside", True),
    "--driver restart --step-aside none": ("steps_aside", False),
    "--env A=b": ("env", {"A": "b", "PATH": os.environ["PATH"]}),
    "--env PATH=/elsewhere": ("env", {"PATH": "/elsewhere"}),
    "": ("env", {"PATH": os.environ["PATH"]}),  # it finds the programs that this shell finds
}  # fmt: skip


@pytest.mark.parametrize(("options", "expected"), SAID.items(), ids=SAID.keys())
async def test_what_is_said_of_a_command(
    real: Served, home: Path, options: str, expected: tuple[str, Any]
) -> None:
    result = await headway(home, "add", *shlex.split(options), "--", "python", "x.py")
    assert result.exit_code == 0, result.output
    (asked,) = real.inbox.given
    assert isinstance(asked, AddJob) and isinstance(asked.spec, JobSpec)
    assert getattr(asked.spec, expected[0]) == expected[1]


async def test_a_job_that_parks_is_said_in_one_line(real: Served, home: Path) -> None:
    words = shlex.split("add --gpu 8GiB --parked 1GiB --park 'ctl park' --resume 'ctl resume' -- python x.py")
    assert (await headway(home, *words)).exit_code == 0
    (asked,) = real.inbox.given
    assert isinstance(asked, AddJob)
    assert {form.name: form.declared_bytes for form in asked.spec.forms} == {
        "running": 8 << 30, "parked": 1 << 30, "stopped": 0,
    }  # fmt: skip


async def test_what_it_takes_beside_its_devices_is_said_too(real: Served, home: Path) -> None:
    sizes = "--host-memory 2GiB --parked-host 9GiB --parked-disk 4GiB"
    words = shlex.split(f"add {sizes} --park 'ctl park' --resume 'ctl resume' -- python x.py")
    assert (await headway(home, *words)).exit_code == 0
    (asked,) = real.inbox.given
    assert isinstance(asked, AddJob)
    assert {form.name: (form.host_bytes, form.disk_bytes) for form in asked.spec.forms} == {
        "running": (2 << 30, None), "parked": (9 << 30, 4 << 30), "stopped": (None, None),
    }  # fmt: skip


WRONG = {
    "a command without a word": ("add --saved '' -- x", "is empty"),
    "a quote that is open": ('add --saved "a \'b" -- x', "cannot be split"),
    "park without resume": ("add --park p -- x", "resume is missing"),
    "what a recipe has of its own": ("add --saved s train", "a recipe has its own saved"),
    "a time that is none": ("add --max-wait soon -- x", "max_wait"),
    "a size that is none": ("add --parked big --park p --resume r -- x", "memory.parked"),
    "a disk of a job that never parks": ("add --parked-disk 1GiB --resumable -- x", "disk.parked"),
}


@pytest.mark.parametrize(("line", "words"), WRONG.values(), ids=WRONG.keys())
async def test_what_cannot_be_queued_is_said(real: Served, home: Path, line: str, words: str) -> None:
    result = await headway(home, *shlex.split(line))
    assert (result.exit_code, real.inbox.given) == (2, []), result.output
    assert words in result.stderr


# ---------------------------------------------------------------- dry runs

STEPS_ASIDE = {"": "none", "--resumable": "restart", "--park p --resume r": "park"}


@pytest.mark.parametrize(("options", "way"), STEPS_ASIDE.items())
async def test_a_dry_run_of_add_says_how_it_would_step_aside(
    real: Served, home: Path, options: str, way: str
) -> None:
    words = ["add", "-n", *options.split(), "--", "python", "x.py"]
    result = await headway(home, *words)
    assert result.exit_code == 0 and "python would be queued" in result.stdout
    reply = json.loads((await headway(home, "add", "--json", *words[1:])).stdout)
    assert (reply["id"], reply["code"], reply["facts"]["step_aside"]) == (None, "dry_run", way)
    assert real.inbox.given == []


@pytest.mark.parametrize("line", ["move name=tw* --top -n", "priority j3 j4 high -n"])
async def test_a_dry_run_names_them_and_asks_nothing(api: Served, home: Path, line: str) -> None:
    result = await headway(home, *line.split())
    assert (result.stdout, api.inbox.given) == ("j3 twin\nj4 twin\n", []), result.output


# ---------------------------------------------------------------- groups, ids alone


async def test_a_group_is_moved_in_its_own_order(api: Served, home: Path) -> None:
    assert (await headway(home, "move", "name=tw*", "--before", "j2", "-q")).stdout == "j3\nj4\n"
    assert [(one.target, *one.behind) for one in api.inbox.given if isinstance(one, MoveJob)] == [
        ("j3", "j4")
    ]


async def test_a_group_is_waited_for(api: Served, home: Path) -> None:
    over = {hid: replace(snapshot().holders[hid], ended="done") for hid in ("j3", "j4")}  # type: ignore[call-arg]
    api.hub.publish(snapshot(8, holders={**snapshot().holders, **over}, queue={}), {}, frozenset(over))
    result = await headway(home, "wait", "name=tw*", "--json")
    assert result.exit_code == 0, result.output
    assert [row["id"] for row in json.loads(result.stdout)] == ["j3", "j4"]
    assert (await headway(home, "wait", "tag=nobody")).exit_code == 1


QUIET = {
    "hold j2 j3 -q": "j2\nj3\n",
    "edit j2 --goal x -q": "j2\n",
    "priority j3 high -q": "j3\n",
    "service ls -q": "chat\n",
}


@pytest.mark.parametrize(("line", "printed"), QUIET.items())
async def test_ids_alone(api: Served, home: Path, line: str, printed: str) -> None:
    assert (await headway(home, *line.split())).stdout == printed


async def test_an_edit_takes_an_exit_code_away(api: Served, home: Path) -> None:
    assert (await headway(home, "edit", "j2", "--no", "oom-exit-code")).exit_code == 0
    assert api.inbox.given == [EditJob(target="j2", changes={"oom_exit_code": None}, by="ada")]


async def test_follow_is_log_f(api: Served, home: Path) -> None:
    over = replace(snapshot().holders["j2"], ended="done", runs=1, run=Run(id="j2.1", lock_held=False))  # type: ignore[call-arg]
    api.hub.publish(snapshot(8, holders={**snapshot().holders, "j2": over}), {}, frozenset({"j2"}))
    followed, logged = (
        await headway(home, "follow", "j2", "-n", "2"),
        await headway(home, "log", "j2", "-f", "-n", "2"),
    )
    assert followed.stdout == logged.stdout == "two\nthree\n", followed.output


# ---------------------------------------------------------------- again and again

WATCHED = ("status", "ps", "queue", "why j2", "show j2", "service ls", "lease ls")


@pytest.mark.parametrize("line", WATCHED)
async def test_a_look_again_and_again_is_one_line_each_for_programs(
    api: Served, home: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def twice(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("headway.cli.watching.time", SimpleNamespace(sleep=twice))  # not everybody's sleep
    result = await headway(home, *line.split(), "-w", "--json")
    assert result.exit_code == 0, result.output
    one, two = result.stdout.splitlines()
    assert json.loads(one).__class__ is json.loads(two).__class__
    assert looks == [1.0, 1.0]


def test_a_daemon_that_is_away_ends_it_where_nobody_looks() -> None:
    def away() -> None:
        raise DaemonAway("no daemon answers")

    with pytest.raises(DaemonAway):
        again(away, rounds=3, plain=True)


def leaves(group: click.Group, path: str = "") -> dict[str, click.Command]:
    context = click.Context(group)
    found: dict[str, click.Command] = {}
    for name in group.list_commands(context):
        one = group.get_command(context, name)
        assert one is not None
        found |= leaves(one, f"{path}{name} ") if isinstance(one, click.Group) else {f"{path}{name}": one}
    return found


# what runs something, writes a file or prints words for a shell: no document is its answer
NO_JSON = {"up", "down", "daemon", "gate", "completion", "run", "top", "follow"}
WORDS = {"config schema", "config show", "pin set", "pin clear"}


def test_every_verb_that_answers_does_so_as_json() -> None:
    without = {
        name for name, one in leaves(Verbs(name="headway")).items()
        if "as_json" not in {option.name for option in one.params}
    }  # fmt: skip
    assert without <= NO_JSON | WORDS, without
    assert VERBS.keys() >= NO_JSON
