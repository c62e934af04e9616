"""Jobs that are over, as the board counts them."""

from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from headway.api.over import Over
from headway.core.model import Ended, HolderId, Job, Snapshot
from headway.ports import Hub
from tests.parts.adopting import job as adopted

pytestmark = pytest.mark.contract

DAY_S = 86_400.0


@dataclass
class Told:
    """A hub that is told by hand, and forgets what changed on demand."""

    snapshot: Snapshot
    changed: dict[int, frozenset[HolderId]] = field(default_factory=dict)

    @property
    def revision(self) -> int:
        return self.snapshot.rev

    def changed_since(self, revision: int) -> frozenset[HolderId] | None:
        wanted = range(revision + 1, self.revision + 1)
        if any(rev not in self.changed for rev in wanted):
            return None
        return frozenset().union(*(self.changed[rev] for rev in wanted))

    def turn(self, now_s: float, **jobs: Job | None) -> None:
        holders = {hid: one for hid, one in {**self.snapshot.holders, **jobs}.items() if one is not None}
        self.snapshot = replace(self.snapshot, now_s=now_s, rev=self.revision + 1, holders=holders)
        self.changed[self.revision] = frozenset(jobs)


def job(hid: str, ended: Ended | None = None, ended_s: float | None = None) -> Job:
    return adopted("stopped", hid, ended=ended, ended_s=ended_s)


@pytest.mark.parametrize("forgets", [False, True])
def test_what_ended_is_counted_by_how_as_it_comes_and_goes(forgets: bool) -> None:
    told = Told(Snapshot(now_s=0.0, holders={"j1": job("j1", "done", 0.0), "j2": job("j2")}))
    hub, over = cast(Hub, told), Over()
    assert (over.of(hub), over.wrong_in_a_day(hub)) == ({"done": 1}, 0)

    def look(now_s: float, **jobs: Job | None) -> tuple[dict[str, int], int]:
        told.turn(now_s, **jobs)
        if forgets:
            told.changed.clear()
        return dict(over.of(hub)), over.wrong_in_a_day(hub)

    assert look(10.0, j2=job("j2", "failed", 10.0), j3=job("j3", "lost", 5.0)) == (
        {"done": 1, "failed": 1, "lost": 1},
        2,
    )
    assert look(20.0, j2=job("j2")) == ({"done": 1, "lost": 1}, 1), "it was queued again"
    assert look(30.0, j1=None) == ({"lost": 1}, 1), "it was forgotten"
    assert look(DAY_S + 5.5) == ({"lost": 1}, 0), "a day is over"
