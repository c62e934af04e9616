"""The demo's verdict over itself: each broken promise is said, and the board shows who holds what."""

from dataclasses import replace
from typing import Any

import pytest

from demo.board import Counts, board, cut, happened
from demo.client import Answer
from demo.summary import Facts, broken, lines, swaps
from tests.parts.programs import GIB

pytestmark = pytest.mark.contract


def event(code: str, holder: str, form: str, took_s: float = 0.5) -> dict[str, Any]:
    return {
        "code": code,
        "holder": holder,
        "facts": {"form": form, "took_s": took_s},
        "sentence": f"{holder} {code}",
    }


def request(id: str, held: bool) -> dict[str, Any]:
    return {"doc": {"id": id, "held": held, "waited_s": 1.5 if held else 0.0}}


def answer(id: str, error: str | None = None) -> Answer:
    return Answer(id=id, status=200, text="Hello", wait_s=1.5, took_s=2.0, error=error)


SWAPPED = (
    event("move.done", "j1", "running"),
    event("release.verified", "j1", "parked"),
    event("move.done", "chat", "awake"),
    event("release.verified", "chat", "stopped"),
    event("move.done", "j1", "running"),
)
JOB = {"id": "j1", "name": "render", "state": "done", "why": "", "ran_s": 4.0}
KEPT = Facts(
    seconds=20.0,
    total_bytes=24 * GIB,
    most_bytes=24 * GIB,
    looks=900,
    answers=(answer("a"), answer("b")),
    events=SWAPPED,
    requests=(request("a", True), request("b", False), request("stranger", True)),
    jobs=(JOB,),
    steps=5,
    frames=9,
    exit_status=0,
)

# name: (what is different, words of the one promise that is said to be broken)
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "one swap only": ({"events": SWAPPED[:3]}, "1 verified swaps"),
    "a start without a release is no swap": (
        {"events": tuple(e for e in SWAPPED if e["code"] != "release.verified")}, "0 verified swaps"
    ),
    "nobody waited": ({"requests": (request("a", False), request("stranger", True))}, "no request was held"),
    "one request failed": ({"answers": (answer("a"), answer("b", "status 503"))}, "request b was not answered"),
    "one byte too much": ({"most_bytes": 24 * GIB + 1}, "held at once"),
    "nobody looked": ({"looks": 0}, "never seen in use"),
    "memory was kept": ({"events": (*SWAPPED, event("memory.not_released", "j1", "parked"))}, "kept its memory"),
    "train stood still": ({"steps": 0}, "train"),
    "render stood still": ({"frames": 0}, "render"),
    "a job failed": ({"jobs": ({**JOB, "state": "failed"},)}, "render (j1) failed"),
    "headway ended badly": ({"exit_status": None}, "ended with status None"),
    "a process is left": ({"left": ("process 7: python",)}, "left behind: process 7"),
    "it was never ready": ({"troubles": ["not ready"]}, "not ready"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "words"), CASES.values(), ids=CASES.keys())
def test_a_broken_promise_is_said(change: dict[str, Any], words: str) -> None:
    (found,) = broken(replace(KEPT, **change))
    assert words in found
    assert lines(replace(KEPT, **change))


def test_kept_promises_are_counted() -> None:
    assert broken(KEPT) == []
    assert [(swap.left, swap.came) for swap in swaps(SWAPPED)] == [("j1", "chat"), ("chat", "j1")]
    text = "\n".join(lines(KEPT))
    assert "2 of 2 answered; 1 waited" in text
    assert "nothing is left" in text


def test_an_early_end_is_not_judged_by_what_it_reached() -> None:
    early = Facts(cut_short=True, total_bytes=24 * GIB, exit_status=0)
    assert broken(early) == []
    assert lines(early)
    assert len(broken(replace(early, left=("process 7",), answers=(answer("a", "status 503"),)))) == 2


def test_nothing_happened_is_no_success() -> None:
    assert len(broken(Facts())) >= 6
    assert lines(Facts())


def test_the_board_shows_who_holds_the_device_and_why() -> None:
    row = {"state": "running", "bytes": 12 * GIB, "why": "on sim0 for 3 s"}
    share = {"name": "render", "bytes": 12 * GIB}
    device = {"name": "sim0", "total_bytes": 24 * GIB, "used_bytes": 15 * GIB, "foreign_bytes": 3 * GIB}
    waiting = {"name": "chat", "state": "stopped", "bytes": None, "why": "nobody asks for it"}
    status = {
        "devices": [{**device, "holders": [share]}],
        "services": [waiting],
        "running": [{**row, "name": "render"}],
        "queued": [],
    }
    shown = board(status, Counts(at_s=3.0, left_s=None, answered=5, waiting=1, swaps=2), ["first", "second"])
    text = "\n".join(shown)
    assert "[" + "r" * 24 + "?" * 6 + "." * 18 + "]" in text
    assert "5 requests answered, 1 waiting   2 swaps" in text
    rows = [line.split()[:2] for line in shown if line.startswith(("c ", "r "))]
    assert rows == [["c", "chat"], ["r", "render"]], "the letter of the bar, then the name"
    assert "on sim0 for 3 s" in text
    assert len(shown) == len(board(status, Counts(0, None, 0, 0, 0), [])), "its height never changes"


def test_what_happened_names_the_holder_once() -> None:
    names = {"j1": "render", "chat": "chat"}
    freed = event("release.verified", "j1", "parked") | {
        "sentence": "render (j1): parked: its memory is free"
    }
    done = event("job.done", "j1", "stopped") | {"sentence": "render (j1): done, ran for 4 s"}
    failed = event("service.failed", "chat", "awake") | {"sentence": "chat: cannot start"}
    assert happened(freed, names) == "render: parked, memory measured free after 0.5 s"
    assert happened(done, names) == "render: done, ran for 4 s"
    assert happened(failed, names) == "chat: cannot start"
    assert max(len(f" 1234.5 s  {happened(one, names)}") for one in (freed, done, failed)) < 80


def test_a_line_is_cut_between_words_and_says_so() -> None:
    line = "r render  queued        0 GiB  chat is awake; starts when it was quiet for 2 s"
    for width in (40, 60, len(line) - 1):
        short = cut(line, width)
        assert len(short) <= width and short.endswith(" …")
        assert line.startswith(short.removesuffix("…").rstrip() + " ")
    assert cut(line, len(line)) == line
    assert cut("x" * 90, 40) == "x" * 39 + "…"
