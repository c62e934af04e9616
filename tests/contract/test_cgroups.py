"""A cgroup per run, where one can be made: it finds what lost its parent and its environment."""

import asyncio
from pathlib import Path

import pytest

from headway.host import cgroups
from headway.host.cgroups import Scopes
from headway.host.linux_runs import LinuxRuns
from headway.ports import Runs
from tests.parts.running import LIMIT_S, kill_shim, launch, living, until
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

# a process without our token, in a session of its own, whose parent is gone; it leaves its pid in a file
LOST = '(env -i setsid sh -c "echo \\$\\$ > $0; exec sleep 600" &); exec sleep 600'


def usable(directory: Path) -> bool:
    scopes = Scopes(directory)
    made = scopes.make("probe") is not None
    scopes.remove("probe")
    return made


@pytest.fixture
def scoped(runs: LinuxRuns, tmp_path: Path) -> LinuxRuns:
    if not usable(tmp_path / "elsewhere"):
        pytest.skip("cgroup v2 is not ours to write here")
    return runs


async def lost_one(runs: Runs, tmp_path: Path) -> tuple[int, int]:
    """A run with a process of which only its cgroup knows whose it is: (leader, lost one)."""
    path = tmp_path / "pid"
    state = await launch(runs, "r", "sh", "-c", LOST, str(path))
    await wait_until(lambda: path.exists() and path.read_text().strip() != "", LIMIT_S, "its pid")
    assert state.pid is not None
    return state.pid, int(path.read_text())


async def test_what_lost_parent_and_token_is_found_and_ended_when_the_shim_is_dead(
    scoped: LinuxRuns, tmp_path: Path
) -> None:
    leader, lost = await lost_one(scoped, tmp_path)
    await kill_shim(scoped, "r", leader)
    assert scoped.owner(lost) == "r" and lost in scoped.pids("r")
    async with asyncio.timeout(LIMIT_S):
        await scoped.stop("r", 0.0)
    assert living([leader, lost]) == []
    assert Scopes(tmp_path / "runs").pids("r") == []


async def test_a_scope_goes_with_its_run(scoped: LinuxRuns) -> None:
    scope = scoped._scopes.make("other")
    assert scope is not None
    await launch(scoped, "r", "true")
    await until(scoped, "r", lambda state: state.gone)
    assert scope.is_dir() and not (scope.parent / "r").exists()
    scoped._scopes.remove("other")
    assert not scope.parent.exists(), "nor is their directory left"


@pytest.mark.parametrize(
    "mounts", ["", "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n"], ids=["nothing", "version 1"]
)
async def test_without_cgroup_v2_everything_works_by_tree_and_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mounts: str
) -> None:
    (tmp_path / "mounts").write_text(mounts)
    monkeypatch.setattr(cgroups, "MOUNTS", tmp_path / "mounts")
    runs = LinuxRuns(tmp_path / "plain")
    state = await launch(runs, "r", "sleep", "600")
    assert state.pid is not None and runs.owner(state.pid) == "r"
    await runs.stop("r", 1.0)
    assert living([state.pid]) == [] and runs._scopes.make("s") is None
