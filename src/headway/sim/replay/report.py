"""The whole answer of `headway replay`: each policy, the same with other costs or knobs, and the frontier."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from headway.config.pauses import shipped
from headway.core.ledger import Knobs
from headway.core.worth import Costs
from headway.errors import LogUnreadable
from headway.sim.replay.frontier import geometric
from headway.sim.replay.play import Outcome, play
from headway.sim.replay.policies import Clairvoyant, Fixed, Policy, WhoComesBack
from headway.sim.replay.trace import Trace
from headway.sim.replay.values import COSTS, GAP_MIN, KNOBS, number, seconds

CLAIRVOYANT_S: Final = (8.0, 14400.0)  # thresholds of its frontier
SWEEP_FACTOR: Final = 2**0.5
LEAST_SAVED_S: Final = 0.001  # shorter ones keep everything


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Costs and knobs that belong together."""

    costs: Costs = field(default_factory=Costs)
    knobs: Knobs = field(default_factory=Knobs)
    gap_min_s: float = 0.0  # a least quiet, whatever a gap is worth

    def having(self, word: str, value: float | str) -> Setting:
        """With another cost or knob.

        Raises:
            ValueError: no cost and no knob is called that, or the value makes no sense for it.
        """
        found = number(word, value)
        if word == GAP_MIN:
            return replace(self, gap_min_s=found)
        if word in KNOBS:
            return replace(self, knobs=replace(self.knobs, **{KNOBS[word]: found}))
        changed: dict[str, Any] = {COSTS[word]: found} if word in COSTS else {word: found == 1}
        return replace(self, costs=replace(self.costs, **changed))

    def saving(self, every: float | str) -> Setting:
        """With a job that keeps only whole intervals of so many seconds; ValueError where that is no length of time."""
        every_s = seconds("a saved interval", every)
        if every_s < LEAST_SAVED_S:
            raise ValueError(f"a saved interval: must be at least 1 ms, not {every}")
        return replace(self, costs=replace(self.costs, saved_every_s=every_s))


def ours(setting: Setting, name: str = "headway", *, capped: bool = True) -> WhoComesBack:
    """The daemon's own policy, as a new daemon begins it."""
    return WhoComesBack(
        shipped(), setting.costs, setting.knobs, name=name, capped=capped, gap_min_s=setting.gap_min_s
    )


def compared(word: str, costs: Costs) -> Policy:
    """`fixed:SECONDS`, `never`, `clairvoyant` or `clairvoyant:SECONDS`.

    Raises:
        ValueError: it is none of them, or the seconds are no length of time.
    """
    name, colon, after = word.partition(":")
    if name == "never" and not colon:
        return Fixed(None)
    if name == "fixed" and colon:
        return Fixed(seconds(word, after))
    if name == "clairvoyant":
        return Clairvoyant(seconds(word, after) if colon else costs.swap_s() + costs.park_s + costs.wake_s)
    raise ValueError(f"{word!r} is no policy; there are fixed:SECONDS, never, clairvoyant")


def replayed(
    trace: Trace,
    setting: Setting,
    compare: Sequence[str],
    what_if: Sequence[tuple[str, Setting]] = (),
    sweep: tuple[str, float, float] | None = None,
    told: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """The document that `headway replay --json` prints.

    Args:
        what_if: further settings of our own policy, each with the words it was asked for.
        sweep: a knob of ours, its least and its greatest value.
        told: hears which policy is played next.

    Raises:
        LogUnreadable: the trace has no length: one request at one instant.
    """
    fixed: list[list[float]] = []
    rows: list[dict[str, Any]] = []
    runs: list[tuple[Policy, Costs]] = [(ours(setting), setting.costs)]
    runs += [(ours(other, f"headway {words}"), other.costs) for words, other in what_if]
    runs += [(compared(word, setting.costs), setting.costs) for word in compare]
    outcome: Outcome | None = None
    for policy, costs in runs:
        if told is not None:
            told(policy.name)
        outcome = play(trace.requests, policy, costs)
        figures = outcome.figures()
        rows.append({"name": policy.name, "knobs": dict(policy.knobs), **figures})
        if "after_s" in policy.knobs:
            fixed.append([figures["mean_wait_s"], figures["gpu_share"], policy.knobs["after_s"]])
    assert outcome is not None
    if outcome.lasted_s <= 0:
        raise LogUnreadable(f"{trace.name} has no length: all of its requests came at one instant.")
    frontier: dict[str, list[list[float]]] = {}
    if sweep is not None:
        word, low, high = sweep
        knobs = geometric(low, high, SWEEP_FACTOR)
        settings = ((knob, setting.having(word, knob)) for knob in knobs)
        frontier = {
            "headway": list(
                _points(
                    trace, ((k, ours(s, capped=word != "wait_price"), s.costs) for k, s in settings), told
                )
            ),
            "fixed": sorted(fixed),
            "clairvoyant": list(_points(trace, _clairvoyants(setting.costs), told)),
        }
    return {
        "trace": trace.name,
        "requests": len(trace.requests),
        "hours": rows[0]["hours"],
        "policies": rows,
        "frontier": frontier,
    }


def _clairvoyants(costs: Costs) -> Iterator[tuple[float, Policy, Costs]]:
    for longer_s in geometric(*CLAIRVOYANT_S, SWEEP_FACTOR):
        yield longer_s, Clairvoyant(longer_s), costs


def _points(
    trace: Trace,
    runs: Iterator[tuple[float, Policy, Costs]],
    told: Callable[[str], None] | None,
) -> Iterator[list[float]]:
    for knob, policy, costs in runs:
        if told is not None:
            told(f"{policy.name} {knob:g}")
        figures = play(trace.requests, policy, costs).figures()
        yield [figures["mean_wait_s"], figures["gpu_share"], knob]
