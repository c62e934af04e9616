"""What is too large, too long or not there any more is refused by the command itself, in its own words."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from headway.core.units import parse_size
from tests.parts.command_line import api as api
from tests.parts.command_line import headway
from tests.parts.false_api import Served
from tests.parts.programs import ROOT

pytestmark = pytest.mark.contract

REFUSED = {
    # the words: what is named
    "add --max-time 367d -- true": ("--max-time", "366d"),
    "add --stall-after 367d -- true": ("--stall-after", "366d"),
    f"add --max-time {'9' * 400}d -- true": ("--max-time", "366d"),
    "edit j2 --max-time 367d": ("--max-time", "366d"),
    "run --gpu 1GiB --ttl 367d -- true": ("--ttl", "366d"),
    "window start no_model --for 367d": ("--for", "366d"),
    "events -n 1001": ("-n", "1000"),
    "add --priority \u00b2 -- true": ("--priority",),
    "claim --pid 1 --gpu 1025TiB": ("gpu", "1024TiB"),
    f"claim --pid 1 --gpu {'9' * 5000}GiB": ("gpu", "5000"),
    f"run --gpu {'9' * 5000}GiB -- true": ("gpu", "5000"),
}


@pytest.mark.parametrize(("words", "named"), REFUSED.items(), ids=[words[:40] for words in REFUSED])
async def test_too_much_is_refused_with_what_it_was(
    api: Served, home: Path, words: str, named: tuple[str, ...]
) -> None:
    result = await headway(home, *shlex.split(words))
    assert result.exit_code == 2 and not api.inbox.given
    assert all(word in result.stderr for word in named), result.stderr


async def test_the_largest_are_taken(api: Served, home: Path) -> None:
    assert (await headway(home, "add", "--max-time", "366d", "--", "true")).exit_code == 0
    assert (await headway(home, "events", "-n", "1000")).exit_code == 0


@pytest.mark.parametrize("digits", [101, 5000])
def test_a_size_of_endless_digits_is_refused_in_our_words(digits: int) -> None:
    assert parse_size("9" * 100 + "GiB")
    with pytest.raises(ValueError, match=str(digits)):
        parse_size("9" * digits + "GiB")


def test_adding_from_a_directory_that_was_removed(tmp_path: Path) -> None:
    argv = [
        sys.executable,
        "-m",
        "headway.cli.main",
        "--home",
        str(tmp_path),
        "add",
        "--gpu",
        "0",
        "--",
        "true",
    ]
    (tmp_path / "left").mkdir()
    script = f"cd left && rmdir ../left && {shlex.join(argv)}"
    result = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert result.returncode == 2 and "--cwd" in result.stderr and "Traceback" not in result.stderr
