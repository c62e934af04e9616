"""The last config in force is kept, and is gone on with only by a part that starts again while the file is bad."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from headway.config.kept import keep, loaded
from headway.config.load import load
from headway.errors import ConfigInvalid

pytestmark = pytest.mark.core

EXAMPLE = Path(__file__).parents[2] / "docs" / "example.toml"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "config.toml"
    made.write_text(EXAMPLE.read_text("utf-8"))
    return made


def test_what_is_kept_is_the_same_config(file: Path, tmp_path: Path) -> None:
    place = tmp_path / "last.json"
    config = load(file, {})
    keep(config, place)
    file.write_text("mode = \n")
    again, problems = loaded(file, place, again=True)
    assert again == config and len(problems) == 1
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_a_file_without_problems_counts_whatever_is_kept(file: Path, tmp_path: Path) -> None:
    place = tmp_path / "last.json"
    keep(load(file, {}), place)
    file.write_text('mode = "shadow"\n')
    config, problems = loaded(file, place, again=True)
    assert (config.mode, list(config.service), problems) == ("shadow", [], [])


KEPT = {
    "a first start": (False, None),
    "nothing kept": (True, None),
    "not ours": (True, "{"),
    "of another version": (True, '{"new": 1}'),
    "no text": (True, b"\xff\x00\xfe"),
    "nested too deep": (True, "[" * 200_000),
}


@pytest.mark.parametrize(("again", "text"), KEPT.values(), ids=KEPT.keys())
def test_the_problems_are_told_where_there_is_nothing_to_go_on_with(
    again: bool, text: str | bytes | None, file: Path, tmp_path: Path
) -> None:
    place = tmp_path / "last.json"
    if not again:
        keep(load(file, {}), place)
    if text is not None:
        place.write_bytes(text if isinstance(text, bytes) else text.encode())
    file.write_text("mode = \n")
    with pytest.raises(ConfigInvalid):
        loaded(file, place, again)


def test_a_place_that_cannot_be_written_keeps_the_one_before(file: Path, tmp_path: Path) -> None:
    keep(load(file, {}), tmp_path / "no" / "last.json")  # raises nothing


@pytest.mark.parametrize("text", [b"", b"\xff\x00\xfe", b"[]"])
def test_a_copy_that_is_damaged_is_written_anew(text: bytes, file: Path, tmp_path: Path) -> None:
    place = tmp_path / "last.json"
    place.write_bytes(text)
    config = load(file, {})
    keep(config, place)
    file.write_text("mode = \n")
    assert loaded(file, place, again=True)[0] == config
