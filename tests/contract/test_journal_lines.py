"""The journal: what was written is given back, what was cut is left out, and what was damaged is named by its line."""

import json
import shlex
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headway.errors import LineUnreadable, StoreFailed
from headway.store.cut_lines import is_beginning
from headway.store.journal import FileJournal

pytestmark = pytest.mark.contract

# of all that can be in one, so that a cut falls into each of it
ENTRY = {
    "holder": "j1",
    "pending": {
        "at_s": [1, -2.5e-7, 1e300, float("inf"), float("-inf"), [], {}, {"x": [{"y": None}]}],
        'k"\\': {"": True, "f": False},
        "text": 'a"\\b\u00e9\ud83d\n{[}]',
    },
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a home").mkdir()
    return tmp_path / "a home" / "journal.ndjson"


def test_the_journal_gives_back_what_was_written(path: Path) -> None:
    journal = FileJournal(path)
    assert journal.read() == {}
    journal.append({"holder": "7", "to": "parked\n"})
    FileJournal(path).append({"holder": "8"})
    assert journal.read() == {1: {"holder": "7", "to": "parked\n"}, 2: {"holder": "8"}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    journal.clear()
    assert journal.read() == {}
    journal.clear()


def test_a_cut_line_is_left_out_and_takes_no_other_with_it_wherever_it_is_cut(path: Path) -> None:
    journal = FileJournal(path)
    journal.append({"n": 1})
    before = path.stat().st_size
    journal.append(ENTRY)
    whole = path.read_bytes()
    for kept in range(before, len(whole) + 1):
        path.write_bytes(whole[:kept])
        cut: dict[int, Any] = {1: {"n": 1}} | ({2: ENTRY} if kept >= len(whole) - 1 else {})
        assert journal.read() == cut, whole[:kept]
        journal.append({"n": 3})
        assert journal.read() == {**cut, 2 if kept == before else 3: {"n": 3}}, whole[:kept]


def test_zeros_that_a_loss_of_power_left_are_none_of_it(path: Path) -> None:
    journal = FileJournal(path)
    for rest in (b"\0" * 20, b'{"holder":"j1","pen\0\0\0'):
        path.write_bytes(rest)
        journal.append({"n": 1})
        assert journal.read() == {2: {"n": 1}}


DAMAGED = {
    "no JSON": b"garbage garbage",
    "a list": b"[1,2]",
    "a number": b"7",
    "the beginning of a list": b"[1,",
    "more than an object": b'{"n":1}}',
    "an object with a hole": b'{"n" 1',
    "a key without a value": b'{"n"}',
    "no text": b"\xff\xfe{",
    "nested too deep": b'{"n":' + b"[" * 200_000,
    "nested too deep, and closed": b'{"n":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
}


@pytest.mark.parametrize("line", DAMAGED.values(), ids=DAMAGED.keys())
@pytest.mark.parametrize("after", [b"", b"\n", b'\n{"n":3}\n'], ids=["not ended", "ended", "not the last"])
def test_whatever_is_no_object_and_not_how_one_begins_is_named_by_its_line(
    path: Path, line: bytes, after: bytes
) -> None:
    text = b'{"n":1}\n\n{"cut\n' + line + after
    path.write_bytes(text)
    with pytest.raises(LineUnreadable) as raised:
        FileJournal(path).read()
    assert raised.value.facts == {"line": 4, "file": str(path)}
    assert path.read_bytes() == text, "nothing is changed"
    subprocess.run(shlex.split(str(raised.value).split("`")[-2]), check=True)
    assert FileJournal(path).read() == {}


def test_a_directory_in_its_place_is_named_with_the_way_out(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreFailed) as raised:
        FileJournal(path).read()
    assert raised.value.facts == {"reason": "journal", "path": str(path)}
    subprocess.run(shlex.split(str(raised.value).split("`")[-2]), check=True)
    assert FileJournal(path).read() == {}


def test_a_journal_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed):
        FileJournal(tmp_path / "missing" / "journal.ndjson").append({})


def test_whatever_is_held_to_be_cut_can_be_gone_on_with() -> None:
    """Every line with one sign too many, told by a second way: an object that begins so was never whole before."""
    line = json.dumps(ENTRY, separators=(",", ":"))
    assert all(is_beginning(line[:kept]) for kept in range(len(line)))
    assert not any(is_beginning(line + sign) for sign in '{}[],:"0a')
