"""What many seeds together must have seen, so that their silence means something."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import get_args

from headway import core
from headway.core.spec import LeaseEnd
from headway.core.words import ENDED
from headway.sim.daemons import TABLES
from headway.sim.faults import FAULTS

FAULT_TIMES = 20
SWAPS = 1000
KILLS = 100
SERVICES = ("sleeper", "process")  # drivers whose moves count as swaps

# What a name in `Verdict(code=...)` can be, where the source does not say it by itself.
VALUES: Mapping[str, tuple[str, ...]] = {
    "holder.wish": ("stop", "kill", "cancel"),
    "holder.ended": (*ENDED, *get_args(LeaseEnd)),
    "state": ("granted", "counted", "overdue"),
}
# What is told beside verdicts, and shows that something rare was played.
EVENTS = ("lease.would", "service.asked")
# Verdicts of the core that cannot come up in this world, each with its reason.
ELSEWHERE: Mapping[str, str] = {
    "behind": "a pass looks at 64 entries of a line, and no seed queues as many",
    "after_failed": "a job that follows one which did not end well is held in that very turn: `held` is what it says",
    "after_gone": "the same for one that follows a job which never ran",
}


def kinds() -> frozenset[str]:
    """Every kind of action, a move with its driver and its forms."""
    moves = {f"{driver}:{move.source}>{move.to}" for driver, table in TABLES.items() for move in table}
    return frozenset(moves | {"OpenGate", "CloseGate", "Measure", "Signal"})


@cache
def codes() -> frozenset[str]:
    """Every verdict code that the sources of the core can say."""
    found: set[str] = set()
    for path in sorted(Path(next(iter(core.__path__))).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Verdict":
                given = next((word.value for word in node.keywords if word.arg == "code"), None)
                found |= set(_texts(given)) if given is not None else set()
    return frozenset(found)


def _texts(expression: ast.expr) -> Iterator[str]:
    """What it can become: a constant, either branch, a sum of both sides, or a name whose values are known."""
    match expression:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*_texts(body), *_texts(orelse))
        case ast.BinOp(left=left, right=right):
            yield from (a + b for a in _texts(left) for b in _texts(right))
        case _:
            yield from VALUES[ast.unparse(expression)]


def swaps(seen: Mapping[str, int]) -> int:
    """Moves of services, up and down."""
    return sum(
        n for what, n in seen.items() if what.startswith(tuple(f"action {name}:" for name in SERVICES))
    )


def kills(seen: Mapping[str, int], seeds: int) -> int:
    """How often a daemon was started again after its first start in each of so many seeds."""
    return max(0, seen.get("event daemon.started", 0) - seeds)


def never(seen: Mapping[str, int]) -> dict[str, list[str]]:
    """What was not seen once: "faults", "actions", "verdicts", "events"."""
    said = {code for code in codes() if seen.get(f"verdict {code}") or seen.get(f"why {code}")}
    return {
        "faults": sorted(name for name in FAULTS if not seen.get(f"fault {name}")),
        "actions": sorted(kind for kind in kinds() if not seen.get(f"action {kind}")),
        "verdicts": sorted(codes() - said - ELSEWHERE.keys()),
        "events": sorted(code for code in EVENTS if not seen.get(f"event {code}")),
    }


def gaps(seen: Mapping[str, int], seeds: int) -> Iterator[str]:
    """What is missing from a campaign of so many seeds, in sentences; nothing when it saw all it must."""
    missing = never(seen)
    for what in ("actions", "verdicts", "events"):
        if missing[what]:
            yield f"{what} never seen: {', '.join(missing[what])}"
    times = {name: seen.get(f"fault {name}", 0) for name in sorted(FAULTS)}
    if rare := [f"{name} ({n})" for name, n in times.items() if n < FAULT_TIMES]:
        yield f"faults that came less than {FAULT_TIMES} times: {', '.join(rare)}"
    if (count := swaps(seen)) < SWAPS:
        yield f"{count} swaps, at least {SWAPS} are needed"
    if (count := kills(seen, seeds)) < KILLS:
        yield f"{count} kills of a daemon, at least {KILLS} are needed"
    for code in sorted(ELSEWHERE):
        if seen.get(f"verdict {code}") or seen.get(f"why {code}"):
            yield f"verdict {code} was seen, and is said not to come up here: {ELSEWHERE[code]}"
