"""The benches of figures: every part runs, the document has every figure, wrong input is told. Nothing is timed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import page, queue
from bench.figures import Bench
from bench.gate_parts.report import DOCUMENT, END, begins
from tests.page.conftest import missing

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
LIMIT_S = 110.0
BENCHES = {bench.name: bench for bench in (queue.BENCH, page.BENCH)}
of_each = pytest.mark.parametrize("bench", BENCHES.values(), ids=BENCHES.keys())


def run(bench: Bench, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    argv = [sys.executable, "-m", bench.name, *words]
    return subprocess.run(
        argv, capture_output=True, text=True, cwd=ROOT, env=env, timeout=LIMIT_S, check=False
    )


@of_each
def test_every_part_gives_its_figures(bench: Bench) -> None:
    if bench is page.BENCH and (word := missing()):
        assert not os.environ.get("HEADWAY_CI"), word
        pytest.skip(word)
    done = run(bench, "--quick")
    assert done.returncode == 0, done.stderr
    for figure in bench.figures:
        assert f"| {figure.title} " in done.stdout


@of_each
def test_the_document_has_a_row_for_every_figure_and_each_keeps_its_promise(bench: Bench) -> None:
    part = DOCUMENT.read_text("utf-8").partition(begins(bench.name))[2].partition(END)[0]
    assert " cores, Linux " in part
    for figure in bench.figures:
        row = next(line for line in part.splitlines() if line.startswith(f"| {figure.title} "))
        assert row.rstrip(" |").endswith("pass") or figure.goal is None


WRONG = {
    "a part that is not there": ("--only", "{part},nothing"),
    "a document of some parts": ("--only", "{part}", "--write"),
    "a document of figures that say nothing": ("--quick", "--write"),
}


@of_each
@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG.keys())
def test_wrong_input_is_told(bench: Bench, words: tuple[str, ...]) -> None:
    part = next(iter(bench.parts))
    done = run(bench, *(word.format(part=part) for word in words))
    assert done.returncode == 2 and "Traceback" not in done.stderr
