"""What the request log told of each service, made into what can be expected of it.

Beside the snapshot the one thing that the loop keeps: a forecast is learned, not replaced. It is made of the lines of
the log alone, each counted once: the same lines make the same history. What the rules see of it is an `Outlook`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from headway.core import gaps, windows
from headway.core.answers import Logged, logged
from headway.core.draft import Draft
from headway.core.forecast import Forecast
from headway.core.ledger import HOUR_S, Ledger, price
from headway.core.model import HolderId, Service, Snapshot, Verdict
from headway.core.outlook import Outlook
from headway.core.pauses import Table

BOOTS_KEPT: Final = 4  # lines of an earlier boot may come late


@dataclass(slots=True)
class Wake:
    """Requests that waited for one way back of a model: overlapping in time. Instants as the forecast's."""

    first_s: float  # arrival of the first
    first_waited_s: float
    until_s: float
    waited_s: float  # together

    def joins(self, arrived_s: float, waited_s: float) -> None:
        if arrived_s < self.first_s:
            self.first_s, self.first_waited_s = arrived_s, waited_s
        self.until_s = max(self.until_s, arrived_s + waited_s)
        self.waited_s += waited_s


class History:
    """Of one service."""

    def __init__(self, table: Table) -> None:
        self.forecast, self.ledger = Forecast(table), Ledger()
        self.apart = Ledger()  # waits in windows in which they are not counted
        self.heard_s: float | None = None  # end of the last answer
        self.lines = 0
        self._wake: Wake | None = None

    def learn(self, one: Logged, offset_s: float) -> None:
        """One more line about it."""
        answer = one.answer(offset_s)
        self.lines += 1
        self.heard_s = answer.ended_s if self.heard_s is None else max(self.heard_s, answer.ended_s)
        if one.sent_after_s is None:
            return
        self.forecast.learn(answer)
        if one.window == "slow_wake" and one.waited_s:
            self.apart.count(answer.arrived_s, one.waited_s)
            return
        self.ledger.count(answer.arrived_s, one.waited_s)
        if one.waited_s:
            self._waited(answer.arrived_s, one.waited_s)

    def _waited(self, arrived_s: float, waited_s: float) -> None:
        wake = self._wake
        if wake is not None and arrived_s <= wake.until_s:
            wake.joins(arrived_s, waited_s)
            return
        if wake is not None:
            self.ledger.woken(wake.waited_s - wake.first_waited_s)
        self._wake = Wake(arrived_s, waited_s, arrived_s + waited_s, waited_s)

    def to_doc(self) -> dict[str, Any]:
        return {
            "forecast": self.forecast.to_doc(),
            "ledger": self.ledger.to_doc(),
            "apart": self.apart.to_doc(),
            "heard_s": self.heard_s,
            "lines": self.lines,
            "wake": None if self._wake is None else asdict(self._wake),
        }

    @classmethod
    def from_doc(cls, table: Table, doc: Mapping[str, Any]) -> History:
        """What `to_doc` was made of."""
        made = cls(table)
        made.forecast = Forecast.from_doc(table, doc["forecast"])
        made.ledger, made.apart = Ledger.from_doc(doc["ledger"]), Ledger.from_doc(doc["apart"])
        made.heard_s, made.lines = doc["heard_s"], doc["lines"]
        made._wake = None if doc["wake"] is None else Wake(**doc["wake"])
        return made


class Histories:
    """Of all services, by name, on a clock that goes on over boots.

    Args:
        boot_id: of the machine's present boot, at `now_s` of its clock and `wall_s` of the wall clock.
        doc: what `to_doc` said when it was last saved; None: nothing is known yet.
    """

    def __init__(
        self, table: Table, boot_id: str, now_s: float, wall_s: float, doc: Mapping[str, Any] | None = None
    ) -> None:
        found = doc or {"boots": {}, "services": {}}
        self._table, self._boot = table, boot_id
        self.boots: dict[str, float] = dict(found["boots"])  # from the clock of each to ours
        self.of = {name: History.from_doc(table, one) for name, one in found["services"].items()}
        newest_s = max((one.ledger.newest_s for one in self.of.values()), default=wall_s)
        # a boot whose wall clock was ahead stops no clock
        self._offset_s(boot_id, max(wall_s, newest_s) - now_s)

    def learn(self, row: Mapping[str, Any], now_s: float = math.inf) -> None:
        """One line of the log, each once; in whatever order the gates wrote them.

        Args:
            now_s: of the present boot: a line of another one is not from later, whatever its wall clock said.
        """
        if (one := logged(row)) is None:
            return
        offset_s = self._offset_s(one.boot, one.wall_s - one.at_s)
        latest_s = now_s + self.boots[self._boot]
        if one.boot != self._boot and one.at_s + offset_s > latest_s:
            self.boots[one.boot] = offset_s = latest_s - one.at_s
        self._of(one.service).learn(one, offset_s)

    def look(self, d: Draft, verdicts: Mapping[HolderId, Verdict]) -> None:
        """Put into the snapshot what changed.

        Args:
            verdicts: of the last pass: a moment that they wait for may have come.
        """
        s = d.view()
        due = {
            sid
            for v in verdicts.values()
            if v.code == "gap_too_short" and v.until_s is not None and v.until_s <= s.now_s
            for sid in v.facts["services"]
        }
        found = {sid: self._outlook(x, s, sid in due) for sid in s.services if (x := s.service(sid))}
        if any(s.outlooks.get(sid) is not one for sid, one in found.items()) or len(found) < len(s.outlooks):
            d.set(outlooks=found)

    def _outlook(self, service: Service, s: Snapshot, due: bool) -> Outlook:
        """The one before, unless something changed or its moment has come: a curve lasts while all are silent."""
        history, before, offset_s = self._of(service.id), s.outlooks.get(service.id), self.boots[self._boot]
        now_s, knobs = s.now_s + offset_s, gaps.knobs(service, s)
        slow = windows.over(service.id, s, "slow_wake") is not None
        cost = min(gaps.SLOW_WAKE_PRICE, knobs.wait_price) if slow else price(knobs, history.ledger, now_s)
        aside = service.form != service.top or service.id in s.pending
        idle = service.form == service.top and service.active == 0
        made_of = (history.lines, cost, knobs)
        same = before is not None and (before.lines, before.price, before.knobs) == made_of
        ledger, heard_s, hour = history.ledger, history.heard_s, int(now_s // HOUR_S)
        if before is not None and same and not due and (before.quiet is not None or not idle):
            # who waited is longer ago by the hour, and nobody has to ask for that to be seen
            return before if before.hour == hour else replace(before, waits=ledger.waits(now_s), hour=hour)
        return Outlook(
            at_s=s.now_s,
            quiet=history.forecast.quiet(now_s) if idle else None,
            price=cost,
            knobs=knobs,
            follower_s=ledger.follower_s,
            heard_s=None if heard_s is None else heard_s - offset_s,
            lines=history.lines,
            waits=ledger.waits(now_s),
            hour=hour,
            apart=history.apart.total(),
            taken=before.taken if before is not None and aside else {},
        )

    def _of(self, service: str) -> History:
        if service not in self.of:
            self.of[service] = History(self._table)
        return self.of[service]

    def _offset_s(self, boot: str, offset_s: float) -> float:
        """From that boot's clock to ours: as its first line says, so that a wall clock that is set moves nothing."""
        if boot not in self.boots:
            self.boots[boot] = offset_s
            for old in [one for one in self.boots if one != self._boot][: -BOOTS_KEPT + 1]:
                del self.boots[old]
        return self.boots[boot]

    def to_doc(self) -> dict[str, Any]:
        """All of it; some kilobytes a service."""
        return {
            "boots": self.boots,
            "services": {name: one.to_doc() for name, one in sorted(self.of.items())},
        }
