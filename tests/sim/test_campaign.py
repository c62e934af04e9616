"""Seeds played in other processes: twice with equal traces, those that once failed, and what a campaign must have seen.

CI plays 200 of them with `make seeds`, in a stage of its own on all cores, and asserts there what they saw; here a few
are enough to see that nothing is broken. HEADWAY_SIM_SEEDS plays more.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.sim import coverage
from headway.sim.campaign import Summary, campaign, report
from headway.sim.faults import FAULTS
from headway.sim.play import REST_S, Result

pytestmark = [pytest.mark.sim, pytest.mark.timeout(1800)]

SEEDS = int(os.environ.get("HEADWAY_SIM_SEEDS", "4" if os.environ.get("HEADWAY_CI") else "20"))
PARTS = 4  # so that several workers of pytest have something to do
OLD = Path(__file__).parent / "seeds.txt"


def said(summary: Summary) -> str:
    lines = [line for result in summary.failed.values() for line in report(result)]
    return "\n".join([*lines, f"not the same twice: {summary.unequal}"])


@pytest.mark.parametrize("part", range(PARTS))
def test_seeds_hold_and_are_the_same_under_another_hash_seed(part: int) -> None:
    seeds = range(1 + part, SEEDS + 1, PARTS)
    summary = campaign(seeds, workers=2, twice=True)
    assert summary.good, said(summary)
    assert summary.seeds == len(seeds) and summary.played == 2 * len(seeds)


def once_failed() -> Iterator[tuple[int, float]]:
    """Seeds with their virtual hours."""
    for line in OLD.read_text().splitlines():
        if words := line.partition("#")[0].split():
            yield int(words[0]), float(words[1]) if len(words) > 1 else 1.0


def test_seeds_that_once_failed_hold() -> None:
    found = list(once_failed())
    for hours in sorted({hours for _, hours in found}):
        seeds = [seed for seed, its_hours in found if its_hours == hours]
        summary = campaign(seeds, workers=2, busy_s=hours * 3600.0 - REST_S)
        assert summary.good, said(summary)


def test_each_old_seed_says_what_it_found() -> None:
    lines = [line for line in OLD.read_text().splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not line.partition("#")[2].strip()] == []
    assert len(list(once_failed())) == len(lines)


# ---------------------------------------------------------------- the campaign itself


def result(seed: int, digest: str = "d", *violations: str) -> Result:
    return Result(
        seed=seed, digest=digest, violations=violations, last=("1.0 a",), seen=Counter({"moves": 2})
    )


def test_a_seed_that_is_not_the_same_twice_is_told_and_counted_once() -> None:
    summary = Summary()
    for one in (result(1), result(2), result(1, "other"), result(2)):
        summary.add(one)
    assert (summary.seeds, summary.played, summary.unequal, summary.seen["moves"]) == (2, 4, [1], 4)
    assert not summary.good and not summary.failed


def test_a_seed_that_failed_is_reported_with_its_last_turns() -> None:
    summary = Summary()
    summary.add(result(7, "d", "t=1 it fell"))
    assert list(summary.failed) == [7] and not summary.good
    lines = list(report(summary.failed[7], " --hours 2"))
    assert "  t=1 it fell" in lines and "  1.0 a" in lines and lines[-1] == "again: headway sim 7 --hours 2"


def test_results_go_through_lines() -> None:
    one = result(7, "d", "wrong")
    assert Result.from_doc(one.to_doc()) == one


def test_a_seed_that_never_comes_to_an_end_is_a_failure_and_the_next_one_is_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit is passed while the process of the first seed still starts."""
    limits = [0.05, 600.0]
    real = threading.Timer
    monkeypatch.setattr(threading, "Timer", lambda _, call: real(limits.pop(0), call))
    summary = campaign([1, 2], workers=1, busy_s=120.0)
    assert list(summary.failed) == [1] and "ended with -9" in summary.failed[1].violations[0]
    assert summary.seeds == 2


def test_what_is_raised_over_a_result_ends_the_campaign() -> None:
    def told(_: Result) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        campaign(iter(range(1, 1000)), workers=2, busy_s=60.0, told=told)


def test_no_seed_is_begun_when_the_time_is_up() -> None:
    assert campaign(range(1, 1000), workers=1, limit_s=0.0).played == 0


# ---------------------------------------------------------------- coverage

WHOLE: Counter[str] = Counter(
    {
        **{f"fault {name}": coverage.FAULT_TIMES for name in FAULTS},
        **{f"action {kind}": 1 for kind in coverage.kinds()},
        **{f"verdict {code}": 1 for code in coverage.codes() - coverage.ELSEWHERE.keys()},
        **{f"event {code}": 1 for code in coverage.EVENTS},
        "action sleeper:awake>asleep": coverage.SWAPS,
        "event daemon.started": coverage.KILLS + 200,
    }
)


def test_the_codes_of_the_core_are_found_in_its_sources() -> None:
    assert {"memory_now", "asked_stop", "residency", "goes", "done", "revoked"} <= coverage.codes()
    assert coverage.ELSEWHERE.keys() <= coverage.codes()


def test_a_campaign_that_saw_everything_lacks_nothing() -> None:
    assert list(coverage.gaps(WHOLE, 200)) == []
    assert coverage.never(WHOLE) == {"faults": [], "actions": [], "verdicts": [], "events": []}


LACKS = {
    "a fault that came too seldom": ("fault link_drops", "link_drops (1)"),
    "a move": ("action command:running>parked", "command:running>parked"),
    "an action": ("action OpenGate", "OpenGate"),
    "a verdict": ("verdict residency", "residency"),
    "an event": ("event lease.would", "lease.would"),
    "swaps": ("action sleeper:awake>asleep", "swaps"),
    "kills": ("event daemon.started", "kills"),
}


@pytest.mark.parametrize(("what", "said"), LACKS.values(), ids=LACKS.keys())
def test_what_was_not_seen_is_told(what: str, said: str) -> None:
    seen = Counter(WHOLE)
    seen[what] = 1 if said != what.partition(" ")[2] else 0
    lacks = list(coverage.gaps(seen, 200))
    assert len(lacks) == 1 and said in lacks[0]


def test_a_code_that_only_a_row_shows_counts_as_well() -> None:
    seen = Counter(WHOLE)
    del seen["verdict residency"]
    seen["why residency"] = 1
    assert list(coverage.gaps(seen, 200)) == []
