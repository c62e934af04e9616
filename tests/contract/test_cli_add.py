"""What is said of a job of one's own: how it steps aside, where it may have to; and its command, as it can be typed."""

import shlex
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headway.cli.add import ASIDE
from headway.config.adhoc import adhoc
from headway.core.commands import Reply
from headway.core.decide import never_fits
from headway.core.model import Device, Holder, Job, Rank, Service, Want
from headway.drivers.registry import DRIVERS
from tests.core.make import gib
from tests.parts.command_line import headway
from tests.parts.false_api import Served, serving, snapshot

pytestmark = pytest.mark.contract

MOVES = {name: driver.moves for name, driver in DRIVERS.items()}
SIM, OTHER = (
    Device(
        id=f"local/sim{n}", name=f"sim{n}", index=n, total_bytes=gib(24), free_bytes=gib(24), read_at_s=9.0
    )
    for n in (0, 1)
)
DEVICES = {SIM.id: SIM, OTHER.id: OTHER}


@pytest.fixture
async def real(home: Path) -> AsyncIterator[Served]:
    """An API that makes jobs as the daemon does, with two devices; a model may come to the first."""
    (home / "run").mkdir()
    async with serving(home / "run", make_job=lambda fields: adhoc(fields, MOVES)) as served:
        served.hub.publish(snapshot(8, devices=DEVICES, holders=holders()), {}, frozenset())
        yield served


def holders(**spec: Any) -> Mapping[str, Holder]:
    """As the false daemon has them, the model at home on the first device."""
    chat = snapshot().holders["chat"]
    assert isinstance(chat, Service)
    return {
        **snapshot().holders,
        "chat": replace(chat, spec=replace(chat.spec, pinned_devices=("sim0",), **spec)),
    }


WAYS = {
    # name: (options, what is said of its way)
    "where a model may come": ("--gpu 1GiB", "none"),
    "where a model may come, and it says how": ("--gpu 1GiB --resumable", "restart"),
    "without a device": ("--gpus 0", None),
    "without a device, and it says how": ("--gpus 0 --resumable", None),
    "on a device of no model": ("--gpu 1GiB --device sim1", None),
    "larger than any device": ("--gpu 100GiB", None),
    "on a device that is not there": ("--device gpu7", None),
}


@pytest.mark.parametrize(("options", "way"), WAYS.values(), ids=WAYS.keys())
async def test_how_it_steps_aside_is_said_where_it_may_have_to(
    real: Served, home: Path, options: str, way: str | None
) -> None:
    result = await headway(home, "add", "-n", *options.split(), "--", "sh", "x")
    assert result.exit_code == 0, result.output
    said = [one for one, words in ASIDE.items() if words.format(id="ID") in result.stdout]
    assert said == ([] if way is None else [way])


@pytest.mark.parametrize("services", [(), ("chat",)], ids=["no service", "one without a gate"])
async def test_where_no_model_asks_for_a_device_nothing_is_said_of_it(
    real: Served, home: Path, services: tuple[str, ...]
) -> None:
    quiet = snapshot(9, devices=DEVICES, services=services, holders=holders(gated=False))
    real.hub.publish(quiet, {}, frozenset())
    result = await headway(home, "add", "-n", "--gpu", "1GiB", "--", "sh", "x")
    assert result.exit_code == 0
    assert not [words for words in ASIDE.values() if words.format(id="ID") in result.stdout]


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("larger", [True, False])
async def test_one_that_can_never_start_is_told_how_to_leave_the_queue(
    real: Served, home: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool, larger: bool
) -> None:
    j3 = snapshot().holders["j3"]
    assert isinstance(j3, Job)
    j3 = replace(j3, forms=(replace(j3.forms[0], declared_bytes=gib(100 if larger else 1)), *j3.forms[1:]))
    state = snapshot(9, devices=DEVICES, holders={**holders(), "j3": j3})
    no = never_fits(Want(holder=j3, form=j3.top, rank=(Rank.JOB, j3.key, j3.id)), state)
    real.hub.publish(state, {"j3": no} if no else {}, frozenset({"j3"}))
    real.inbox.reply = Reply(accepted=True, code="accepted", facts={}, holder="j3")
    monkeypatch.setattr(
        "headway.cli.add.sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: terminal))
    )
    result = await headway(home, "add", "--", "sh", "x")
    assert result.exit_code == 0, result.output
    assert ("headway cancel j3" in result.stderr) is larger
    assert any(words.format(id="j3") in result.stdout for words in ASIDE.values()) is (
        terminal and not larger
    )


async def test_a_command_is_shown_as_a_shell_takes_it(real: Served, home: Path) -> None:
    j2 = snapshot().holders["j2"]
    assert isinstance(j2, Job)
    argv = ("sh", "-c", "for x in 'a b'; do echo \"$x\"; done", "", "*")
    j2 = replace(j2, spec=replace(j2.spec, argv=argv))
    real.hub.publish(snapshot(9, holders={**holders(), "j2": j2}), {}, frozenset({"j2"}))
    result = await headway(home, "show", "j2")
    (shown,) = [one for one in result.stdout.splitlines() if one.startswith("command ")]
    assert tuple(shlex.split(shown.removeprefix("command"))) == argv


@pytest.mark.parametrize("verb", ["add", "run"])
async def test_a_command_without_its_dashes_is_repeated_as_a_shell_takes_it(
    real: Served, home: Path, verb: str
) -> None:
    words = ["sh", "x y", "$HOME"]
    result = await headway(home, verb, *words)
    (told,) = [one for one in result.stderr.splitlines() if "`--`" in one]
    assert result.exit_code == 2 and shlex.split(told.split(" -- ")[1]) == words
