"""One look at the GPUs for `headway check`: it answers in time, whatever the library does."""

import sys
from pathlib import Path

import pytest

from headway.meters.once import read_once
from tests.parts.fake_nvml import DRIVER_NOT_LOADED, Box, FakeGpu
from tests.parts.programs import GIB

pytestmark = pytest.mark.contract


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    box = Box(tmp_path, FakeGpu("GPU-a", total_bytes=24 * GIB), FakeGpu("GPU-b"))
    for name, value in box.environment().items():
        monkeypatch.setenv(name, value)
    return box


def test_it_shows_every_card(box: Box) -> None:
    reading = read_once()
    assert reading.trouble is None
    assert [(one.name, one.id.rpartition("/")[2]) for one in reading.devices] == [
        ("gpu0", "GPU-a"),
        ("gpu1", "GPU-b"),
    ]


def test_a_missing_driver_is_its_trouble(box: Box) -> None:
    box.faults({"nvmlInitWithFlags": DRIVER_NOT_LOADED})
    assert (read_once().devices, read_once().trouble) == ((), "the NVIDIA driver is not loaded")


BROKEN = {
    # name: (program, limit_s, words)
    "it hangs": ((sys.executable, "-c", "import time; time.sleep(600)"), 0.2, "did not answer within 0.2 s"),
    "it crashes": ((sys.executable, "-c", "import os; os.abort()"), 30.0, "prints no readings"),
    "it is not there": (("no-such-program",), 30.0, "cannot be started"),
}


@pytest.mark.parametrize(("argv", "limit_s", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_meter_that_does_not_answer_is_said(argv: tuple[str, ...], limit_s: float, words: str) -> None:
    assert words in (read_once(argv, limit_s).trouble or "")
