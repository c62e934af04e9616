"""Plays one seed: an hour of faults, a time to heal, and the checks at its end."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from headway.sim.faults import chosen
from headway.sim.loop import Stuck
from headway.sim.scenario import Scenario
from headway.sim.world import World

BUSY_S = 3000.0
REST_S = 600.0  # at least, after the faults
LAST_S = 7200.0  # what takes longer than that to come to an end never does
LOOK_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one seed. `digest` is over its whole trace."""

    seed: int
    digest: str
    violations: tuple[str, ...]
    last: tuple[str, ...]
    seen: Counter[str] = field(default_factory=Counter)
    virtual_s: float = 0.0
    took_s: float = 0.0


def play(
    seed: int,
    faults: str | None = None,
    busy_s: float = BUSY_S,
    board: Callable[[World], None] | None = None,
) -> Result:
    """Run one seed to its end.

    Args:
        faults: names separated by commas; None: all of them; "": none.
        board: shown the world now and then.

    Raises:
        ValueError: a fault that is not known.
    """
    began_s = time.perf_counter()
    scenario = Scenario(seed, chosen(faults), busy_s)
    world, loop = scenario.world, scenario.world.loop
    asyncio.set_event_loop(loop)
    start_s = loop.now_s
    try:
        loop.run_until_complete(_hour(scenario, board))
        if not world.violations:  # else what follows from it would only hide it
            world.checks.final()
    except Stuck as stuck:
        world.wrong(str(stuck))
    for sentence in loop.wrong:
        world.wrong(sentence)
    virtual_s, violations, digest = loop.now_s - start_s, tuple(world.violations), world.digest()
    loop.bury()
    asyncio.set_event_loop(None)
    outcomes = Counter({f"request {how}": n for how, n in world.clients.outcomes.items()})
    return Result(
        seed=seed,
        digest=digest,
        violations=violations,
        last=tuple(world.last),
        seen=world.seen + outcomes,
        virtual_s=virtual_s,
        took_s=time.perf_counter() - began_s,
    )


async def _hour(scenario: Scenario, board: Callable[[World], None] | None) -> None:
    world, loop = scenario.world, scenario.world.loop
    while loop.now_s < scenario.end_s and not world.violations:
        await asyncio.sleep(LOOK_S)
        if board is not None:
            board(world)
    world.heal()
    rest_s, last_s = loop.now_s + REST_S, loop.now_s + LAST_S
    while loop.now_s < last_s and not world.violations:
        await asyncio.sleep(LOOK_S)
        if board is not None:
            board(world)
        if loop.now_s >= rest_s and world.checks.drained():
            return
