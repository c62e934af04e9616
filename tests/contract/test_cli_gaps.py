"""What `headway service show` says of gaps."""

from dataclasses import replace
from pathlib import Path

import pytest

from headway.core.engines import Engine, EngineRead
from headway.core.ledger import Waits
from headway.core.model import Service
from tests.core.make import outlook
from tests.parts.command_line import api as api
from tests.parts.command_line import headway
from tests.parts.false_api import Served, snapshot

pytestmark = pytest.mark.contract


async def test_of_a_service_the_gap_policy_is_shown(api: Served, home: Path) -> None:
    """While it is idle: what is expected, the caps, and who waited."""
    s = snapshot(8)
    chat = s.holders["chat"]
    assert isinstance(chat, Service)
    chat = replace(chat, form="awake", active=0)
    waits = (Waits(requests=41.0, waited=3.0, waited_s=9.0), Waits(), Waits())
    expected = outlook(waits=waits, at_s=s.now_s)
    shown = replace(s, holders={**s.holders, "chat": chat}, outlooks={"chat": expected})
    api.hub.publish(shown, {}, frozenset())
    for line in ("service show chat", "show chat"):
        result = await headway(home, *line.split())
        assert result.exit_code == 0, result.stderr
        for piece in ("gaps: ", "quiet for", "15% of the requests", "41", "7.3%", "0.22 s", "slow_wake"):
            assert piece in result.stdout


async def test_of_a_service_its_figures_are_shown_in_words(api: Served, home: Path) -> None:
    """What its moves took, what its server says of itself, and what was waited; nothing of what is not known."""
    s = snapshot(8)
    chat = s.holders["chat"]
    assert isinstance(chat, Service)
    engine = Engine(read=EngineRead(cache_share=0.25), read_s=990.0, tokens_per_s=41.5)
    forms = (chat.forms[0], replace(chat.forms[1], leave_s=3.5))
    awake = replace(chat, form="awake", active=0, engine=engine, forms=forms)
    waits = (Waits(), Waits(requests=41.0, waited=3.0, waited_s=9.0), Waits())
    expected = outlook(waits=waits, at_s=s.now_s)
    shown = replace(s, holders={**s.holders, "chat": awake}, outlooks={"chat": expected})
    api.hub.publish(shown, {}, frozenset())
    result = await headway(home, "service", "show", "chat")
    assert result.exit_code == 0, result.stderr
    for piece in ("41.5 tokens/s", "KV cache 25% used", "stopped takes", "3.5 s back", "7.3% of 41 requests"):
        assert piece in result.stdout
    for piece in ("first token", "prefix", "down"):
        assert piece not in result.stdout
    assert {"engine", "times", "budget"} <= (await api.get("/api/v1/services/chat")).keys()
