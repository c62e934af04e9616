"""What the command line does while the daemon cannot save."""

import asyncio
from pathlib import Path

import pytest

from headway.cli.ask import Session
from headway.cli.place import Place
from headway.client import Answered
from headway.core.commands import Reply
from tests.parts.command_line import api as api
from tests.parts.command_line import headway
from tests.parts.false_api import Served

pytestmark = pytest.mark.contract

SILENT = Reply(accepted=False, code="store_silent", facts={})
FULL = Reply(accepted=False, code="line_full", facts={"limit": 1})


async def asked(home: Path, wait: float | str) -> str:
    """How the ask for a place ends, that gets none."""
    body = {"name": "guest", "wait_s": wait, "ask_key": "k" * 32}
    place = Place(Session(home), Session(home).client(), body, require=False, quiet=True)
    with pytest.raises(Answered) as error:
        await asyncio.to_thread(place.wait)
    return error.value.code


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.client.SAVES_LIMIT_S", 0.0)
    monkeypatch.setattr("headway.cli.place.LOOK_S", 0.01)


@pytest.mark.parametrize("wait", ["forever", 600.0])
async def test_it_is_asked_for_until_it_can_be_saved(api: Served, home: Path, wait: float | str) -> None:
    api.inbox.reply = SILENT
    asking = asyncio.create_task(asked(home, wait))
    while len(api.inbox.given) < 3:
        await asyncio.sleep(0.001)
    api.inbox.reply = FULL
    assert await asking == "line_full"


async def test_who_waits_for_nothing_is_told_so(api: Served, home: Path) -> None:
    api.inbox.reply = SILENT
    assert (await asked(home, 0.0), len(api.inbox.given)) == ("store_silent", 1)


@pytest.mark.parametrize("line", ["hold j1", "add train", "mode live"])
async def test_a_disk_that_stutters_fails_no_verb(
    api: Served, home: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr("headway.client.SAVES_LIMIT_S", 60.0)
    works, api.inbox.reply = api.inbox.reply, SILENT
    asking = asyncio.create_task(headway(home, *line.split()))
    while not api.inbox.given:
        await asyncio.sleep(0.001)
    api.inbox.reply = works
    result = await asking
    assert (result.exit_code, len(api.inbox.given)) == (0, 2), result.output
