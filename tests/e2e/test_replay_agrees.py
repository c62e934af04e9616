"""A log that was written by a running Headway, played again: it sleeps when that one slept, or its costs explain it."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from headway.core.ledger import Knobs
from headway.core.worth import Costs
from headway.sim.replay.play import play
from headway.sim.replay.report import Setting, ours
from headway.sim.replay.trace import read
from tests.e2e.loads import chat, up
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, render, tiny
from tests.parts.replaying import Remembering, alike

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]
SLEEPS = 20
LATE_S = 1.5  # a model that is just up stays a moment; a log that is read; a job that has to be queued again
KNOBS = Knobs(wait_price=0.5, max_mean_wait_s=86400.0, max_waiting_share=1.0)


def more_than(known: int, headway: Stack) -> Callable[[], bool]:
    return lambda: len(headway.events("gap.taken")) > known


def talk(headway: Stack) -> list[dict[str, Any]]:
    """Requests, some of them at once after the last answer and most after a sleep, until there were enough sleeps."""
    chance, taken = random.Random(20), list[dict[str, Any]]()
    while len(taken) < SLEEPS:
        assert chat(headway, "chat").status == 200
        if chance.random() < 0.7:
            headway.wait(more_than(len(taken), headway), "a gap that is taken")
        taken = headway.events("gap.taken")
    return taken


def test_a_replay_of_its_log_sleeps_when_it_slept(stack: Up) -> None:
    table = config(tiny("chat"), render(), gap_min=0, wait_price=KNOBS.wait_price, min_residency=0.2)
    headway = up(stack, table)
    headway.wait_job("render", "running")
    taken = talk(headway)
    folder = headway.home / "requests"
    rows = [json.loads(line) for file in folder.iterdir() for line in file.read_text().splitlines()]
    first_s, ahead_s = min((row["at_s"], row["wall_s"] - row["at_s"]) for row in rows)
    slept = [(one["wall_s"] - ahead_s, one["facts"]) for one in taken]
    settled = Costs(**taken[-1]["facts"]["costs"])
    told = Remembering(ours(Setting(costs=settled, knobs=KNOBS)))
    play(read(folder).requests, told, settled)
    moments = [first_s + at_s for at_s in told.moments]
    late = [one for one in slept if min(abs(one[0] - at_s) for at_s in moments) > LATE_S]
    assert [one for one in late if not alike(*one, rows, KNOBS)] == []
    began_s = [at_s for at_s, _ in slept] + [
        row["at_s"] for row in rows
    ]  # or it was asked before it could sleep
    assert [at_s for at_s in moments if min(abs(at_s - other_s) for other_s in began_s) > LATE_S] == []
