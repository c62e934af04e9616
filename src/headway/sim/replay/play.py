"""Plays a trace against a policy: who waits, and what a job wins. Arrivals do not move when a request waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headway.core.forecast import Answer
from headway.core.worth import Costs
from headway.sim.replay.policies import Policy
from headway.sim.replay.trace import Request

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it. `waits_s` is in the order of the requests."""

    waits_s: Sequence[float]
    lasted_s: float
    won_s: float
    lost_s: float  # job time that was done and not kept
    asleep_s: float  # from the first second of sleep to the request that ends it
    swaps: int
    useless_swaps: int  # no job time was kept
    decide_ms_mean: float | None

    def figures(self) -> dict[str, Any]:
        """As `headway replay --json` shows them."""
        ordered = sorted(self.waits_s)
        n, ran_s = len(ordered), self.won_s + self.lost_s
        return {
            "requests": n,
            "hours": self.lasted_s / HOUR_S,
            "gpu_share": self.won_s / self.lasted_s if self.lasted_s else 0.0,
            "asleep_share": self.asleep_s / self.lasted_s if self.lasted_s else 0.0,
            "mean_wait_s": sum(ordered) / n,
            "p95_wait_s": _of_percent(ordered, 95),
            "p99_wait_s": _of_percent(ordered, 99),
            "waited_share": sum(one > 0 for one in ordered) / n,
            "swaps": self.swaps,
            "useless_swaps": self.useless_swaps,
            "lost_share": self.lost_s / ran_s if ran_s else 0.0,
            "decide_ms_mean": self.decide_ms_mean,
        }


def _of_percent(ordered: Sequence[float], percent: int) -> float:
    """The least value that so many percent of them do not exceed.

    >>> _of_percent([0.0, 4.5], 95)
    4.5
    """
    return ordered[-(-len(ordered) * percent // 100) - 1]


def play(requests: Sequence[Request], policy: Policy, costs: Costs) -> Outcome:
    """The whole trace, from its first arrival to the end of its last answer. `requests` are sorted and not empty."""
    busy_until_s = requests[0].arrived_s
    awake_at_s = busy_until_s
    waits: list[float] = []
    won_s = lost_s = asleep_s = follower_s = 0.0
    swaps = useless = 0
    for one in requests:
        first = False
        if one.arrived_s > busy_until_s:
            gap_s = one.arrived_s - busy_until_s
            after_s = policy.sleeps_after_s(busy_until_s, gap_s)
            if after_s is not None and after_s < gap_s:
                if swaps:
                    policy.woken(follower_s)
                into_s = gap_s - after_s
                kept_s, gone_s = costs.won_s(into_s)
                won_s, lost_s = won_s + kept_s, lost_s + gone_s
                asleep_s += into_s
                swaps, useless = swaps + 1, useless + (kept_s <= 0)
                awake_at_s = one.arrived_s + costs.wait_s(into_s)
                first, follower_s = True, 0.0
        wait_s = max(0.0, awake_at_s - one.arrived_s)
        if not first:
            follower_s += wait_s
        waits.append(wait_s)
        ended_s = one.arrived_s + wait_s + one.service_s
        answer = Answer(
            arrived_s=one.arrived_s,
            ended_s=ended_s,
            conversation=one.conversation,
            finish=one.finish,
            tokens=one.tokens,
        )
        policy.answered(answer, wait_s)
        busy_until_s = max(busy_until_s, ended_s)
    decisions = getattr(policy, "decisions", 0)
    return Outcome(
        waits_s=waits,
        lasted_s=busy_until_s - requests[0].arrived_s,
        won_s=won_s,
        lost_s=lost_s,
        asleep_s=asleep_s,
        swaps=swaps,
        useless_swaps=useless,
        decide_ms_mean=getattr(policy, "decided_s", 0.0) / decisions * 1000 if decisions else None,
    )
