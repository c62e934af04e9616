"""One damaged file of one run: it takes with it what it said and nothing else, and no run is begun twice for it."""

import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headway.core import codec
from headway.core.commands import Configure
from headway.core.model import Exit, Job, Policy
from headway.daemon.adopt import Adopted, adopt, outdated
from headway.drivers.launching import ensure_launched
from headway.errors import RunUnreadable
from headway.host.linux_runs import LinuxRuns
from headway.host.run_files import RunFiles
from headway.ports import Runs, RunSpec, RunState, Saved
from tests.parts.adopting import NOW_S, WALL_S, job, run_of
from tests.parts.fake_store import FakeJournal
from tests.parts.running import LIMIT_S, kill_shim, launch_tree, living, until
from tests.waiting import wait_until

pytestmark = pytest.mark.contract


def in_its_place(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(bytes(range(255, 0, -1))),
    "cut": lambda path: path.write_bytes(path.read_bytes().rstrip()[:-1]),
    "a list": lambda path: path.write_text("[]"),
    "without a word": lambda path: path.write_text("{}"),
    "of wrong words": lambda path: path.write_text(
        '{"id": 1, "pid": "x", "code": null, "holder": [], "token": 0, "at_s": NaN}'
    ),
    "nested too deep": lambda path: path.write_text("[" * 200_000),
    "a directory": in_its_place,
}
damaged = pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
# where what is unreadable is the same to the code that is tested
damaged_anyhow = pytest.mark.parametrize(
    "damage", [DAMAGE["garbage"], in_its_place], ids=["garbage", "a directory"]
)


async def ran(runs: Runs, run_id: str, code: int = 3) -> RunState:
    holder = run_id.partition(".")[0]
    await ensure_launched(
        runs, RunSpec(id=run_id, holder=holder, argv=("sh", "-c", f"echo said; exit {code}"))
    )
    return await until(runs, run_id, lambda state: state.gone and not state.lock_held)


async def lives(runs: Runs, run_id: str, port: int | None = None) -> RunState:
    holder = run_id.partition(".")[0]
    return await ensure_launched(
        runs, RunSpec(id=run_id, holder=holder, argv=("sh", "-c", "sleep 600 & wait"), port=port)
    )


def adopted(runs: LinuxRuns, *jobs: Job) -> Adopted:
    saved = Saved(
        holders=tuple((h.id, h.kind, codec.dumps(h)) for h in jobs), pending=(), offsets={}, meta={}
    )
    configure = Configure(services=(), recipes=())
    return adopt(saved, FakeJournal(), runs, configure, Policy(), "live", {}, NOW_S, WALL_S)


@damaged
@pytest.mark.parametrize("name", ["spec.json", "started", "exit"])
async def test_a_run_that_ended_is_told_as_one_that_ended_and_is_not_begun_again(
    runs: Runs, tmp_path: Path, name: str, damage: Callable[[Path], object]
) -> None:
    await ran(runs, "j1.1")
    other = await ran(runs, "j2.1")
    file = runs.directory("j1.1") / name
    damage(file)
    again = LinuxRuns(tmp_path / "runs")
    assert again.damaged == [file]
    state = again.read("j1.1")
    assert state is not None
    assert (state.id, state.holder, state.kind) == ("j1.1", "j1", "main")
    assert state.ended and state.ran and again.pids("j1.1") == frozenset()
    assert (state.exit is None) == (name == "exit") and (state.pid is None) == (name == "started")
    assert again.read("j2.1") == other and again.log_tail("j1.1", 9) == ["said"]
    found = adopted(again, job(run=run_of("j1")), job(hid="j2", run=run_of("j2")))
    one = found.snapshot.holders["j1"]
    assert isinstance(one, Job) and one.run is not None and not one.run.alive and one.devices == ()
    assert (one.ended, one.run.exit is None) == (("lost", True) if name == "exit" else ("failed", False))
    same = await ensure_launched(again, RunSpec(id="j1.1", holder="j1", argv=("sleep", "600")))
    assert same == state, "it was begun again"
    again.forget("j1.1")
    assert again.known() == ["j2.1"]


async def test_a_code_that_is_in_the_row_outlives_its_file(runs: Runs, tmp_path: Path) -> None:
    await ran(runs, "j1.1")
    DAMAGE["empty"](runs.directory("j1.1") / "exit")
    over = replace(run_of("j1"), lock_held=False, gone=True, exit=Exit(code=3))
    found = adopted(LinuxRuns(tmp_path / "runs"), job("stopped", run=over, ended="failed"))
    one = found.snapshot.holders["j1"]
    assert one.run is not None and one.run.exit == Exit(code=3)


@damaged_anyhow
@pytest.mark.parametrize("names", [["spec.json"], ["started"], ["spec.json", "started"]])
async def test_a_job_that_lives_goes_on_and_its_processes_tell_who_they_are(
    runs: Runs, tmp_path: Path, names: list[str], damage: Callable[[Path], object]
) -> None:
    before = await lives(runs, "j1.1")
    await wait_until(lambda: len(runs.pids("j1.1")) == 2, LIMIT_S)
    pids, files = runs.pids("j1.1"), [runs.directory("j1.1") / name for name in names]
    for file in files:
        damage(file)
    again = LinuxRuns(tmp_path / "runs")
    assert again.damaged == files and LinuxRuns(tmp_path / "runs").damaged == []
    state = again.read("j1.1")
    assert state is not None
    assert (state.id, state.holder, state.lock_held) == ("j1.1", "j1", True)
    assert (state.pid, state.start_ticks, state.boot_id) == (before.pid, before.start_ticks, before.boot_id)
    assert again.pids("j1.1") == pids and {again.owner(pid) for pid in pids} == {"j1.1"}
    assert not adopted(again, job(run=run_of("j1"))).orphans
    await again.stop("j1.1", 5.0)
    ended = again.read("j1.1")
    assert ended is not None and ended.exit is not None and ended.gone and not living(pids)


@damaged_anyhow
@pytest.mark.parametrize("name", ["spec.json", "started"])
async def test_what_a_killed_shim_left_is_ended_though_one_of_two_files_is_damaged(
    runs: Runs, tmp_path: Path, name: str, damage: Callable[[Path], object]
) -> None:
    before = await lives(runs, "j1.1")
    await wait_until(lambda: len(runs.pids("j1.1")) == 2, LIMIT_S)
    pids = runs.pids("j1.1")
    await kill_shim(runs, "j1.1", before.pid or 0)
    damage(runs.directory("j1.1") / name)
    again = LinuxRuns(tmp_path / "runs")
    found = adopted(again, job(run=run_of("j1")))
    assert found.watch == [("j1", "j1.1")], "nobody would end what is left of it"
    assert again.pids("j1.1") == pids
    await again.stop("j1.1", 0.0)
    assert not living(pids)
    state = again.read("j1.1")
    assert state is not None and state.gone


async def test_of_a_server_whose_port_nobody_knows_the_way_out_is_named(runs: Runs, tmp_path: Path) -> None:
    await lives(runs, "chat.1", port=8100)
    await wait_until(lambda: len(runs.pids("chat.1")) == 2, LIMIT_S)
    pids, file = runs.pids("chat.1"), runs.directory("chat.1") / "spec.json"
    DAMAGE["empty"](file)
    with pytest.raises(RunUnreadable) as raised:
        LinuxRuns(tmp_path / "runs")
    assert raised.value.facts["file"] == str(file) and frozenset(raised.value.facts["pids"]) == pids
    assert living(pids) and file.read_bytes() == b"", "nothing is changed"
    subprocess.run(shlex.split(str(raised.value).split("`")[-2]), check=True)
    await wait_until(lambda: not RunFiles(file.parent).locked(), LIMIT_S)
    state = LinuxRuns(tmp_path / "runs").read("chat.1")
    assert state is not None and state.holder == "chat" and state.gone and state.exit is not None
    assert state.exit.code == -signal.SIGTERM


async def test_a_leader_that_left_is_not_told_by_its_children(runs: Runs, tmp_path: Path) -> None:
    """Who its leader was is in the damaged file alone: it is named, and nothing else is taken for it."""
    await launch_tree(runs, "j1.1", "a leader that left")
    await until(runs, "j1.1", lambda state: state.exit is not None)
    pids = runs.pids("j1.1")
    DAMAGE["garbage"](runs.directory("j1.1") / "started")
    with pytest.raises(RunUnreadable) as raised:
        LinuxRuns(tmp_path / "runs")
    assert frozenset(raised.value.facts["pids"]) == pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    await wait_until(lambda: not RunFiles(runs.directory("j1.1")).locked(), LIMIT_S)
    state = LinuxRuns(tmp_path / "runs").read("j1.1")
    assert state is not None and state.exit is not None
    assert state.ended and state.ran and state.exit.code == 3


async def test_what_is_no_run_is_left_alone(tmp_path: Path) -> None:
    directory = tmp_path / "runs"
    directory.mkdir()
    strays = ("file", ".file", "zz/", "j9.1/", "j8.1", "j2." + "9" * 40 + "/", "j1." + "9" * 200, "\udcff.1/")
    for name in strays:
        (directory / name).mkdir() if name.endswith("/") else (directory / name).write_text("hi")
    runs = LinuxRuns(directory)
    assert runs.damaged == []
    for run_id in runs.known():
        assert (
            runs.read(run_id) is None and runs.pids(run_id) == frozenset() and runs.log_tail(run_id, 9) == []
        )
        runs.forget(run_id)
        await runs.stop(run_id, 0.0)
    found = adopted(runs, job("stopped"))
    assert found.orphans == [] and outdated(runs, found.snapshot) == []
    assert found.snapshot.next_job == 10, "a number that is taken there is not given again"
    assert found.snapshot.holders["j1"].runs == 0
    assert sorted(os.listdir(directory)) == sorted(name.rstrip("/") for name in strays)
