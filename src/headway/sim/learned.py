"""Is what the daemon learned, over all its lives, what the whole request log says?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headway.config.pauses import shipped
from headway.core.history import Histories, History
from headway.sim.runs import BOOT

if TYPE_CHECKING:
    from headway.sim.world import World

NEAR = 1e-3  # of a chance: what is saved is rounded


def differs(world: World) -> Iterator[str]:
    """What is not, in sentences."""
    daemon = world.daemon.daemon if world.daemon is not None else None
    if daemon is None:
        return
    found = daemon.learning.histories
    whole = Histories(shipped(), BOOT, 0.0, found.boots[BOOT])
    for data in world.disk.logs.values():
        for row in _rows(bytes(data)):
            whole.learn(row)
    for name, of_all in sorted(whole.of.items()):
        learned = found.of.get(name, History(shipped()))
        for what in ("lines", "heard_s"):
            if (one := getattr(learned, what)) != (other := getattr(of_all, what)):
                yield f"{what} of {name}: {one} learned, {other} in the log"
        for what in ("ledger", "apart"):
            if (one := getattr(learned, what).total()) != (other := getattr(of_all, what).total()):
                yield f"{what} of {name}: {one} learned, {other} in the log"
        if (
            len(world.disk.logs) == 1 and (far := _far(learned, of_all)) > NEAR
        ):  # else their order is not known
            yield f"the forecast of {name} is {far:g} from that of the log"


def _rows(log: bytes) -> Iterator[dict[str, Any]]:
    for line in log.rpartition(b"\n")[0].split(b"\n"):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def _far(one: History, other: History) -> float:
    at_s = one.heard_s or 0.0
    pairs = zip(one.forecast.quiet(at_s).shares, other.forecast.quiet(at_s).shares, strict=True)
    return max(abs(a - b) for a, b in pairs)
