"""`headway service wake|sleep|start|stop -w`: until it is so, or will not be."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.core.model import Gate, Verdict
from tests.parts.command_line import api as api
from tests.parts.command_line import headway
from tests.parts.false_api import Served, snapshot

pytestmark = pytest.mark.contract

AWAKE: dict[str, Any] = {"form": "awake", "gate": Gate(wish="open", rev=1)}
CALLED: dict[str, Any] = {"called_by": "ada", "called_s": 1.0}
HOPELESS = Verdict(code="never_fits", facts={})
WAITED: dict[str, tuple[str, dict[str, Any], Verdict | None, int]] = {
    # name: (line, what is known of the service, its verdict, exit status)
    "it is there": ("wake chat -w", AWAKE, None, 0),
    "it was called and did not come": ("wake chat -w", {}, None, 1),
    "it comes too late": ("start chat -w --timeout 0.1", CALLED, None, 124),
    "it can never come": ("wake chat -w", CALLED, HOPELESS, 1),
    "it is aside": ("sleep chat -w", {"dismissed_by": "ada", "dismissed_s": 1.0}, None, 0),
    "it answers for too long": (
        "sleep chat -w --timeout 0.1",
        {**AWAKE, "dismissed_by": "ada", "dismissed_s": 1.0},
        None,
        124,
    ),
    "somebody wants it since": ("sleep chat -w", AWAKE, None, 1),
    "it is stopped": ("stop chat -w", {"wish": "hold"}, None, 0),
    "somebody released it": ("stop chat -w", AWAKE, None, 1),
    "nobody says what for": ("stop chat --timeout 3", {}, None, 2),
}


@pytest.mark.parametrize("name", WAITED)
async def test_waiting_for_it(api: Served, home: Path, name: str) -> None:
    line, given, verdict, status = WAITED[name]
    holders = snapshot().holders
    known = {**holders, "chat": replace(holders["chat"], **given)}
    api.hub.publish(snapshot(8, holders=known), {"chat": verdict} if verdict else {}, frozenset({"chat"}))
    result = await headway(home, "service", *line.split())
    assert result.exit_code == status, result.output


async def test_one_that_is_not_known_changes_nothing_for_the_others(api: Served, home: Path) -> None:
    result = await headway(home, "service", "wake", "chat", "nobody")
    assert (result.exit_code, api.inbox.given) == (1, [])
