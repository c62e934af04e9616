"""The supervisor's parts, and what is told of what goes on."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headway import supervisor
from headway.cli.ask import BAD_CONFIG, EXITS
from headway.config.paths import Paths
from headway.host.linux_runs import LinuxRuns
from headway.host.locks import take_lock
from headway.host.run_files import RunFiles
from headway.ports import RunSpec
from headway.supervisor import Part
from tests.parts.programs import ROOT
from tests.waiting import wait_for

pytestmark = pytest.mark.contract

LIMIT_S = 30.0


def part(tmp_path: Path, *codes: int) -> Part:
    """One that ends with the first code at its first start, with the second at its second, and so on."""
    script = (
        "import pathlib, sys; p = pathlib.Path(sys.argv[1]); n = len(p.read_text()) if p.exists() else 0; "
        "p.write_text('x' * (n + 1)); sys.exit(int(sys.argv[2 + min(n, len(sys.argv) - 3)]))"
    )
    argv = [sys.executable, "-c", script, str(tmp_path / "starts"), *map(str, codes)]
    return Part("gate", argv, tmp_path / "gate-parent.lock")


def looked(one: Part, until: Callable[[], bool] = lambda: False) -> int | None:
    """Look until it gives a status, or until something is so."""
    found: list[int] = []

    def look() -> bool:
        if (code := one.look()) is not None:
            found.append(code)
        return bool(found) or until()

    wait_for(look, LIMIT_S, "an end")
    return found[0] if found else None


TAKEN = 73
FINAL = {
    # name: (codes of its starts, status at the end, starts); None: it goes on
    "wrong usage": ((2,), 2, 1),
    "wrong config": ((BAD_CONFIG,), BAD_CONFIG, 1),
    "a port is taken at the first start": ((TAKEN,), TAKEN, 1),
    "a crash is started again": ((1, 1), None, 3),
    "a port that is taken later may be free again": ((1, TAKEN), None, 3),
    "a config that is broken later may be in the middle of an edit": ((1, BAD_CONFIG), None, 3),
}


@pytest.mark.parametrize(("codes", "status", "starts"), FINAL.values(), ids=FINAL.keys())
def test_which_end_is_final(tmp_path: Path, codes: tuple[int, ...], status: int | None, starts: int) -> None:
    one, path = part(tmp_path, *codes), tmp_path / "starts"
    assert (
        looked(one, lambda: path.exists() and len(path.read_text()) >= starts + (status is not None))
        == status
    )
    assert len(path.read_text()) == starts


def test_both_ends_know_the_same_exit_codes() -> None:
    assert {EXITS["already_running"], EXITS["port_taken"]} == {TAKEN}
    assert EXITS["config_invalid"] in supervisor.FINAL


def test_whoever_holds_a_lock_is_ended_by_its_pid(tmp_path: Path) -> None:
    lock = tmp_path / "up.lock"
    code = (
        "import sys, time, pathlib\nfrom headway.host.locks import take_lock\n"
        "take_lock(pathlib.Path(sys.argv[1]))\ntime.sleep(600)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(lock)], env={**os.environ, "PYTHONPATH": str(ROOT / "src")}
    )
    try:
        wait_for(lambda: supervisor.locked_by(lock) == child.pid, LIMIT_S, "the lock")
        assert supervisor.end_locked(lock)
        assert child.wait(LIMIT_S) == -signal.SIGTERM
    finally:
        child.kill()
    assert supervisor.locked_by(lock) is None
    assert not supervisor.end_locked(lock), "nobody is left to end"


def test_a_part_that_an_earlier_one_left_is_not_started_beside_it(tmp_path: Path) -> None:
    one = part(tmp_path, 0)
    held = take_lock(one.lock)
    assert held is not None
    until_s = time.monotonic() + 0.2
    looked(one, lambda: time.monotonic() > until_s)
    assert one.starts == 0
    os.close(held)
    looked(one, lambda: one.starts > 0)


def test_a_command_that_is_named_works_where_the_home_has_a_blank(short_dir: Path) -> None:
    paths = Paths.find(short_dir / "a home", {})
    words = shlex.split(supervisor.typed(paths, "status").strip("`"))
    assert words == ["headway", "--home", str(paths.home), "status"]


async def test_what_lives_is_told_with_its_pid_and_how_to_end_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = Paths.find(home, {})
    paths.create()
    runs = LinuxRuns(paths.runs_dir)
    supervisor.tell_living(paths, {})
    assert capsys.readouterr().err == ""
    runs.launch(RunSpec(id="j7.1", holder="j7", argv=("sleep", "600")))
    runs.launch(RunSpec(id="j7.1.parked.1", holder="j7", argv=("sleep", "600"), kind="hook"))
    try:
        wait_for(lambda: all(map(runs.pids, ("j7.1", "j7.1.parked.1"))), LIMIT_S, "both")
        wait_for(lambda: supervisor.living(paths)["j7"], LIMIT_S, "its pid")
        (pid,) = runs.pids("j7.1")
        supervisor.tell_living(paths, {"j7": "train"})
    finally:
        for run in ("j7.1", "j7.1.parked.1"):
            await runs.stop(run, 0.0)
    said = capsys.readouterr().err
    assert f"1 goes on: j7 train (pid {pid})." in said
    assert f"headway --home {home} down --all" in said
    assert supervisor.living(paths) == {}


async def test_a_run_that_wrote_its_last_word_lives_no_more_though_its_shim_is_still_about_to_leave(
    home: Path,
) -> None:
    paths = Paths.find(home, {})
    paths.create()
    runs = LinuxRuns(paths.runs_dir)
    runs.launch(RunSpec(id="j7.1", holder="j7", argv=("sleep", "600")))
    try:
        wait_for(lambda: supervisor.living(paths).get("j7"), LIMIT_S, "its pid")
        last_word = RunFiles(paths.runs_dir / "j7.1")
        last_word.mark_gone()
        assert last_word.locked()
        assert supervisor.living(paths) == {}
        (paths.runs_dir / "j7.1" / "gone").unlink()
    finally:
        await runs.stop("j7.1", 0.0)
