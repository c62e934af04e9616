"""What a gate tells of those who wait: how much longer at most, by the bounds that it keeps itself."""

from typing import Any

import pytest

from headway.core.wire import Service
from headway.gate.lines import NAME_MAX
from headway.gate.waiting import Ticket
from tests.contract.test_holding import holding_of, row

pytestmark = pytest.mark.contract

BOUNDS: dict[str, Any] = {"max_wait_s": {"attended": 90.0}, "wake_limit_s": 30.0}
CASES: dict[str, tuple[Service, dict[str, Any], float | None]] = {
    # name: (row, the ticket's more, what is left 10 s after it came)
    "others hold the memory": (row(**BOUNDS), {}, 80.0 + 30.0),
    "its own bound comes first": (row(**BOUNDS), {"wait_s": 25.0}, 15.0),
    "it wakes": (row(state="waking", **BOUNDS), {}, 20.0),
    "it wakes, and its own bound comes first": (row(state="waking", **BOUNDS), {"wait_s": 15.0}, 5.0),
    "its class has no bound": (row(**BOUNDS), {"class_": "background"}, None),
    "it waits for a place": (row("open", "awake", max_active=0, **BOUNDS), {}, None),
}


@pytest.mark.parametrize(("service", "more", "left_s"), CASES.values(), ids=CASES.keys())
def test_how_much_longer_at_most(service: Service, more: dict[str, Any], left_s: float | None) -> None:
    made = holding_of(service)
    made.arrive(Ticket("s", id="a", **more), 0.0)
    (entry,) = made.lines["s"].held(10.0).entries
    assert (entry.left_s, entry.waited_s) == (left_s, 10.0)


@pytest.mark.parametrize("case", [name for name, (_, _, left_s) in CASES.items() if left_s is not None])
def test_it_is_refused_by_then(case: str) -> None:
    """Unless its server is ready before."""
    service, more, _ = CASES[case]
    made = holding_of(service)
    made.arrive(Ticket("s", id="a", **more), 0.0)
    (entry,) = made.lines["s"].held(10.0).entries
    assert entry.left_s is not None
    assert [one.id for one, _ in made.tick(10.0 + entry.left_s).refuse] == ["a"]


def test_a_model_s_name_is_told_and_no_book() -> None:
    made = holding_of(row())
    for name in ("tiny", "x" * 10_000, None):
        made.arrive(Ticket("s", model=name), 0.0)
    assert [one.model for one in made.lines["s"].held(1.0).entries] == ["tiny", "x" * NAME_MAX, None]
