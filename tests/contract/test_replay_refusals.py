"""`headway replay`: damaged files, odd lines, values that make no sense. A sentence and an exit code, never a traceback."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headway.core.worth import Costs
from headway.sim.replay.play import play
from headway.sim.replay.policies import Fixed
from headway.sim.replay.report import Setting, ours
from headway.sim.replay.trace import Skipped, read
from headway.sim.replay.values import number, span
from tests.contract.test_replay import GAPS, HEAD, csv_of, log_of, logged, told
from tests.traces import agents

pytestmark = pytest.mark.contract

ZIPPED = gzip.compress((f"{HEAD}\n" + "1,2,0,0,0\n" * 5000).encode())

DAMAGED = {
    "a changed byte within": ("t.csv.gz", ZIPPED[:30] + b"\xff\xff\xff" + ZIPPED[33:]),
    "cut short": ("t.csv.gz", ZIPPED[: len(ZIPPED) // 2]),
    "not zipped": ("t.csv.gz", HEAD.encode()),
    "no text": ("t.csv", b"\xff\xfe\x00\x01"),
    "a quote that is left open": ("t.csv", f'{HEAD}\n1,"2,0,0,0\n'.encode() + b"1,2,0,0,0\n" * 20_000),
    "a field of endless length": ("t.csv", f"{HEAD}\n{'1' * 200_000},2,0,0,0\n".encode()),
    "a quote that is left open in the first line": ("t.csv", b'"' + b"1,2,0,0,0\n" * 20_000),
    "an instant that cannot be added up": ("t.csv", f"{HEAD}\n-1e308,1,0,0,0\n1e308,1,0,0,0\n".encode()),
    "a log that is no text": ("a.ndjson", bytes(range(256))),
}


@pytest.mark.parametrize(("name", "data"), DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_file_is_refused(name: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    result = told(str(tmp_path / name), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stderr)["code"] == "log_unreadable"


def test_an_open_quote_is_found_at_the_line_where_it_begins(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f'{HEAD}\n1,2,0,0,0\n1,"2,0,0,0\n' + "1,2,0,0,0\n" * 20_000)
    assert "line 3" in told(str(tmp_path / "t.csv")).stderr


def test_the_mark_that_spreadsheets_put_first_is_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(f"\ufeff{HEAD}\n1,2,0,0,0\n".encode())
    assert len(read(tmp_path / "t.csv").requests) == 1


ODD = {
    "cut within a word": ('{"id": "cut sho', Skipped(cut=1)),
    "cut within a letter": (b'{"model": "caf\xc3', Skipped(cut=1)),
    "no object": ("[1, 2]", Skipped(unread=1)),
    "no JSON": ("hello", Skipped(unread=1)),
    "nested without end": ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", Skipped(unread=1)),
    "a number of more digits than can be read": ('{"at_s": 1' + "0" * 5000 + "}", Skipped(unread=1)),
    "an instant beyond all numbers": (json.dumps(logged(GAPS[0], at_s=10**400)), Skipped(unread=1)),
    "tokens without end": (json.dumps(logged(GAPS[0], output_tokens=float("inf"))), Skipped(unread=1)),
    "an attended request without times": (
        json.dumps({"class": "attended", "demand": True}),
        Skipped(unread=1),
    ),
    "times that cannot be added up": (
        json.dumps(logged(GAPS[0], boot="b2", at_s=-1e308, wall_s=1e308)),
        Skipped(unread=1),
    ),
    "nothing": ("   ", Skipped()),
    "a line about something else": (json.dumps({"status": 400}), Skipped()),
}


@pytest.mark.parametrize(("odd", "skipped"), ODD.values(), ids=ODD.keys())
def test_an_odd_line_is_left_out_and_counted(odd: str | bytes, skipped: Skipped, tmp_path: Path) -> None:
    log = log_of([logged(one) for one in GAPS], tmp_path / "a.ndjson")
    whole = log.read_bytes()
    log.write_bytes((odd if isinstance(odd, bytes) else odd.encode()) + b"\n" + whole)
    found = read(log)
    assert (len(found.requests), found.skipped) == (3, skipped)


def test_lines_that_are_left_out_are_told_beside_the_document(tmp_path: Path) -> None:
    log = log_of([logged(one) for one in GAPS], tmp_path / "a.ndjson")
    whole = json.loads(told(str(log), "--json", "--compare", "never").stdout)
    log.write_text(log.read_text() + 'hello\n{"id": "cut sho')
    result = told(str(log), "--json", "--compare", "never")
    document = json.loads(result.stdout)
    assert document.keys() == whole.keys() and document["requests"] == whole["requests"]
    assert len(result.stderr.splitlines()) == 1
    assert Skipped(cut=1, unread=2).told() == "left out: 1 line cut short and 2 lines that could not be read"


WRONG = {
    "a sweep without end": ("--sweep", "wait_price=1:inf"),
    "a sweep of a freedom": ("--sweep", "hides_park=1:2"),
    "a sweep of the other one": ("--sweep", "abandons_sleep=1:4"),
    "a sweep over too much": ("--sweep", "sleep=1e-300:1000"),
    "a sweep from nothing": ("--sweep", "wait_price=0:4"),
    "a share above all": ("--set", "max_waiting_share=15"),
    "no share": ("--set", "max_waiting_share=0"),
    "a price that no config has": ("--set", "wait_price=2e6"),
    "a price as a duration": ("--set", "wait_price=1s"),
    "a mean of no length": ("--set", "max_mean_wait=0"),
    "no number": ("--set", "gap_min=nan"),
    "a word": ("--set", "gap_min=long"),
    "a timeout without end": ("--compare", "fixed:inf"),
    "a threshold without end": ("--compare", "clairvoyant:inf"),
    "an infinite cost": ("--cost", "sleep=inf"),
    "a cost that is infinite with another": ("--cost", "sleep=1e308,wake=1e308"),
    "an infinite interval": ("--saved-every", "inf"),
    "an interval that rounds to nothing": ("--saved-every", "5e-324"),
    "a picture of no kind": ("--sweep", "wait_price=1:2", "--plot", "f.xyz"),
    "a picture without an ending": ("--sweep", "wait_price=1:2", "--plot", "f"),
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG.keys())
def test_what_is_typed_wrong_is_refused_before_anything_is_read(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("damaged")
    result = told(str(tmp_path / "t.csv"), *words)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


def test_each_knob_has_the_bounds_and_the_forms_of_a_config() -> None:
    assert number("wait_price", "0") == 0
    assert number("max_mean_wait", "1s") == 1
    assert number("max_mean_wait", "0.5") == 0.5
    assert number("gap_min", "1min 30s") == 90
    assert number("sleep", "500ms") == 0.5
    assert span("max_mean_wait=100ms:2s") == ("max_mean_wait", 0.1, 2.0)


def test_a_price_of_nothing_is_played_and_small_ones_are_told_apart(tmp_path: Path) -> None:
    trace = str(csv_of(GAPS, tmp_path / "t.csv.gz"))
    result = told(trace, "--json", "--set", "wait_price=0", "--sweep", "wait_price=1e-9:2e-9")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout, parse_constant=lambda word: pytest.fail(word))
    assert document["policies"][0]["knobs"]["wait_price"] == 0
    knobs = [one[2] for one in document["frontier"]["headway"]]
    assert knobs == pytest.approx([1e-9, 2**0.5 * 1e-9, 2e-9], rel=1e-3, abs=0)


def test_when_one_of_two_waited_the_high_shares_say_so() -> None:
    figures = play(GAPS[:2], Fixed(10.0), Costs()).figures()
    assert [figures["p95_wait_s"], figures["p99_wait_s"]] == pytest.approx([4.5, 4.5])


def test_a_least_quiet_is_over_before_each_sleep() -> None:
    requests = agents(4, hours=6)
    quiets_s: dict[str, list[float]] = {}
    for said in ("0s", "30s"):
        setting = Setting().having("gap_min", said)
        policy = ours(setting, capped=False)
        asked = policy.sleeps_after_s

        def noted(quiet_from_s: float, gap_s: float, said: str = said, asked: Any = asked) -> float | None:
            after_s: float | None = asked(quiet_from_s, gap_s)
            if after_s is not None and after_s < gap_s:
                quiets_s.setdefault(said, []).append(after_s)
            return after_s

        policy.sleeps_after_s = noted  # type: ignore[method-assign]
        play(requests, policy, setting.costs)
    assert min(quiets_s["0s"]) < 30.0 == min(quiets_s["30s"])
    assert len(quiets_s["30s"]) > 5


def test_a_picture_that_cannot_be_is_found_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("damaged")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = told(
        str(tmp_path / "t.csv"), "--sweep", "wait_price=1:2", "--plot", str(tmp_path / "x.png"), "--json"
    )
    assert (result.exit_code, json.loads(result.stderr)["code"]) == (1, "no_plot")


@pytest.mark.parametrize("where", ["missing/x.png", "t.csv/x.png"])
def test_a_place_that_cannot_be_written_is_found_before_the_work(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("damaged")
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    words = (str(tmp_path / "t.csv"), "--sweep", "wait_price=1:2", "--json", "--plot")
    result = told(*words, str(tmp_path / where))
    assert (result.exit_code, json.loads(result.stderr)["code"]) == (1, "no_plot")
    fine = told(*words, str(tmp_path / "x.png"))
    assert json.loads(fine.stderr)["code"] == "log_unreadable"
    assert not (tmp_path / "x.png").exists()  # looked at, and left as it was
