"""The list of mutations cannot rot: each still applies, has its test, and stands in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import mutations
from tests.mutations import MUTATIONS, ROOT, Mutation, NotThere, applied, first_red, main

pytestmark = pytest.mark.core

NAMES = [mutation.name for mutation in MUTATIONS]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=NAMES)
def test_it_still_applies_and_its_test_is_there(mutation: Mutation) -> None:
    text = (ROOT / "src" / "headway" / "core" / mutation.file).read_text("utf-8")
    broken = applied(mutation, text)
    assert broken != text
    compile(broken, mutation.file, "exec")
    file, _, function = mutation.test.partition("::")
    assert f"\ndef {function}(" in (ROOT / "tests" / "core" / file).read_text("utf-8")
    assert file in mutations.KILLERS


def test_the_names_are_as_documented() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 10
    lines = (ROOT / "docs" / "design" / "mutations.md").read_text("utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    assert rows == [f"| `{m.name}` | {m.breaks} | `core/{m.file}` | `{m.test}` |" for m in MUTATIONS]


def test_all_killers_are_there() -> None:
    assert [name for name in mutations.KILLERS if not (ROOT / "tests" / "core" / name).is_file()] == []


@pytest.mark.parametrize("text", ["", "return 1\nreturn 1\n"], ids=["nowhere", "twice"])
def test_a_text_that_is_not_there_exactly_once_is_an_error(text: str) -> None:
    mutation = Mutation(name="n", breaks="b", file="f.py", old="return 1", new="return 2", test="t")
    with pytest.raises(NotThere):
        applied(mutation, text)


def test_an_unknown_name_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["no-such-thing"])
    assert ended.value.code == 2 and "no-such-thing" in capsys.readouterr().err


RUNS: dict[str, tuple[str, str | None]] = {
    # name: (a test file, the first red test)
    "green": ("def test_a(): pass\n", None),
    "red": ("def test_a(): pass\ndef test_b(): assert False, 'a - b'\n", "test_it.py::test_b"),
}


@pytest.mark.parametrize(("text", "red"), RUNS.values(), ids=RUNS.keys())
def test_the_first_red_test_is_named(text: str, red: str | None, tmp_path: Path) -> None:
    marked = "import pytest\npytestmark = pytest.mark.core\n" + text
    (tmp_path / "test_it.py").write_text(marked, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = core\naddopts = -ra\n", "utf-8")
    assert first_red(tmp_path, ["test_it.py"]) == red


def test_tests_that_cannot_run_are_no_kill(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import nothing_of_that_name\n", "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = core\n", "utf-8")
    with pytest.raises(RuntimeError):
        first_red(tmp_path, ["test_it.py"])
