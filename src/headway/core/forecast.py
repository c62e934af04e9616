"""Who could come back? The chance that a service stays quiet, from the conversations that could still go on.

Pure: what it knows comes from `learn`, in any order and from any clock that does not go back; the same answers give the
same curve. No request in flight is known here: ask only while there is none.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import neg
from typing import Any, Final

from headway.core.pauses import BINS, EDGES, GONE_S, Pauses, Table, kind_of

PACE_NEW: Final = 0.15  # what the newest pause counts in a conversation's pace
RECENT_S: Final = 600.0
NEW_SHARE: Final = 0.7  # of the conversations that began were begun by nobody who could have come back
NEW_AFTER_S: Final = 3600.0
NEW_HALF_LIFE: Final = 1000.0  # conversations
RECENT_MAX: Final = 64  # more than the largest bucket of activity asks for
LONG_QUIET_BIN: Final = bisect_right(EDGES, 60.0)  # from there on the nearest edge is near enough
LEAST: Final = 1e-300  # a curve that has fallen to nothing
_NOTHING: Final = [0.0] * len(EDGES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One request that is over. `conversation` None: unknown."""

    arrived_s: float
    ended_s: float
    conversation: str | None = None
    finish: int = 0  # 0 unknown, 1 tool call, 2 end of turn
    tokens: int = 0  # output tokens; 0 unknown


@dataclass(slots=True)
class Talk:
    """A conversation that could go on."""

    ended_s: float
    kind: str
    pace: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """The chance of no request for so many more seconds, at each edge, and how many could come back."""

    shares: tuple[float, ...]
    talks: int

    def at(self, quiet_s: float) -> float:
        """The chance that it stays quiet for `quiet_s` more seconds."""
        i = bisect_right(EDGES, quiet_s) - 1
        if i >= BINS:
            return self.shares[BINS]
        return self.shares[i] + (quiet_s - EDGES[i]) / (EDGES[i + 1] - EDGES[i]) * (
            self.shares[i + 1] - self.shares[i]
        )

    def lasting_s(self, share: float) -> float:
        """At least so many seconds more with a chance of `share`: the last edge at which it is that likely."""
        return EDGES[max(0, bisect_right(self.shares, -share, key=neg) - 1)]  # they fall


@lru_cache(maxsize=64)
def all_quiet(*of: tuple[Quiet, float]) -> Quiet:
    """The chance that all of several services stay quiet from now on: each with its curve, and how old that is."""
    shares = [1.0] * len(EDGES)
    for quiet, old_s in of:
        until_now = max(quiet.at(old_s), LEAST)
        shares = [
            share * min(1.0, quiet.at(old_s + edge_s) / until_now)
            for share, edge_s in zip(shares, EDGES, strict=True)
        ]
    return Quiet(shares=tuple(shares), talks=sum(quiet.talks for quiet, _ in of))


class Forecast:
    """What is known of one service's requests."""

    def __init__(self, table: Table) -> None:
        self.pauses = Pauses(table)
        self._talks: dict[str, Talk] = {}  # by the end of the last answer, oldest first
        self._recent: deque[float] = deque(maxlen=RECENT_MAX)
        self._begun = 1.0  # conversations, decayed
        self._watched_s = 0.0  # over so much time, decayed alike
        self._last_s: float | None = None

    def learn(self, answer: Answer) -> None:
        """One request is over. One that began before its conversation's last answer ended tells no pause."""
        now_s = answer.arrived_s
        if self._last_s is not None and now_s > self._last_s:
            self._watched_s += now_s - self._last_s
        self._last_s = now_s if self._last_s is None else max(now_s, self._last_s)
        self._recent.append(now_s)
        self._forget(self._last_s)
        name = answer.conversation or ""
        talk = self._talks.pop(name, None)
        pace = None
        if talk is None:
            decay = 2 ** (-1 / NEW_HALF_LIFE)
            self._begun, self._watched_s = self._begun * decay + 1, self._watched_s * decay
        else:
            pace = talk.pace
            pause_s = now_s - talk.ended_s
            if pause_s >= 0:
                self.pauses.add(talk.kind, pause_s)
                if not talk.kind.startswith("2"):
                    said = math.log(pause_s + 0.5)
                    pace = said if pace is None else (1 - PACE_NEW) * pace + PACE_NEW * said
        ended_s = answer.ended_s if talk is None else max(answer.ended_s, talk.ended_s)
        recent = (
            sum(one > now_s - RECENT_S for one in self._recent) if answer.finish == answer.tokens == 0 else 0
        )
        kind = kind_of(answer.finish, answer.tokens, pace, recent)
        self._talks[name] = Talk(ended_s=ended_s, kind=kind, pace=pace)

    def quiet(self, now_s: float) -> Quiet:
        """The curve from now on, while nothing is in flight."""
        weights: dict[tuple[str, int], float] = {}
        talks = 0
        for talk in self._talks.values():
            quiet_s = max(0.0, now_s - talk.ended_s)
            if quiet_s >= GONE_S:
                continue
            talks += 1
            i = bisect_right(EDGES, quiet_s) - 1
            share = (quiet_s - EDGES[i]) / (EDGES[i + 1] - EDGES[i])
            if i > LONG_QUIET_BIN:
                i, share = i + round(share), 0.0
            weights[talk.kind, i] = weights.get((talk.kind, i), 0.0) + 1 - share
            if share:
                weights[talk.kind, i + 1] = weights.get((talk.kind, i + 1), 0.0) + share
        rate = NEW_SHARE * self._begun / (self._watched_s + NEW_AFTER_S)
        logs = [-rate * edge_s for edge_s in EDGES]
        terms = [(weight, self.pauses.row(kind, i)) for (kind, i), weight in weights.items()]
        terms += [(0.0, _NOTHING)] * (-len(terms) % 4)
        for at in range(0, len(terms), 4):  # four at a time: half the time of one by one
            (u, first), (v, second), (w, third), (x, fourth) = terms[at : at + 4]
            logs = [
                log + u * a + v * b + w * c + x * d
                for log, a, b, c, d in zip(logs, first, second, third, fourth, strict=True)
            ]
        return Quiet(shares=tuple(map(math.exp, logs)), talks=talks)

    def _forget(self, now_s: float) -> None:
        """Who has been silent for four hours did not come back."""
        while self._talks:
            name, talk = next(iter(self._talks.items()))
            if now_s - talk.ended_s < GONE_S:
                return
            self.pauses.add(talk.kind, GONE_S)
            del self._talks[name]

    def to_doc(self) -> dict[str, Any]:
        """All of it, small: a few kilobytes once it is settled."""
        return {
            "pauses": self.pauses.to_doc(),
            "talks": [[name, talk.ended_s, talk.kind, talk.pace] for name, talk in self._talks.items()],
            "recent": list(self._recent),
            "begun": self._begun,
            "watched_s": self._watched_s,
            "last_s": self._last_s,
        }

    @classmethod
    def from_doc(cls, table: Table, doc: Mapping[str, Any]) -> Forecast:
        """What `to_doc` was made of."""
        made = cls(table)
        made.pauses.restore(doc["pauses"])
        made._talks = {name: Talk(ended_s=e, kind=kind, pace=pace) for name, e, kind, pace in doc["talks"]}
        made._recent.extend(doc["recent"])
        made._begun, made._watched_s, made._last_s = doc["begun"], doc["watched_s"], doc["last_s"]
        return made
