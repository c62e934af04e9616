"""What no linter says: sizes, names, and who may use what. A limit in LARGER only ever goes down."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.core

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "headway"
CODE = ("src", "tests", "demo", "bench")
TEXT = (*CODE, "docs", "changelog.d", ".ci")
TEXT_KINDS = {".py", ".md", ".toml", ".sql", ".c", ".txt", ".json", ".sh", ".gbnf", ""}

FILE_LINES, CLASS_LINES, FUNCTION_LINES = 400, 200, 60
SMALLER = {"src/headway/core/decide.py": 150, "src/headway/daemon/loop.py": 120}
# "path" or "path::name" -> lines it has today. Grow one and the test fails; shrink it and lower the number.
LARGER: dict[str, int] = {}

BAD_NAME = re.compile(r"(^|_)(utils?|helpers?|common|managers?|base)$")
CORE_STDLIB = {
    "__future__", "bisect", "collections", "dataclasses", "enum", "functools", "heapq", "itertools",
    "json", "math", "operator", "types", "typing", "urllib.parse",
}  # fmt: skip
GATE_THIRD_PARTY = {"msgspec", "httptools", "uvloop"}
CLI_AT_IMPORT = {"headway.cli", "headway.client", "headway.core", "headway.errors"}

# Timers, locks and tasks live where work outlives a call; everywhere else the one loop orders things.
OWNERS = {
    "gate/": "throttle, hold limits, heartbeats, the child's lifecycle",
    "daemon/act.py": "one task per action",
    "daemon/loop.py": "the turn",
    "daemon/tasks.py": "everything else that the daemon does beside its turns",
    "sim/": "the false world's own time",
}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def python_files(*tops: str) -> list[Path]:
    return sorted(path for top in tops for path in (ROOT / top).rglob("*.py"))


def text_files() -> Iterator[Path]:
    yield from (p for p in ROOT.iterdir() if p.is_file() and p.suffix in TEXT_KINDS and p.name != ".git")
    for top in TEXT:
        for path in (ROOT / top).rglob("*"):
            if path.is_file() and path.suffix in TEXT_KINDS and "__pycache__" not in path.parts:
                yield path


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(nodes: ast.AST) -> Iterator[str]:
    """Full names of the modules that any import below `nodes` names."""
    for node in ast.walk(nodes):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            assert node.level == 0, f"relative import of {module}"
            # `from headway import errors` names a module by its alias
            yield from (f"headway.{alias.name}" for alias in node.names) if module == "headway" else (module,)


def sizes() -> Iterator[tuple[str, int, int]]:
    """(name, lines, limit) of every file, class and function."""
    for path in python_files(*CODE):
        name = name_of(path)
        yield name, len(path.read_text("utf-8").splitlines()), SMALLER.get(name, FILE_LINES)
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                limit = CLASS_LINES if isinstance(node, ast.ClassDef) else FUNCTION_LINES
                yield f"{name}::{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1, limit


def test_nothing_outgrows_its_limit() -> None:
    seen = {name: (lines, limit) for name, lines, limit in sizes()}
    grown = [
        f"{name}: {lines} lines, at most {LARGER.get(name, limit)}"
        for name, (lines, limit) in seen.items()
        if lines > LARGER.get(name, limit)
    ]
    assert not grown, "\n".join(grown)
    slack = [name for name, lines in LARGER.items() if seen.get(name, (0, 0))[0] < lines]
    assert not slack, f"smaller than LARGER says; lower or remove: {slack}"


def test_names_say_what_is_inside() -> None:
    bad = [name_of(path) for path in python_files(*CODE) if BAD_NAME.search(path.stem)]
    bad += [name_of(path) for path in python_files(*CODE) if BAD_NAME.search(path.parent.name)]
    assert not bad


def test_core_imports_only_a_short_list_of_the_standard_library() -> None:
    for path in (PACKAGE / "core").rglob("*.py"):
        strange = {
            module
            for module in imported(parsed(path))
            if not {module, module.split(".")[0]} & CORE_STDLIB and not module.startswith("headway.core")
        }
        assert not strange, f"{name_of(path)} imports {sorted(strange)}"


def test_the_gate_needs_three_packages() -> None:
    for path in (PACKAGE / "gate").rglob("*.py"):
        tops = {module.split(".")[0] for module in imported(parsed(path))}
        strange = tops - sys.stdlib_module_names - GATE_THIRD_PARTY - {"headway"}
        assert not strange, f"{name_of(path)} imports {sorted(strange)}"


def test_the_shim_needs_only_the_standard_library() -> None:
    tops = {module.split(".")[0] for module in imported(parsed(PACKAGE / "host" / "shim.py"))}
    assert tops <= sys.stdlib_module_names


def test_cli_imports_the_rest_inside_the_commands_that_run_it() -> None:
    for path in (PACKAGE / "cli").rglob("*.py"):
        for node in parsed(path).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            ours = {".".join(name.split(".")[:2]) for name in imported(node) if name.startswith("headway.")}
            assert ours <= CLI_AT_IMPORT, f"{name_of(path)} imports {sorted(ours - CLI_AT_IMPORT)}"


def test_importing_the_cli_is_light() -> None:
    heavy = "{'pydantic', 'sqlalchemy', 'fastapi', 'rich'}"
    code = f"import sys, headway.cli.main; print(sorted({heavy} & sys.modules.keys()))"
    env = {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_only_host_asks_which_system_this_is() -> None:
    asks = re.compile(r"\bsys\.platform\b|\bos\.name\b|\bplatform\.system\(")
    found = [
        name_of(path)
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "host" and asks.search(path.read_text("utf-8"))
    ]
    assert not found


def test_timers_locks_and_tasks_stay_with_their_owners() -> None:
    makes = re.compile(r"\bcall_later\(|\bcall_at\(|\bLock\(|\bcreate_task\(|\bensure_future\(")
    found = [
        name
        for path in PACKAGE.rglob("*.py")
        if not (name := path.relative_to(PACKAGE).as_posix()).startswith(tuple(OWNERS))
        and makes.search(path.read_text("utf-8"))
    ]
    assert not found, f"{found}: only {list(OWNERS)} make timers, locks or tasks"


def test_acting_knows_no_kinds() -> None:
    """A new kind of holder is a driver, not a branch in act.py."""
    for node in ast.walk(parsed(PACKAGE / "daemon" / "act.py")):
        if isinstance(node, ast.Compare | ast.match_case):
            assert ".kind" not in ast.unparse(node), ast.unparse(node)


def test_no_text_refers_to_the_machine_it_was_written_on() -> None:
    places = re.compile(
        r"(?<![\w.}\]/])/(?:work|root|tmp|home/\w+)/|\.\./shared\b|\bshared/(?:design|facts|proto)"
    )
    found = [
        f"{name_of(path)}:{number}"
        for path in text_files()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), start=1)
        if places.search(line)
    ]
    assert not found


def test_nothing_is_left_for_later() -> None:
    later = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|raise NotImplementedError")
    found = [
        name_of(path)
        for path in text_files()
        if path != Path(__file__) and later.search(path.read_text("utf-8"))
    ]
    assert not found
