"""Fixtures every test may use. Nothing here knows a part of Headway."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.processes import Started

KINDS = ("e2e", "sim", "contract", "core")  # in the order in which they run: those that wait longest first

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("HEADWAY_CI") else "here")

# behind a shell's `&` it is ignored, and everything that tests start would inherit that
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test that does not say which kind it is; what is short comes last, so that workers end together."""
    kinds = {item: {mark.name for mark in item.iter_markers()}.intersection(KINDS) for item in items}
    if bare := sorted({item.nodeid for item, kind in kinds.items() if not kind}):
        raise pytest.UsageError(f"each test needs one of the markers {sorted(KINDS)}: {', '.join(bare)}")
    items.sort(key=lambda item: min(KINDS.index(kind) for kind in kinds[item]))


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A directory whose path leaves room for a Unix socket's name (108 bytes); `tmp_path` may not."""
    path = Path(tempfile.mkdtemp(prefix="hw-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def home(short_dir: Path) -> Path:
    """An empty directory for `--home`, mode 0700."""
    path = short_dir / "home"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """Starts processes and ends them, trees included, when the test is over."""
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    processes = Started(log_dir)
    yield processes
    processes.close()
