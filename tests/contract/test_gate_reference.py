"""docs/reference/gate.md says what the code does: every route, header, error, limit and metric stands in it, and no other."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.core import paths
from headway.gate import lines, refusals
from tests.parts.gate_play import Play, get
from tests.parts.programs import ROOT

pytestmark = pytest.mark.contract

GATE = ROOT / "src" / "headway" / "gate"
TEXT = (ROOT / "docs" / "reference" / "gate.md").read_text()
UNITS = {"s": 1, "KiB": 1024, "MiB": 1024**2, "letters": 1, "": 1}
# Limits that nobody outside can see: sizes of buffers, pauses of loops, bounds of what the log reads of an answer.
INSIDE = {
    "answer.ERROR_TEXT_MAX_BYTES", "beat.BEAT_S", "bodies.SECOND_LOOK_MAX_BYTES", "call.UPLOAD_HIGH_BYTES",
    "child.AGAIN_FIRST_S", "child.AGAIN_MAX_S", "child.GONE_POLL_S", "child.LINK_HIGH_BYTES",
    "lines.ROUNDING_S", "lines.STALL_FIRST_S", "link.DEMAND_EVERY_S", "link.TROUBLE_EVERY_S", "locks.ASK_LIMIT_S",
    "locks.NAMES_MAX_BYTES", "locks.PAUSE_S", "log.WRITE_EVERY_S", "metrics.WAIT_BOUNDS_S", "parent.AGAIN_FIRST_S",
    "parent.AGAIN_MAX_S", "parent.POLL_S", "parent.STEADY_S", "protocol.LINGER_S", "protocol.PENDING_HIGH_BYTES",
    "upstream.HIGH_BYTES", "usage.CALL_MAX_BYTES", "usage.OVERLAP_BYTES", "usage.SCAN_BYTES",
}  # fmt: skip


def section(title: str) -> str:
    """The text below a heading, up to the next of its depth or less."""
    found = re.search(rf"^(#+) {re.escape(title)}.*$", TEXT, re.MULTILINE)
    assert found is not None, title
    rest = TEXT[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def table(text: str) -> list[list[str]]:
    """The cells of every row of its tables, headings and rulers left out."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]
    rulers = {at for at, row in enumerate(rows) if set("".join(row)) <= set("-")}
    return [row for at, row in enumerate(rows) if at not in rulers and at + 1 not in rulers]


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call in the gate and its router, with the name that is called."""
    for path in (*GATE.glob("*.py"), Path(paths.__file__), Path(paths.__file__).with_name("route.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield getattr(node.func, "id", getattr(node.func, "attr", "")), node


def raised() -> dict[str, int]:
    """code -> status, as the code says it."""
    found = dict(lines.STATUS)
    for name, node in calls():
        words = [one.value if isinstance(one, ast.Constant) else None for one in node.args]
        if name in ("document", "error_of"):
            words = words[1:]
        if name in ("BadRequest", "Refused", "Refuse", "refuse", "fail", "_error", "document") and words:
            code, status = words[0], words[1] if len(words) > 1 else 400
            if isinstance(code, str) and isinstance(status, int):
                assert found.setdefault(code, status) == status, code
    return found


def test_every_error_stands_there_with_its_status() -> None:
    told = {row[0].strip("`"): int(row[1]) for row in table(section("Errors"))}
    codes = raised()
    assert set(told) == set(refusals.WORDS)
    assert {code: told[code] for code in codes if code in told} == codes
    by_variable = {"host_refused", "origin_refused", "service_failed", "service_held"}
    assert set(told) - set(codes) <= by_variable


def test_every_route_stands_where_it_belongs() -> None:
    asked = {
        (verb, path) for row in table(section("Requests")) for verb in [row[0]] for path in quoted(row[1])
    }
    assert asked == set(paths.INFERENCE)
    probed = {path for row in table(section("Probes")) for path in quoted(row[0])}
    assert probed == {path for path, _ in paths.PROBES}
    control = {path for row in table(section("Control routes")) for path in quoted(row[1])}
    assert control == {path for _, path in paths.CONTROL}
    assert quoted(section("Where a request goes").partition("prefixes")[2]) >= set(paths.PREFIXES)


def test_every_header_that_the_gate_reads_stands_there() -> None:
    read = set(re.findall(r'b"(x-[a-z-]+)"', (GATE / "callers.py").read_text()))
    told = " ".join(quoted(section("Headers"))).lower()
    assert {name for name in read if name not in told} == set()
    written = {
        name
        for path in GATE.glob("*.py")
        for name in re.findall(r"\b(X-[A-Z][A-Za-z-]+[a-z])\b", path.read_text())
    }
    assert {name for name in written - {"X-Headway"} if name.lower() not in told} == set()


def limits() -> dict[str, object]:
    """Every number that the gate's files name at their top."""
    found = {}
    for path in GATE.glob("*.py"):
        module = importlib.import_module(f"headway.gate.{path.stem}")
        for node in ast.parse(path.read_text()).body:
            names = ast.walk(node) if isinstance(node, ast.Assign | ast.AnnAssign) else ()
            named = {one.id for one in names if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
            for name in named:
                inner = name.startswith("_") or "KEPT" in name  # of a cache
                if name.endswith(("_S", "_BYTES", "_MAX", "BACKLOG")) and not inner:
                    found[f"{path.stem}.{name}"] = getattr(module, name)
    return found


def test_every_limit_stands_there_with_its_number() -> None:
    told = {row[2].strip("`"): row[1] for row in table(section("Limits"))}
    there = limits()
    assert set(told) == set(there) - INSIDE
    for name, text in told.items():
        number, _, unit = text.partition(" ")
        assert float(number) * UNITS[unit] == there[name], name


def test_every_metric_stands_there_with_its_kind() -> None:
    play = Play()
    _, pipe = play.ask(get("/metrics"))
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", pipe.out.decode(), re.MULTILINE))
    told = {row[0].strip("`"): row[1] for row in table(section("`GET /metrics`"))}
    assert told == kinds and kinds
    play.close()
