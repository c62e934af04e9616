"""The files of a run, read while its shim writes them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.host.run_files import RunFiles
from headway.ports import RunSpec

pytestmark = pytest.mark.contract

# in the order in which a shim writes them
WRITTEN: dict[str, dict[str, Any]] = {
    "started": {
        "pid": 7,
        "start_ticks": 70,
        "shim": 6,
        "shim_start_ticks": 60,
        "boot_id": "boot",
        "at_s": 1.0,
    },
    "executed": {},
    "exit": {"code": 3, "at_s": 2.0, "peak_host_bytes": 1},
    "gone": {"by": "shim"},
}
LOOKS = 6  # more than `state` takes


class Slowly(RunFiles):
    """Between two looks of one reading the shim writes all that it still has to."""

    def document(self, name: str) -> dict[str, Any] | None:
        found = super().document(name)
        BETWEEN[0]()
        return found


BETWEEN: list[Callable[[], None]] = [lambda: None]


def write(files: RunFiles, names: list[str]) -> None:
    for name in names:
        (files.directory / name).write_text(json.dumps(WRITTEN[name]))


@pytest.mark.parametrize("before", range(len(WRITTEN) + 1))
@pytest.mark.parametrize("look", range(LOOKS))
def test_whatever_is_written_between_two_looks_no_end_is_seen_without_what_came_before_it(
    before: int, look: int, tmp_path: Path
) -> None:
    files = Slowly(tmp_path / "j1.1")
    lock = files.create(RunSpec(id="j1.1", holder="j1", argv=("true",)), "token")
    names, looks = list(WRITTEN), [0]
    write(files, names[:before])

    def written() -> None:
        if looks[0] == look:
            write(files, names[before:])
        looks[0] += 1

    BETWEEN[0] = written
    state = files.state()
    BETWEEN[0] = lambda: None
    assert state is not None and state.lock_held
    assert state.exit is not None or not state.gone, "gone, and nobody knows its code"
    assert state.ran or state.exit is None, "over, and said never to have run"
    os.close(lock)
