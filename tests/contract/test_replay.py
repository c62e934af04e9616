"""`headway replay`: what it reads, what it plays, what it prints."""

from __future__ import annotations

import gzip
import importlib.util
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bench.gap_policy import worst_day
from headway.cli.main import cli
from headway.core.worth import Costs
from headway.errors import LogUnreadable
from headway.sim.replay.frontier import at_share, at_wait, geometric, hull
from headway.sim.replay.play import Outcome, play
from headway.sim.replay.policies import Clairvoyant, Fixed
from headway.sim.replay.report import Setting, ours
from headway.sim.replay.trace import Request, Skipped, read
from tests.traces import agents, crowd, irregular

pytestmark = pytest.mark.contract

FIGURES = {
    "requests", "hours", "gpu_share", "asleep_share", "mean_wait_s", "p95_wait_s", "p99_wait_s", "waited_share",
    "swaps", "useless_swaps", "lost_share", "decide_ms_mean",
}  # fmt: skip
HEAD = "arrival_s,service_s,finish,conversation,out_tokens"


def told(*words: str) -> Result:
    return CliRunner(env={"NO_COLOR": "1"}).invoke(cli, ["replay", *words], catch_exceptions=False)


def csv_of(requests: Sequence[Request], path: Path) -> Path:
    names: dict[str | None, int] = {None: 0}
    rows = [
        f"{one.arrived_s!r},{one.service_s!r},{one.finish},"
        f"{names.setdefault(one.conversation, len(names))},{one.tokens}"
        for one in requests
    ]
    path.write_bytes(gzip.compress("\n".join([HEAD, *rows]).encode()))
    return path


def logged(one: Request, boot: str = "b1", **changed: Any) -> dict[str, Any]:
    """The row that the gate would have written."""
    row = {
        "id": "x", "service": "chat", "class": "attended", "demand": True, "status": 200, "held": False,
        "sent_after_s": 0.25, "took_s": one.service_s + 0.25, "at_s": one.arrived_s, "wall_s": one.arrived_s + 1e9,
        "boot": boot, "conversation": one.conversation, "output_tokens": one.tokens,
        "finish": {0: "length", 1: "tool_calls", 2: "stop"}[one.finish],
    }  # fmt: skip
    return row | changed


def log_of(rows: Sequence[dict[str, Any]], path: Path) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


GAPS = (  # three answers of 1 s: quiet from 1 to 101, from 102 + to 107, then the end
    Request(arrived_s=0.0, service_s=1.0),
    Request(arrived_s=101.0, service_s=1.0),
    Request(arrived_s=103.0, service_s=1.0),
)


def test_one_swap_is_what_the_costs_say() -> None:
    outcome = play(GAPS, Fixed(10.0), Costs())
    assert outcome.swaps == 1
    assert outcome.waits_s == pytest.approx(
        [0.0, 4.5, 2.5]
    )  # the third comes while the model wakes for the second
    assert outcome.won_s == pytest.approx(100 - 10 - 11 - 1.75)
    assert outcome.asleep_s == pytest.approx(90)
    assert outcome.lasted_s == pytest.approx(101 + 4.5 + 1)


def test_never_makes_nobody_wait() -> None:
    outcome = play(GAPS, Fixed(None), Costs())
    assert (sum(outcome.waits_s), outcome.won_s, outcome.swaps) == (0, 0, 0)


def test_who_knows_the_future_sleeps_at_once_and_only_in_long_gaps() -> None:
    assert play(GAPS, Clairvoyant(99.9), Costs()).won_s == pytest.approx(100 - 12.75)
    assert play(GAPS, Clairvoyant(100.0), Costs()).swaps == 0


def test_work_since_the_last_whole_interval_is_lost() -> None:
    outcome = play(GAPS, Fixed(10.0), Costs(saved_every_s=30.0))
    assert [outcome.won_s, outcome.lost_s] == pytest.approx([60.0, 17.25])
    assert play(GAPS, Fixed(10.0), Costs(saved_every_s=80.0)).useless_swaps == 1


@pytest.mark.parametrize("seed", range(2))
def test_ours_is_between_the_best_fixed_timeout_and_who_knows_the_future(seed: int) -> None:
    """At equal mean wait; the seeds are not those of any trace that it was judged by."""
    requests = agents(seed, hours=48)

    def line(policies: Any) -> list[tuple[float, float]]:
        found = [play(requests, policy, Costs()).figures() for policy in policies]
        return hull((one["mean_wait_s"], one["gpu_share"]) for one in found)

    mine = line(ours(Setting().having("wait_price", p), capped=False) for p in (1.0, 3.0, 9.0, 27.0))
    fixed = line(Fixed(after_s) for after_s in geometric(5, 3000, 1.5))
    future = line(Clairvoyant(longer_s) for longer_s in geometric(8, 3000, 1.5))
    for wait_s in (0.5, 1.0):
        found, best, bound = (at_wait(one, wait_s) for one in (mine, fixed, future))
        assert found is not None and best is not None and bound is not None
        assert best * 0.995 <= found <= bound


@pytest.mark.parametrize("seed", range(2))
def test_a_data_centre_is_left_alone(seed: int) -> None:
    assert play(crowd(seed), ours(Setting()), Costs()).swaps == 0


def worst_share(requests: Sequence[Request], outcome: Outcome, hours: float = 24.0) -> float:
    waits = [(one.arrived_s, wait > 0) for one, wait in zip(requests, outcome.waits_s, strict=True)][1000:]
    worst = 0.0
    for last in range(100, len(waits), 50):
        window = [w for at_s, w in waits[:last] if at_s > waits[last][0] - hours * 3600]
        if len(window) >= 200:
            worst = max(worst, sum(window) / len(window))
    return worst


def test_the_caps_bind_where_the_price_alone_would_not() -> None:
    requests = agents(5, count=1, hours=120)
    knobs = Setting().having("wait_price", 0.2)
    free = play(requests, ours(knobs, capped=False), Costs())
    capped = play(requests, ours(knobs), Costs())
    assert worst_share(requests, free) > 0.2
    assert worst_share(requests, capped) <= 0.15 * 1.05


@pytest.mark.parametrize("seed", range(100, 104))
def test_the_promise_holds_on_days_unlike_one_another(seed: int) -> None:
    requests = irregular(seed)
    outcome = play(requests, ours(Setting()), Costs())
    share, mean_s = worst_day(requests, outcome)
    assert 0 < share <= 0.15 * 1.05 and 0 < mean_s <= 1.05
    assert outcome.figures()["gpu_share"] > 0.5


@pytest.mark.parametrize("seed", range(3))
def test_the_caps_leave_a_cold_start_most_of_its_job_time(seed: int) -> None:
    requests = [one for one in agents(seed) if one.arrived_s < 8 * 3600]
    capped, free = (play(requests, ours(Setting(), capped=one), Costs()) for one in (True, False))
    assert capped.won_s > 0.85 * free.won_s
    assert sum(wait_s > 0 for wait_s in capped.waits_s) <= 150


def test_sleeping_faster_wins_more() -> None:
    requests = agents(7)
    slow, fast = Setting(), Setting().having("sleep", 3.0)
    won = [play(requests, ours(one, capped=False), one.costs).won_s for one in (slow, fast)]
    assert won[1] > won[0]


def test_without_conversations_and_ends_it_still_works() -> None:
    requests = [replace(one, conversation=None, finish=0, tokens=0) for one in agents(8)]
    outcome = play(requests, ours(Setting()), Costs())
    assert outcome.swaps > 10 and outcome.won_s > 0


def test_a_decision_is_quick() -> None:
    """The bench prints the figure; this is ten times what it may be."""
    began_s = time.thread_time()
    outcome = play(requests := agents(9, count=3), ours(Setting()), Costs())
    assert outcome.decide_ms_mean is not None and outcome.decide_ms_mean < 5.0
    assert (time.thread_time() - began_s) / len(requests) < 200.0 / 100_000


def test_the_document_has_every_figure(tmp_path: Path) -> None:
    trace = csv_of(agents(1, hours=3), tmp_path / "t.csv.gz")
    result = told(str(trace), "--json", "--compare", "fixed:10,fixed:60,never,clairvoyant", "--what-if", "sleep=3",
                  "--sweep", "wait_price=1:4")  # fmt: skip
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert set(document) == {"trace", "requests", "hours", "policies", "frontier"}
    names = [one["name"] for one in document["policies"]]
    assert names[:5] == ["headway", "headway sleep=3", "fixed:10", "fixed:60", "never"]
    assert all(set(one) == FIGURES | {"name", "knobs"} for one in document["policies"])
    assert set(document["frontier"]) == {"headway", "fixed", "clairvoyant"}
    assert [one[2] for one in document["frontier"]["headway"]] == pytest.approx([1, 2**0.5, 2, 2**1.5, 4])
    assert [one[2] for one in document["frontier"]["fixed"]] == [60, 10]
    waits = [one[0] for one in document["frontier"]["headway"]]
    assert waits[0] > waits[-1]


def test_without_json_it_prints_a_table(tmp_path: Path) -> None:
    result = told(str(csv_of(agents(1, hours=1), tmp_path / "t.csv.gz")))
    assert result.exit_code == 0
    assert "clairvoyant" in result.stdout


@pytest.mark.parametrize("columns", [None, 40, 80, 100, 200])
def test_two_costs_can_be_told_apart_on_any_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int | None
) -> None:
    monkeypatch.setattr("headway.cli.tables.width", lambda: columns)
    others = ["--what-if", "sleep=3", "--what-if", "sleep=3,wake=0.25,park=11.5"]
    trace = str(csv_of(agents(1, hours=1), tmp_path / "t.csv.gz"))
    result = told(trace, "--cost", "wake=2.25", "--saved-every", "60", *others)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    for name in ("headway", "headway sleep=3", "headway sleep=3,wake=0.25,park=11.5"):
        assert sum(one.split("  ")[0] == name for one in lines) == 1, result.stdout
    (costs,) = [one for one in lines if one.startswith("costs: ")]
    assert all(word in costs for word in ("11 s", "2.25 s", "1.75 s", "2 s", "60 s"))
    if columns is not None and columns >= 80:
        assert all(len(one) <= columns for one in lines)


def test_a_log_of_the_gate_and_its_trace_are_one(tmp_path: Path) -> None:
    requests = agents(2, hours=2)
    log = log_of([logged(one) for one in requests], tmp_path / "2026-11.g1.ndjson")
    a, b = read(log).requests, read(csv_of(requests, tmp_path / "t.csv.gz")).requests
    assert len(a) == len(b) == len(requests)
    for one, other in zip(a, b, strict=True):
        assert one.arrived_s == pytest.approx(other.arrived_s, abs=1e-6)
        assert one.service_s == pytest.approx(other.service_s)
        assert (one.finish, one.tokens) == (other.finish, other.tokens)


def test_what_is_no_attended_answer_is_left_out_of_a_log(tmp_path: Path) -> None:
    one = GAPS[0]
    rows = [
        logged(one),
        logged(one, **{"class": "background"}),
        logged(one, demand=False),
        logged(one, sent_after_s=None),
        {"id": None, "service": None, "status": 400, "ended": "bad_request", "wall_s": 5.0},
    ]
    log = log_of(rows, tmp_path / "a.ndjson")
    log.write_text(log.read_text() + '{"id": "cut sho')
    trace = read(log)
    assert (len(trace.requests), trace.skipped) == (1, Skipped(cut=1))


def test_a_wall_clock_that_is_set_moves_no_request(tmp_path: Path) -> None:
    rows = [logged(one, wall_s=one.arrived_s + (1e9 if n == 0 else 5e9)) for n, one in enumerate(GAPS)]
    found = read(log_of(rows, tmp_path / "a.ndjson")).requests
    assert [one.arrived_s for one in found] == pytest.approx([0, 101, 103])


def test_another_boot_goes_on_by_the_wall_clock(tmp_path: Path) -> None:
    rows = [logged(GAPS[0], wall_s=1e9), logged(replace(GAPS[0], arrived_s=7.0), boot="b2", wall_s=1e9 + 500)]
    assert [one.arrived_s for one in read(log_of(rows, tmp_path / "a.ndjson")).requests] == pytest.approx(
        [0, 500]
    )


def test_the_order_of_the_lines_changes_nothing(tmp_path: Path) -> None:
    rows = [logged(one) for one in agents(3, hours=2)]
    forward, backward = (
        read(log_of(rows, tmp_path / "a.ndjson")),
        read(log_of(rows[::-1], tmp_path / "b.ndjson")),
    )
    figures = [
        play(one.requests, ours(Setting()), Costs()).figures() | {"decide_ms_mean": 0}
        for one in (forward, backward)
    ]
    assert figures[0] == pytest.approx(figures[1])


def test_a_log_of_two_services_wants_a_name(tmp_path: Path) -> None:
    log = log_of([logged(GAPS[0]), logged(GAPS[1], service="code")], tmp_path / "a.ndjson")
    with pytest.raises(LogUnreadable, match="--service"):
        read(log)
    assert len(read(log, "code").requests) == 1


BAD = {
    "no columns": "1,2,3,4,5\n",
    "a word where a number is due": f"{HEAD}\n1,x,0,0,0\n",
    "a field is missing": f"{HEAD}\n1,2,0,0\n",
    "not a number": f"{HEAD}\nnan,2,0,0,0\n",
    "a negative time": f"{HEAD}\n1,-2,0,0,0\n",
    "a finish that there is not": f"{HEAD}\n1,2,7,0,0\n",
    "no request": f"{HEAD}\n",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_a_bad_trace_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    result = told(str(path), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stderr)["code"] == "log_unreadable"


WRONG = {
    "a knob that there is not": ("--set", "price=3"),
    "a knob without a value": ("--set", "wait_price"),
    "a negative cost": ("--cost", "sleep=-1"),
    "a freedom by half": ("--cost", "hides_park=0.5"),
    "a policy that there is not": ("--compare", "oracle"),
    "a timeout below zero": ("--compare", "fixed:-1"),
    "a sweep that goes down": ("--sweep", "wait_price=8:1"),
    "a sweep of nothing": ("--sweep", "price=1:8"),
    "an interval of no length": ("--saved-every", "0"),
    "a picture of no sweep": ("--plot", "x.png"),
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_option_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    assert told(str(csv_of(GAPS, tmp_path / "t.csv.gz")), *words).exit_code == 2


def test_a_picture_is_drawn_or_what_is_missing_is_said(tmp_path: Path) -> None:
    picture = tmp_path / "x.png"
    trace = csv_of(agents(1, hours=1), tmp_path / "t.csv.gz")
    result = told(str(trace), "--sweep", "wait_price=1:2", "--plot", str(picture), "--json")
    if importlib.util.find_spec("matplotlib"):
        assert picture.read_bytes().startswith(b"\x89PNG")
    else:
        assert (result.exit_code, json.loads(result.stderr)["code"]) == (1, "no_plot")


def test_lines_between_points() -> None:
    line = hull([(1.0, 0.5), (2.0, 0.6), (1.5, 0.4)])
    assert line == [(0.0, 0.0), (1.0, 0.5), (2.0, 0.6)]
    assert at_wait(line, 1.5) == pytest.approx(0.55)
    assert at_wait(line, 2.1) is None
    assert at_share(line, 0.55) == pytest.approx(1.5)
    assert at_share(line, 0.7) is None
