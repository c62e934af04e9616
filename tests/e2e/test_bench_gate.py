"""The gate's bench: every measure runs, the document has every figure, wrong input is told. Nothing is timed here."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench import gate
from bench.gate_parts.measures import FIGURES
from bench.gate_parts.report import DOCUMENT, END, begins, lines, write
from bench.gate_parts.tools import BenchFailed

pytestmark = pytest.mark.e2e

BEGIN = begins("bench.gate")
ROOT = Path(__file__).parents[2]
LIMIT_S = 110.0
TABLE = ["| a |", "| - |", "| 1 |"]


def bench(*words: str | Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
    python_path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    env = {**os.environ, "PYTHONPATH": python_path, "PATH": path or os.environ["PATH"]}
    argv = [sys.executable, "-m", "bench.gate", *map(str, words)]
    return subprocess.run(
        argv, capture_output=True, text=True, cwd=ROOT, env=env, timeout=LIMIT_S, check=False
    )


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the proxy and the load need a core each")
def test_every_measure_gives_its_figures_for_ours_and_for_nginx(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = bench("--quick", "--rounds", "1", "--peers", "nginx,ours", "--json", file)
    assert done.returncode == 0, done.stderr
    medians = json.loads(file.read_text())["medians"]
    assert [figure.key for figure in FIGURES if "ours" in medians[figure.key]] == [f.key for f in FIGURES]
    assert medians["crowd_lost"]["ours"] == 0
    for key in ("cpu_1", "cpu_64", "rate_64", "rate_512", "event_us", "upload_ms", "form_ms", "rewrite_us"):
        assert medians[key]["ours"] > 0
    if shutil.which("nginx"):
        assert {key for key, row in medians.items() if "nginx" not in row} == {"rewrite_us"}
    for figure in FIGURES:
        assert f"| {figure.title} " in done.stdout


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the proxy and the load need a core each")
def test_a_proxy_that_is_not_installed_is_a_line_and_no_failure(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None
    for program in (compiler, shutil.which("as"), shutil.which("ld")):
        assert program is not None
        (tmp_path / Path(program).name).symlink_to(program)
    done = bench("--quick", "--rounds", "1", "--only", "latency", path=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "apt install nginx-light" in done.stderr
    assert "apt install haproxy" in done.stderr
    assert re.search(r"^\| added latency.*\| no nginx", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    "words",
    [
        ("--only", "speed"),
        ("--peers", "apache"),
        ("--rounds", "0"),
        ("--requests", "5"),
        ("--tree", "new"),
        ("--tree", "new=/nowhere"),
        ("--write", "--quick"),
        ("--write", "--only", "small"),
        ("--write", "--peers", "ours"),
        ("--json", "/nowhere/at/all.json"),
        ("--litellm", "/nowhere/litellm"),
    ],
    ids=" ".join,
)
def test_wrong_options_are_refused_before_anything_starts(words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as refused:
        gate.parse(words)
    assert refused.value.code == 2


def test_the_document_has_a_row_for_every_figure_and_names_the_machine() -> None:
    part = DOCUMENT.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    assert [figure.title for figure in FIGURES if f"| {figure.title} " not in part] == []
    assert re.search(r"python -m bench\.gate --.*cores, Linux\s[\d.]+,\sPython\s3", part, re.DOTALL)


def test_write_replaces_the_table_and_nothing_else(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text(f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    for _ in range(2):
        write("a machine", "--rounds 3", TABLE, document)
    text = document.read_text()
    assert text.startswith(f"before\n\n{BEGIN}\n")
    assert text.endswith(f"| 1 |\n{END}\n\nafter\n")
    assert text.count("| 1 |") == 1
    assert "old" not in text


def test_a_document_without_a_place_for_the_table_is_left_alone(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text("nothing\n")
    with pytest.raises(BenchFailed):
        write("a machine", "--rounds 3", TABLE, document)
    assert document.read_text() == "nothing\n"


def test_goals_are_judged_at_their_edges() -> None:
    by_key = {figure.key: figure for figure in FIGURES}
    assert by_key["cpu_64"].passes(1.5, 1.0) is True
    assert by_key["cpu_64"].passes(1.51, 1.0) is False
    assert by_key["rate_64"].passes(0.75, 1.0) is True
    assert by_key["rate_64"].passes(0.74, 1.0) is False
    assert by_key["cpu_64"].passes(1.0, None) is None
    assert by_key["crowd_lost"].passes(0.0, None) is True
    assert by_key["crowd_lost"].passes(1.0, 0.0) is False
    assert by_key["rewrite_us"].passes(150.0, None) is True


def test_two_trees_have_a_column_a_ratio_and_a_verdict_each() -> None:
    head, _, row = lines({"cpu_64": {"nginx": 0.2, "old": 0.4, "new": 0.3}})
    cells = [cell.strip() for cell in head.strip("|").split("|")]
    assert cells[1:6] == ["nginx", "old", "new", "old / nginx", "new / nginx"]
    assert [cell.strip() for cell in row.strip("|").split("|")][4:] == [
        "2.00x",
        "1.50x",
        "≤ 1.5x",
        "miss pass",
    ]
