"""The command line about windows and prod only, against an API over its real socket."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from headway.core.commands import Command, SetProdOnly, StartWindow, StopWindow
from headway.core.model import Window
from tests.parts.command_line import api as api
from tests.parts.command_line import headway
from tests.parts.false_api import Clock, Served, snapshot

pytestmark = pytest.mark.contract

ASKED: dict[str, tuple[Command, str]] = {
    "window start no_model --for 2h chat": (
        StartWindow(kind="no_model", for_s=7200.0, services=("chat",), wall_s=Clock().wall_s(), by="ada"),
        "(no_model) is open",
    ),
    "window start slow_wake --for 90min": (
        StartWindow(kind="slow_wake", for_s=5400.0, wall_s=Clock().wall_s(), by="ada"),
        "(slow_wake) is open",
    ),
    "window stop night": (StopWindow(target="night", by="ada"), "window night is over"),
    "prod-only on": (SetProdOnly(on=True, by="ada"), "prod only is off"),  # the false daemon does nothing
    "prod-only off": (SetProdOnly(on=False, by="ada"), "prod only is off"),
}


@pytest.mark.parametrize(("line", "expected"), ASKED.items(), ids=ASKED.keys())
async def test_asking(api: Served, home: Path, line: str, expected: tuple[Command, str]) -> None:
    result = await headway(home, *line.split())
    assert result.exit_code == 0, result.stderr
    assert api.inbox.given == [expected[0]]
    assert expected[1] in result.stdout


def opened(api: Served, *ids: str) -> None:
    windows = tuple(
        Window(id=one, kind="no_model", begin_s=0.0, end_s=90_000.0, services=("chat",)) for one in ids
    )
    s = snapshot(8, windows=windows, prod_only_by="ada")
    api.hub.publish(replace(s, now_s=1000.0), {}, frozenset())


async def test_status_says_what_is_open_and_that_only_models_run(api: Served, home: Path) -> None:
    opened(api, "night")
    shown = (await headway(home, "status")).stdout
    assert "window night (no_model) for chat" in shown and "prod only is on, set by ada" in shown
    assert "night" in (await headway(home, "window", "ls")).stdout
    assert json.loads((await headway(home, "prod-only", "--json")).stdout) == {"prod_only_by": "ada"}
    assert json.loads((await headway(home, "window", "ls", "--json")).stdout)[0]["state"] == "open"


async def test_stop_without_a_name_ends_the_one_that_is_open_and_asks_which_of_two(
    api: Served, home: Path
) -> None:
    assert (await headway(home, "window", "stop")).exit_code == 2
    opened(api, "w1", "w2")
    assert (await headway(home, "window", "stop")).exit_code == 2
    opened(api, "w1")
    assert (await headway(home, "window", "stop")).exit_code == 0
    assert api.inbox.given == [StopWindow(target="w1", by="ada")]


WRONG = ("window start no_model", "window start no_model --for 2", "window start no_model --for 0s", "window start x --for 1h",
         "prod-only maybe")  # fmt: skip


@pytest.mark.parametrize("line", WRONG)
async def test_what_is_wrong_is_a_usage_error_and_asks_nothing(api: Served, home: Path, line: str) -> None:
    result = await headway(home, *line.split())
    assert result.exit_code == 2 and not api.inbox.given
