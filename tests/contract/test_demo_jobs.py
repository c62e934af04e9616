"""The two jobs: one goes on from its saved point, one can be parked."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from demo import sim_device
from tests.parts.programs import GIB, LIMIT_S, held, program, run, sleeper
from tests.waiting import wait_for

pytestmark = pytest.mark.contract


def test_training_goes_on_from_its_saved_point(tmp_path: Path) -> None:
    state, reports, progress = tmp_path / "state", tmp_path / "reports", tmp_path / "progress"
    environment = {
        **os.environ,
        "HEADWAY_PROGRESS_FILE": str(progress),
        "CUDA_VISIBLE_DEVICES": "sim1",
    }
    options = ["demo.jobs.train", "--dir", state, "--reports", reports, "--steps", 40, "--step-s", 0.02]
    assert json.loads(run("demo.jobs.train", "--dir", state, "--saved").stdout)["age_s"] is None

    def done() -> int:
        return int(json.loads(progress.read_text())["done"]) if progress.exists() else 0

    with program(*options, environment=environment) as job:
        wait_for(lambda: done() >= 12, LIMIT_S)
        assert held(reports, "sim1") == 14 * GIB
        assert run(*options).returncode == 3, "a second copy refuses to run"
        assert len((state / "copies").read_text().split()) == 1
        job.kill()
        wait_for(lambda: held(reports, "sim1") == 0, LIMIT_S)
    saved = json.loads(run("demo.jobs.train", "--dir", state, "--steps", 40, "--saved").stdout)
    assert saved["done"] in (10, 20, 30)
    assert saved["total"] == 40
    with program(*options, "--exit-code", 5, environment=environment) as job:
        assert job.wait(LIMIT_S) == 5
        said = job.communicate()[0]
    assert f"going on from step {saved['done']} of 40" in said
    assert json.loads(progress.read_text()) == {"done": 40, "total": 40}
    assert held(reports, "sim1") == 0


def test_training_fails_clearly_without_memory_and_can_wait_for_it(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    sim_device.set_bytes(reports, "sim0", 11 * GIB)
    options = ["demo.jobs.train", "--dir", tmp_path / "state", "--reports", reports, "--steps", 1]
    failed = run(*options)
    assert failed.returncode == sim_device.OUT_OF_MEMORY_EXIT
    assert "out of memory on sim0" in failed.stderr
    with program(*options, "--patience-s", 60, "--alloc-late-s", 0.1) as job:
        with pytest.raises(subprocess.TimeoutExpired):
            job.wait(0.5)
        sim_device.clear(reports, "sim0")
        assert job.wait(LIMIT_S) == 0


def test_training_ends_on_sigterm(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    with program("demo.jobs.train", "--dir", tmp_path, "--reports", reports, "--bytes", 1) as job:
        wait_for(lambda: held(reports) == 1, LIMIT_S)
        job.terminate()
        assert job.wait(LIMIT_S) == 128 + signal.SIGTERM
        assert os.listdir(reports) == [".lock"]


@contextmanager
def rendering(state: Path, reports: Path, *options: object) -> Iterator[subprocess.Popen[str]]:
    with program(
        "demo.jobs.render", "--dir", state, "--reports", reports, "--frame-s", 0.02, *options
    ) as job:
        wait_for(lambda: (state / "control.sock").exists(), LIMIT_S)
        yield job


def control(state: Path, word: str) -> subprocess.CompletedProcess[str]:
    return run("demo.jobs.render_ctl", word, "--dir", state)


def test_rendering_parks_stands_still_and_goes_on(tmp_path: Path) -> None:
    state, reports = tmp_path / ("deep" * 30) / "state", tmp_path / "reports"

    def frame() -> int:
        path = state / "frame"
        return int(path.read_text()) if path.exists() else 0

    with rendering(state, reports) as job:
        wait_for(lambda: frame() > 1, LIMIT_S)
        assert held(reports) == 14 * GIB
        for _ in range(2):
            assert control(state, "park").stdout == "parked\n"
            assert held(reports) == 0
        assert control(state, "status").stdout == "parked\n"
        stood_at = frame()
        with sleeper() as other:
            sim_device.set_bytes(reports, "sim0", 11 * GIB, other.pid)
            refused = control(state, "resume")
            assert (refused.returncode, "out of memory" in refused.stderr) == (1, True)
        assert held(reports) == 0
        assert frame() <= stood_at + 1, "it may have been in the middle of one"
        assert control(state, "resume").stdout == "running\n"
        assert held(reports) == 14 * GIB
        wait_for(lambda: frame() > stood_at + 2, LIMIT_S)
        job.kill()
        job.wait()
        refused = control(state, "park")
        assert (refused.returncode, "does not answer" in refused.stderr) == (1, True)
    with rendering(state, reports) as job:  # a killed one leaves nothing in the way
        wait_for(lambda: control(state, "status").stdout == "running\n", LIMIT_S)
        job.terminate()
        assert job.wait(LIMIT_S) == 128 + signal.SIGTERM


def test_rendering_can_lie_and_can_keep_a_residue(tmp_path: Path) -> None:
    for name, options, left in [
        ("liar", ["--keeps-memory"], 14 * GIB),
        ("honest", ["--residue", "1GiB"], GIB),
    ]:
        with rendering(tmp_path / name, tmp_path / "reports", *options):
            wait_for(lambda: held(tmp_path / "reports") == 14 * GIB, LIMIT_S)
            assert control(tmp_path / name, "park").stdout == "parked\n"
            assert held(tmp_path / "reports") == left
