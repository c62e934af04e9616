"""Plays one seed: an hour of faults, a time to heal, and the checks at its end."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from headway.core import view
from headway.sim.faults import Fault, chosen
from headway.sim.loop import Stuck
from headway.sim.scenario import Scenario
from headway.sim.world import TRACE_LINES, World

BUSY_S = 3000.0
REST_S = 600.0  # at least, after the faults
LAST_S = 7200.0  # what takes longer than that to come to an end never does
LOOK_S = 30.0
LOOKS = 4  # at each of so many, somebody reads the whole board


class Stage(Protocol):
    """A world, and what keeps it busy until `end_s`."""

    world: World
    end_s: float


Staged = Callable[[int, Mapping[str, Fault], float], Stage]  # (seed, faults, busy_s)


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

    def to_doc(self) -> dict[str, Any]:
        """For JSON."""
        return {one.name: getattr(self, one.name) for one in fields(self)} | {"seen": dict(self.seen)}

    @classmethod
    def from_doc(cls, doc: Mapping[str, Any]) -> Result:
        """The inverse of `to_doc`, JSON in between or not."""
        made = {**doc, "violations": tuple(doc["violations"]), "last": tuple(doc["last"])}
        return cls(**{**made, "seen": Counter(doc["seen"])})


def play(
    seed: int,
    faults: str | None = None,
    busy_s: float = BUSY_S,
    *,
    staged: Staged = Scenario,
    board: Callable[[World], None] | None = None,
    told: Callable[[str], None] | None = None,
) -> Result:
    """Run one seed to its end.

    Args:
        faults: names separated by commas; None: all of them; "": none.
        staged: makes the world; without, the seed decides what there is.
        board: shown the world every `LOOK_S` virtual seconds.
        told: hears each line of the trace.

    Raises:
        ValueError: a fault that is not known.
    """
    began_s = time.perf_counter()
    stage = staged(seed, chosen(faults), busy_s)
    world, loop = stage.world, stage.world.loop
    if told is not None:
        world.last = _Heard(world.last, told)
    asyncio.set_event_loop(loop)
    start_s = loop.now_s
    try:
        loop.run_until_complete(_hour(stage, board))
        if not world.violations:  # else what follows from it would only hide it
            world.endings.final()
            _read(world, everything=True)
    except Stuck as stuck:
        world.wrong(str(stuck))
    finally:
        virtual_s, wrong = loop.now_s - start_s, list(loop.wrong)
        world.over = True
        loop.bury()
        asyncio.set_event_loop(None)
    for sentence in wrong:
        world.wrong(sentence)
    outcomes = Counter({f"request {how}": n for how, n in world.clients.outcomes.items()})
    return Result(
        seed=seed,
        digest=world.digest(),
        violations=tuple(world.violations),
        last=tuple(world.last),
        seen=world.seen + outcomes,
        virtual_s=virtual_s,
        took_s=time.perf_counter() - began_s,
    )


async def _hour(stage: Stage, board: Callable[[World], None] | None) -> None:
    world, loop, looks = stage.world, stage.world.loop, 0

    async def look() -> None:
        nonlocal looks
        await asyncio.sleep(LOOK_S)
        looks += 1
        if not looks % LOOKS:
            _read(world, everything=False)
        if board is not None:
            board(world)

    while loop.now_s < stage.end_s and not world.violations:
        await look()
    world.heal()
    rest_s, last_s = loop.now_s + REST_S, loop.now_s + LAST_S
    while loop.now_s < last_s and not world.violations:
        await look()
        if loop.now_s >= rest_s and world.endings.drained():
            return


def _read(world: World, everything: bool) -> None:
    """Somebody reads the board: whatever is going on, each row has its reason in words.

    Args:
        everything: what is over as well.
    """
    s, verdicts = world.snapshot(), world.verdicts()
    if s is None:
        return
    try:
        board = view.overview(s, verdicts)
        shown = {row.id for row in (*board.services, *board.leases, *board.running, *board.queued)}
        for hid in sorted(s.holders if everything else shown):
            world.seen[f"why {view.explain(hid, s, verdicts).code}"] += 1
    except Exception as error:
        world.wrong(f"the board cannot be shown: {error!r}")


class _Heard(deque[str]):
    """The last lines of a trace, each said aloud as it comes."""

    def __init__(self, lines: deque[str], told: Callable[[str], None]) -> None:
        super().__init__(lines, maxlen=TRACE_LINES)
        self._told = told
        for line in lines:
            told(line)

    def append(self, line: str) -> None:
        super().append(line)
        self._told(line)
