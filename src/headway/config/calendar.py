"""When the windows of the config are open, by the wall clock of this machine. The only file that reads cron words.

Cron times are local times: a window at 22:00 is at 22:00 the whole year, over changes of daylight saving too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice

from cronsim import CronSim, CronSimError

from headway.core.model import WindowKind
from headway.ports import Due

DAY_S = 86400.0
TURNS_MAX = 10_000  # of one window that overlaps itself: looked through to find one that is not over


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlan:
    """One `[window.NAME]`. One of `duration_s` and `until` (hour, minute of its end) is given."""

    name: str
    kind: WindowKind
    services: tuple[str, ...]
    cron: str
    duration_s: float | None = None
    until: tuple[int, int] | None = None


def cron_error(words: str) -> str | None:
    """Why these are no cron words; None when they are, and mean a time that comes."""
    try:
        next(CronSim(words, datetime(2026, 1, 1)))
    except (CronSimError, StopIteration) as error:
        return str(error) or "never comes"
    return None


class Calendar:
    """Looks up the present or next turn of each window.

    Args:
        zone: None: the local time of this machine.
    """

    def __init__(self, plans: Iterable[WindowPlan], zone: tzinfo | None = None) -> None:
        self.plans, self._zone = tuple(plans), zone
        self._found: dict[str, Due] = {}
        self._looked_wall_s = float("inf")

    def due(self, wall_s: float) -> tuple[Due, ...]:
        """Of each window the turn that is open at that instant, else its next one."""
        if wall_s < self._looked_wall_s:  # the clock was set back
            self._found.clear()
        self._looked_wall_s = wall_s
        for plan in self.plans:
            found = self._found.get(plan.name)
            if found is not None and found.end_wall_s > wall_s:
                continue
            if (turn := _turn(plan, wall_s, self._zone)) is not None:
                self._found[plan.name] = turn
            else:
                self._found.pop(plan.name, None)
        return tuple(self._found[plan.name] for plan in self.plans if plan.name in self._found)


def _turn(plan: WindowPlan, wall_s: float, zone: tzinfo | None) -> Due | None:
    """The first turn that is not over."""
    back_s = plan.duration_s if plan.duration_s is not None else DAY_S
    # without a zone these are the naive local times of this machine, which `timestamp` turns back
    before = datetime.fromtimestamp(wall_s - back_s, zone) - timedelta(minutes=1)
    for begin in islice(CronSim(plan.cron, before), TURNS_MAX):
        end = _end(plan, begin)
        if end.timestamp() > wall_s:
            return Due(
                id=plan.name,
                kind=plan.kind,
                services=plan.services,
                begin_wall_s=begin.timestamp(),
                end_wall_s=end.timestamp(),
            )
    return None


def _end(plan: WindowPlan, begin: datetime) -> datetime:
    if plan.until is None:
        exactly = datetime.fromtimestamp(begin.timestamp() + (plan.duration_s or 0.0), UTC)
        return exactly.astimezone(begin.tzinfo) if begin.tzinfo else exactly.astimezone()
    hour, minute = plan.until
    end = begin.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return end if end > begin else end + timedelta(days=1)
