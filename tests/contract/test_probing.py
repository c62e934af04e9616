"""How often a server is looked at: often only while somebody waits for what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, cast

import pytest

from headway.core import engines
from headway.core.engines import EngineRead
from headway.core.facts import Observed
from headway.core.model import Gate, Holder, Service
from headway.daemon.observe import Watcher
from headway.ports import Driver, Runs, Seen
from tests.core.make import T0_S, Scene, moving, service_spec
from tests.parts.fake_store import FakeClock

pytestmark = pytest.mark.contract

CLOSED = Gate(wish="closed", closed=True, rev=2)
SPEC = service_spec(asleep=1, reads_busy=True)
FOR_S = 10.0
SLOW, FAST = 10, 200


def model(form: str | None = "awake", **given: Any) -> Scene:
    return Scene(24).service(given.pop("spec", SPEC), form, **given)


def on_the_move(source: str, to: str, **given: Any) -> Scene:
    scene = model(source, gate=CLOSED)
    return scene.put(scene.s.holders["chat"], moving("chat", source, to, **given))


OFTEN = {
    # name: (scene, looks in ten seconds)
    "it answers": (model(), SLOW),
    "it sleeps": (model("asleep"), SLOW),
    "it's down": (model("stopped"), SLOW),
    "nothing is known of it": (model(None), FAST),
    "its gate closed, and its engine must read idle": (model(gate=CLOSED), FAST),
    "its gate closed, and its engine cannot be read": (
        model(gate=CLOSED, spec=service_spec(asleep=1)),
        SLOW,
    ),
    "it goes to sleep": (on_the_move("awake", "asleep"), SLOW),
    "it sleeps, and its memory is awaited": (
        on_the_move("awake", "asleep", step="answered", answered_s=T0_S),
        SLOW,
    ),
    "it is being stopped": (on_the_move("awake", "stopped"), SLOW),
    "it is being started": (on_the_move("stopped", "awake"), SLOW),
}


class Manual(FakeClock):
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.at_s = T0_S

    def now_s(self) -> float:
        return self.at_s


class Looked:
    """A driver that counts how often it is asked."""

    def __init__(self) -> None:
        self.times = 0

    async def observe(self, holder: Holder) -> Seen:
        self.times += 1
        assert isinstance(holder, Service)
        return Seen(form=holder.form, ready=holder.ready, engine_active=1, upstream=holder.upstream)


@pytest.mark.parametrize("name", OFTEN)
async def test_how_often_it_is_looked_at(name: str) -> None:
    scene, expected = OFTEN[name]
    clock, driver, tasks = Manual(), Looked(), set[asyncio.Task[Any]]()

    def spawn(_: str, work: Coroutine[Any, Any, Any]) -> None:
        tasks.add(asyncio.get_running_loop().create_task(work))

    watcher = Watcher(
        runs=cast(Runs, None),
        drivers={"process": cast(Driver, driver)},
        clock=clock,
        tell=lambda fact: None,
        snapshot=lambda: scene.s,
        spawn=spawn,
        read_now=lambda: None,
    )
    while clock.at_s < T0_S + FOR_S - 1e-6:
        clock.at_s += watcher.tick()
        await asyncio.gather(*tasks)
        tasks.clear()
    assert driver.times == pytest.approx(expected, rel=0.1)


async def test_figures_alone_are_told_now_and_then_and_are_no_reason_to_tell_the_rest() -> None:
    clock, facts, tasks = Manual(), list[Observed](), set[asyncio.Task[Any]]()
    scene = model(ready=True, engine_active=1)

    class Counting(Looked):
        async def observe(self, holder: Holder) -> Seen:
            seen = await super().observe(holder)
            return replace(seen, engine=EngineRead(tokens=float(self.times)))

    def tell(fact: Any) -> None:
        """As the loop folds it."""
        facts.append(fact)
        chat = scene.s.service("chat")
        assert chat is not None
        scene.put(replace(chat, engine=engines.told(chat.engine, fact.engine, fact.at_s)))

    watcher = Watcher(
        runs=cast(Runs, None),
        drivers={"process": cast(Driver, Counting())},
        clock=clock,
        tell=tell,
        snapshot=lambda: scene.s,
        spawn=lambda _, work: tasks.add(asyncio.get_running_loop().create_task(work)),
        read_now=lambda: None,
    )
    while clock.at_s < T0_S + 20.0 - 1e-6:
        clock.at_s += watcher.tick()
        await asyncio.gather(*tasks)
        tasks.clear()
    assert len(facts) == 4 and all(fact.form == "awake" for fact in facts), "every five seconds"
    chat = scene.s.service("chat")
    assert chat is not None and chat.engine is not None and chat.engine.tokens_per_s == 1.0
