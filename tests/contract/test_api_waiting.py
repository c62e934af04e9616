"""Requests that wait, as the API and the command line show them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headway.cli.main import cli
from headway.core import wire
from headway.core.model import Service, Waiting
from tests.parts.command_line import api as api
from tests.parts.false_api import Served, snapshot

pytestmark = pytest.mark.contract

MANY = 25


@pytest.fixture
async def held(api: Served) -> AsyncIterator[Served]:
    """Of `chat` 25 wait, and 12 are told of by its gates."""
    plain = snapshot(8)
    chat = plain.holders["chat"]
    assert isinstance(chat, Service)
    waits = replace(chat, demand={"attended": Waiting(n=MANY, since_s=900.0)})
    api.hub.publish(replace(plain, holders={**plain.holders, "chat": waits}), {}, frozenset())

    async def entries(service: str) -> tuple[wire.HeldEntry, ...]:
        assert service == "chat"
        return tuple(
            wire.HeldEntry(f"r{n}", "attended", "ada", 101.0 - n, n, "tiny", 60.0) for n in range(1, 13)
        )

    object.__setattr__(api.server.parts, "held", entries)
    yield api


async def test_the_first_are_listed_and_the_others_counted(held: Served) -> None:
    page = await held.get("/api/v1/waiting")
    assert [row["position"] for row in page["requests"]] == list(range(1, 13))
    assert page["more"] == MANY - 12
    first = page["requests"][0]
    assert (first["id"], first["service"], first["model"], first["client"]) == ("r1", "chat", "tiny", "ada")
    assert (first["waited_s"], first["at_most_s"], first["likely_s"]) == (100.0, 60.0, None)
    assert first["why"]
    assert (await held.get("/api/v1/waiting", service="chat")) == page
    answer = await held.raw("GET", "/api/v1/waiting?service=nobody")
    assert answer[0] == 404


@pytest.mark.parametrize("words", [["status"], ["top", "-n", "1"]], ids=["status", "top"])
async def test_status_and_top_show_who_waits(held: Served, home: Path, words: list[str]) -> None:
    run: Any = CliRunner(env={"NO_COLOR": "1"}).invoke
    result = await asyncio.to_thread(run, cli, ["--home", str(home), *words])
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[:4] for line in lines if line[:1] == ["r1"]] == [["r1", "chat", "tiny", "1"]]
    assert any(line[:3] == ["and", f"{MANY - 10}", "more"] for line in lines), "ten are shown"


async def test_a_board_on_which_nobody_waits_asks_no_gate(api: Served, home: Path) -> None:
    async def asked(service: str) -> tuple[wire.HeldEntry, ...]:
        raise AssertionError("asked")

    object.__setattr__(api.server.parts, "held", asked)
    run: Any = CliRunner().invoke
    result = await asyncio.to_thread(run, cli, ["--home", str(home), "status"])
    assert result.exit_code == 0 and "REQUEST" not in result.stdout
    assert (await api.get("/api/v1/waiting")) == {"requests": [], "more": 0}
