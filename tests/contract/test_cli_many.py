"""One verb on many jobs from the command line, and what a slip of the finger does: nothing."""

from dataclasses import replace
from pathlib import Path

import pytest

from headway.core.commands import AddJob, ClearJobs, Command, EditJob, MoveJob, SetWish
from tests.parts.command_line import api as api
from tests.parts.command_line import headway
from tests.parts.false_api import TRAIN, Served, snapshot

pytestmark = pytest.mark.contract


ASKED: dict[str, tuple[Command, str]] = {
    "start j2 --anyway": (SetWish(target="j2", verb="start", by="ada", anyway=True), "j2 eval"),
    "pause j1 --at-saved-point": (
        SetWish(target="j1", verb="pause", by="ada", at_saved_point=True),
        "j1 train",
    ),
    "hold state=running": (SetWish(target="j1", verb="hold", by="ada"), "j1 train: running"),
    "hold name=ev*,state=queued": (SetWish(target="j2", verb="hold", by="ada"), "j2 eval"),
    "edit j2 --tag big --label owner=ana --max-time 2h --retries 3": (
        EditJob(
            target="j2",
            changes={"tags": ("big",), "labels": {"owner": "ana"}, "max_runtime_s": 7200.0, "retries": 3},
            by="ada",
        ),
        "j2 eval",
    ),
    "edit j2 --no goal --no tags": (
        EditJob(target="j2", changes={"goal": None, "tags": ()}, by="ada"),
        "j2 eval",
    ),
    "priority eval high": (EditJob(target="j2", changes={"priority": 80}, by="ada"), "j2 eval"),
    "add train --after-ok eval --max-time 90s --tag a --tag b": (
        AddJob(
            spec=replace(TRAIN, after_ok=("j2",), max_runtime_s=90.0, tags=("a", "b")),
            recipe="train",
            by="ada",
        ),
        "j9\n",
    ),
}


@pytest.mark.parametrize(("line", "expected"), ASKED.items(), ids=ASKED.keys())
async def test_what_is_asked_for(api: Served, home: Path, line: str, expected: tuple[Command, str]) -> None:
    result = await headway(home, *line.split())
    assert result.exit_code == 0, result.output
    assert (api.inbox.given, expected[1] in result.stdout) == ([expected[0]], True), result.stdout


async def test_all_of_them_in_one_turn(api: Served, home: Path) -> None:
    result = await headway(home, "hold", "--all")
    assert result.exit_code == 0, result.output
    assert [command.target for command in api.inbox.given if isinstance(command, SetWish)] == [
        "j1",
        "j2",
        "j3",
        "j4",
    ]


async def test_a_dry_run_names_them_and_asks_nothing(api: Served, home: Path) -> None:
    result = await headway(home, "cancel", "state=queued", "-n")
    assert (result.stdout, api.inbox.given) == ("j2 eval\nj3 twin\nj4 twin\n", [])


async def test_several_keep_their_order_when_they_are_moved(api: Served, home: Path) -> None:
    await headway(home, "move", "j3", "j4", "--top")
    await headway(home, "move", "j3", "j4", "--before", "j2")
    moved = [(c.target, *c.behind, c.where) for c in api.inbox.given if isinstance(c, MoveJob)]
    assert moved == [("j3", "j4", "top"), ("j3", "j4", "before")]


async def test_clear_is_one_command_for_all_that_are_over(api: Served, home: Path) -> None:
    over = {hid: replace(snapshot().holders[hid], ended="done") for hid in ("j3", "j4")}  # type: ignore[call-arg]
    api.hub.publish(snapshot(8, holders={**snapshot().holders, **over}), {}, frozenset(over))
    assert (await headway(home, "clear", "--all")).exit_code == 0
    assert api.inbox.given == [ClearJobs(targets=("j3", "j4"), by="ada")]


MEANS_NOBODY = {
    "a group without a member": ("hold tag=nothing", 1, "tag=nothing"),
    "a key that no job has": ("hold size=big", 2, "tag=..."),
    "a state that there is not": ("hold state=resting", 2, "running"),
    "an id nobody has, beside one that is known": ("hold j2 nobody", 1, "nobody"),
    "nobody at all": ("hold", 2, "--all"),
    "all and somebody": ("hold j2 --all", 2, "--all"),
    "an edit that says nothing": ("edit j2", 2, "--priority"),
    "an edit that contradicts itself": ("edit j2 --goal x --no goal", 2, "contradicts"),
    "a priority that is none": ("priority j2 huge", 2, "0 to 100"),
    "a time that is none": ("edit j2 --max-time soon", 2, "soon"),
    "a run that it never had": ("log j1 --run 7", 1, "no number 7"),
    "following a run that is over": ("log j1 --run 1 -f", 2, "--run"),
    "a label without a value": ("add train --label ana", 2, "NAME=VALUE"),
}


@pytest.mark.parametrize(("line", "status", "word"), MEANS_NOBODY.values(), ids=MEANS_NOBODY.keys())
async def test_a_slip_of_the_finger_changes_nothing(
    api: Served, home: Path, line: str, status: int, word: str
) -> None:
    result = await headway(home, *line.split())
    assert (result.exit_code, api.inbox.given) == (status, []), result.output
    assert word in result.stderr
