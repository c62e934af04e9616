"""The bench of the page: every part runs, the document has every figure, wrong input is told. Nothing is timed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.gate_parts.report import DOCUMENT, END, begins
from bench.page import FIGURES
from tests.page.conftest import missing

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
LIMIT_S = 110.0


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    argv = [sys.executable, "-m", "bench.page", *words]
    return subprocess.run(
        argv, capture_output=True, text=True, cwd=ROOT, env=env, timeout=LIMIT_S, check=False
    )


def test_every_part_gives_its_figures() -> None:
    if word := missing():
        pytest.skip(word)
    done = bench("--quick")
    assert done.returncode == 0, done.stderr
    for figure in FIGURES:
        assert f"| {figure.title} " in done.stdout


def test_the_document_has_a_row_for_every_figure_and_each_keeps_its_promise() -> None:
    part = DOCUMENT.read_text("utf-8").partition(begins("bench.page"))[2].partition(END)[0]
    assert " cores, Linux " in part
    for figure in FIGURES:
        row = next(line for line in part.splitlines() if line.startswith(f"| {figure.title} "))
        assert row.rstrip(" |").endswith("pass") or figure.goal is None


WRONG = {
    "a part that is not there": ("--only", "look,nothing"),
    "a document of some parts": ("--only", "file", "--write"),
    "a document of figures that say nothing": ("--quick", "--write"),
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG.keys())
def test_wrong_input_is_told(words: tuple[str, ...]) -> None:
    done = bench(*words)
    assert done.returncode == 2 and "Traceback" not in done.stderr
