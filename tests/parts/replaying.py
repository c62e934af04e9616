"""A replay of a daemon's own log, beside what that daemon said of each sleep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from headway.config.pauses import shipped
from headway.core.history import Histories
from headway.core.ledger import Knobs, price
from headway.core.worth import Costs, best_moment


class Remembering:
    """The policy of a replay, with the moments at which it put the model aside."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.moments = inner, list[float]()
        self.name, self.knobs = inner.name, inner.knobs

    def sleeps_after_s(self, quiet_from_s: float, gap_s: float) -> float | None:
        after_s: float | None = self.inner.sleeps_after_s(quiet_from_s, gap_s)
        if after_s is not None and after_s < gap_s:
            self.moments.append(quiet_from_s + after_s)
        return after_s

    def answered(self, answer: Any, waited_s: float) -> None:
        self.inner.answered(answer, waited_s)

    def woken(self, follower_s: float) -> None:
        self.inner.woken(follower_s)


def alike(told_s: float, facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], knobs: Knobs) -> bool:
    """Does what the log had told by then, with the costs as the daemon had measured them, say "now"?"""
    at_s = told_s - facts["seen_s"]
    found = Histories(shipped(), rows[0]["boot"], 0.0, 0.0)
    for row in rows:
        if row["at_s"] + row["took_s"] <= at_s:
            found.learn({**row, "wall_s": row["at_s"]})
    chat = found.of["chat"]
    cost = price(knobs, chat.ledger, at_s)
    moment = best_moment(chat.forecast.quiet(at_s), Costs(**facts["costs"]), cost, chat.ledger.follower_s)
    return moment.now and moment.gain_s == pytest.approx(facts["gain_s"], rel=0.01)
