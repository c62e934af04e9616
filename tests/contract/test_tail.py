"""The request log is read exactly once, however it is cut, rotated, and whenever the reader is killed."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.model import Snapshot
from headway.daemon import tail as source
from headway.daemon.record import Recorder
from headway.daemon.tail import Tail
from headway.host.gate_files import RequestFiles
from headway.ports import RequestLine
from headway.store.store import SqliteStore
from tests.parts.fake_store import FakeClock, FakeJournal

pytestmark = pytest.mark.contract

MAY, JUNE, OTHER = "2026-05.g1.ndjson", "2026-06.g1.ndjson", "2026-05.g2.ndjson"


def write(directory: Path, name: str, data: bytes) -> None:
    with (directory / name).open("ab") as log:
        log.write(data)


def docs(lines: list[RequestLine]) -> list[str]:
    return [line.doc for line in lines]


def test_files_of_past_months_go_once_every_byte_was_read(tmp_path: Path) -> None:
    tail = Tail(RequestFiles(tmp_path), {})
    write(tmp_path, MAY, b'{"a":1}\n')
    write(tmp_path, OTHER, b'{"a":1}\n{"cut"')
    write(tmp_path, JUNE, b'{"b":1}\n')
    tail.drop_before("2026-06")
    assert len(list(tmp_path.iterdir())) == 3
    tail.read()
    tail.drop_before("2026-05")
    assert len(list(tmp_path.iterdir())) == 3
    tail.drop_before("2026-06")
    assert {file.name for file in tmp_path.iterdir()} == {JUNE, OTHER}


def test_whole_lines_only_and_each_with_its_place(tmp_path: Path) -> None:
    tail = Tail(RequestFiles(tmp_path), {})
    write(tmp_path, MAY, b'{"a":1}\n{"b":2}\n{"c"')
    lines, offsets = tail.read()
    assert [(line.offset, line.doc) for line in lines] == [(0, '{"a":1}'), (8, '{"b":2}')]
    assert offsets == {MAY: 16} and tail.read() == ([], {})
    write(tmp_path, MAY, b":3}\n")
    lines, offsets = tail.read()
    assert [(line.offset, line.doc) for line in lines] == [(16, '{"c":3}')] and offsets == {MAY: 24}


def test_a_reader_begins_where_the_last_saved_one_ended(tmp_path: Path) -> None:
    write(tmp_path, MAY, b"one\ntwo\n")
    assert docs(Tail(RequestFiles(tmp_path), {MAY: 4}).read()[0]) == ["two"]
    assert docs(Tail(RequestFiles(tmp_path), {}).read()[0]) == [
        "one",
        "two",
    ]  # killed before its offset was saved


def test_a_new_month_and_another_gate_are_files_of_their_own(tmp_path: Path) -> None:
    tail = Tail(RequestFiles(tmp_path), {})
    write(tmp_path, MAY, b"a\n")
    assert docs(tail.read()[0]) == ["a"]
    write(tmp_path, JUNE, b"b\n")
    write(tmp_path, OTHER, b"c\n")
    write(tmp_path, MAY, b"late\n")
    lines, offsets = tail.read()
    assert [(line.source, line.doc) for line in lines] == [(MAY, "late"), (OTHER, "c"), (JUNE, "b")]
    assert offsets == {MAY: 7, OTHER: 2, JUNE: 2}


ODD = {
    # name: (bytes, lines)
    "empty lines": (b"\n\na\n\n", ["a"]),
    "a line of a gate that was killed, and the next one's": (b'{"a"\n{"b":1}\n', ['{"a"', '{"b":1}']),
    "not utf-8": (b"\xff\xfe\n", ["\ufffd\ufffd"]),
    "nothing": (b"", []),
    "no end": (b"a", []),
}


@pytest.mark.parametrize(("data", "wanted"), ODD.values(), ids=ODD.keys())
def test_odd_bytes(tmp_path: Path, data: bytes, wanted: list[str]) -> None:
    write(tmp_path, MAY, data)
    assert docs(Tail(RequestFiles(tmp_path), {}).read()[0]) == wanted


def test_places_are_counted_in_bytes(tmp_path: Path) -> None:
    first = "  {é}  \n".encode()
    write(tmp_path, MAY, first + b"next\n")
    lines, offsets = Tail(RequestFiles(tmp_path), {}).read()
    assert [(line.offset, line.doc) for line in lines] == [(0, "{é}"), (len(first), "next")]
    assert offsets == {MAY: len(first) + 5}


def test_no_directory_is_nothing_to_read(tmp_path: Path) -> None:
    assert Tail(RequestFiles(tmp_path / "none"), {}).read() == ([], {})


def test_a_long_log_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "CHUNK_BYTES", 100)
    wanted = [f"line {number}" for number in range(200)]
    write(tmp_path, MAY, b"".join(line.encode() + b"\n" for line in wanted))
    tail, found = Tail(RequestFiles(tmp_path), {}), list[str]()
    while part := docs(tail.read()[0]):
        found += part
    assert found == wanted


def test_a_line_longer_than_a_part_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "CHUNK_BYTES", 100)
    write(tmp_path, MAY, b"x" * 350 + b"\nafter\n")
    tail, found = Tail(RequestFiles(tmp_path), {}), list[str]()
    for _ in range(6):
        found += docs(tail.read()[0])
    assert found[-1] == "after"


# -------------------------------------------------------------------- with the store


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 40), st.sampled_from((MAY, OTHER, JUNE))),
        st.tuples(st.sampled_from(("read", "save", "kill")), st.just(0), st.just("")),
    ),
    max_size=60,
)


@settings(max_examples=50)
@given(STEPS)
def test_history_is_the_file_whatever_is_killed(script: list[tuple[str, int, str]]) -> None:
    """Any cut of the writes, any number of readers that die between reading and saving."""
    with tempfile.TemporaryDirectory() as directory:
        _play(Path(directory), script)


def _play(directory: Path, script: list[tuple[str, int, str]]) -> None:
    whole = {name: _log(name) for name in (MAY, OTHER, JUNE)}
    written = dict.fromkeys(whole, 0)
    history: list[tuple[str, int, str]] = []
    saved: dict[str, int] = {}
    tail, unsaved, moved = Tail(RequestFiles(directory), saved), list[RequestLine](), dict[str, int]()
    for step, size, name in (*script, ("read", 0, ""), ("save", 0, "")):
        if step == "write":
            write(directory, name, whole[name][written[name] : written[name] + size])
            written[name] = min(written[name] + size, len(whole[name]))
        elif step == "read":
            lines, offsets = tail.read()
            unsaved += lines
            moved |= offsets
        elif step == "save":  # one transaction: lines and offsets
            history += [(line.source, line.offset, line.doc) for line in unsaved]
            saved |= moved
            unsaved, moved = [], {}
        else:
            tail, unsaved, moved = Tail(RequestFiles(directory), dict(saved)), [], {}
    for name, log in whole.items():
        done = log[: written[name]].rpartition(b"\n")[0]
        wanted = done.decode().split("\n") if done else []
        assert [doc for source_, _, doc in history if source_ == name] == wanted


def _log(name: str) -> bytes:
    return b"".join(json.dumps({"from": name, "n": n}).encode() + b"\n" for n in range(60))


async def test_lines_and_offsets_are_in_the_database_together_once(tmp_path: Path) -> None:
    """Through the real store, with a kill between read and save, and one after the save."""
    requests, database = tmp_path / "requests", tmp_path / "db.sqlite"
    requests.mkdir()
    write(requests, MAY, b'{"service":"chat"}\n{"service":"chat"}\n{"serv')
    Tail(RequestFiles(requests), {}).read()  # and the daemon is killed
    for _ in range(2):
        store = SqliteStore(database)
        tail = Tail(RequestFiles(requests), dict(store.load().offsets))
        recorder = Recorder(store, FakeJournal(), FakeClock(), lambda event: None)
        lines, offsets = tail.read()
        recorder.tailed(lines, offsets)
        await recorder.flush(Snapshot(now_s=1.0))
        await store.close()
        write(requests, MAY, b'ice":"other"}\n')
    store = SqliteStore(database)
    assert store.load().offsets == {MAY: 58}
    await store.close()
    with sqlite3.connect(database) as db:
        rows = db.execute("SELECT service, offset FROM request ORDER BY offset").fetchall()
    assert rows == [("chat", 0), ("chat", 19), ("other", 38)]
