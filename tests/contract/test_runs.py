"""Process trees under shims: how they end, who they belong to, and what is known of them after a kill."""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headway.host.linux_proc import Process, process
from headway.host.linux_runs import SHIM, LinuxRuns
from headway.host.run_files import RunFiles
from headway.ports import Runs, RunSpec
from tests.parts.programs import ROOT
from tests.parts.running import (
    LIMIT_S,
    PYTHON,
    TREES,
    kill_shim,
    launch,
    launch_tree,
    living,
    shim_of,
    until,
)
from tests.waiting import wait_for, wait_until

pytestmark = pytest.mark.contract

LAUNCH_AND_DIE = """
import os, signal, sys
from pathlib import Path
from headway.host.linux_runs import SHIM, LinuxRuns
from headway.ports import RunSpec
LinuxRuns(Path(sys.argv[1])).launch(RunSpec(id="r", holder="h", argv=("sh", "-c", sys.argv[2])))
os.kill(os.getpid(), signal.SIGKILL)
"""


def launch_and_die(directory: Path, script: str) -> subprocess.Popen[bytes]:
    """A process that launches the run `r` and kills itself at once."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.Popen([sys.executable, "-c", LAUNCH_AND_DIE, str(directory), script], env=environment)


# ------------------------------------------------------------ how runs end

ENDS = {
    # name: (argv, cwd, exit code, whether it could be executed)
    "code 0": (("true",), None, 0, True),
    "code 7": (("sh", "-c", "exit 7"), None, 7, True),
    "killed by a signal": (("sh", "-c", "kill -KILL $$"), None, -9, True),
    "its own TERM is not ignored": (("sh", "-c", "kill -TERM $$; exit 5"), None, -15, True),
    "missing": (("no-such-command",), None, 127, False),
    "not executable": (("/etc/passwd",), None, 126, False),
    "a directory": (("/",), None, 126, False),
    "empty": ((), None, 127, False),
    "no such directory to run in": (("true",), "/no/such/place", 127, False),
}


@pytest.mark.parametrize(("argv", "cwd", "code", "executed"), ENDS.values(), ids=ENDS.keys())
async def test_exit_code(
    runs: Runs, argv: tuple[str, ...], cwd: str | None, code: int, executed: bool
) -> None:
    await launch(runs, "r", *argv, cwd=cwd)
    state = await until(runs, "r", lambda state: state.gone)
    assert state.exit is not None
    assert (state.exit.code, state.error is None) == (code, executed)
    assert state.exit.error == state.error
    assert executed or runs.log_tail("r", 1) == [state.error], "its log says why too"
    assert (
        state.exit.at_s is not None
        and abs(time.clock_gettime(time.CLOCK_BOOTTIME) - state.exit.at_s) < LIMIT_S
    )
    assert state.ran and state.ended and state.boot_id == runs.boot_id
    await until(runs, "r", lambda state: not state.lock_held)


async def test_an_exit_is_known_while_the_rest_of_the_tree_lives(runs: Runs) -> None:
    await launch(runs, "r", "sh", "-c", "sleep 600 & exit 4")
    state = await until(runs, "r", lambda state: state.exit is not None)
    assert state.exit is not None and state.exit.code == 4
    assert state.lock_held and not state.gone and not state.ended
    (left,) = runs.pids("r")
    os.kill(left, signal.SIGKILL)
    await until(runs, "r", lambda state: state.gone)


async def test_peak_memory_is_the_leader_s(runs: Runs) -> None:
    await launch(runs, "r", *PYTHON, "x = b'x' * (64 << 20)")
    state = await until(runs, "r", lambda state: state.gone)
    assert state.exit is not None and (64 << 20) < (state.exit.peak_host_bytes or 0) < (256 << 20)


@pytest.mark.parametrize("by_token", [False, True], ids=["under its shim", "after its shim was killed"])
@pytest.mark.parametrize("name", TREES)
async def test_stop_ends_the_whole_tree(runs: Runs, name: str, by_token: bool) -> None:
    pids = await launch_tree(runs, "r", name)
    if by_token:
        os.kill(topmost_shim(pids), signal.SIGKILL)
        state = await until(runs, "r", lambda state: not state.lock_held)
        assert not state.gone
        assert runs.pids("r") == pids
    async with asyncio.timeout(LIMIT_S):
        await runs.stop("r", 0.3)
    assert living(pids) == [] and runs.pids("r") == frozenset()
    state = await until(runs, "r", lambda state: not state.lock_held)
    assert state.gone
    assert (state.exit is None) is (by_token and "left" not in name)
    await runs.stop("r", 0.3)


def topmost_shim(pids: frozenset[int]) -> int:
    """The one parent outside the tree."""
    (shim,) = {shim_of(pid) for pid in pids} - pids
    return shim


async def test_a_tree_that_obeys_is_not_killed(runs: Runs, tmp_path: Path) -> None:
    await launch(
        runs,
        "r",
        "sh",
        "-c",
        f"trap 'sleep 0.2; echo saved > {tmp_path}/s; exit 9' TERM; echo up; while :; do sleep 0.05; done",
    )
    await wait_until(lambda: runs.log_tail("r", 1) == ["up"], LIMIT_S)
    await runs.stop("r", 10.0)
    state = runs.read("r")
    assert state is not None and state.exit is not None and state.exit.code == 9
    assert (tmp_path / "s").read_text() == "saved\n"


async def test_term_comes_once(runs: Runs) -> None:
    script = "trap 'echo term' TERM; echo up; while :; do sleep 0.02; done"
    await launch(runs, "r", "sh", "-c", script)
    await wait_until(lambda: runs.log_tail("r", 1) == ["up"], LIMIT_S)
    await runs.stop("r", 0.8)
    assert runs.log_tail("r", 999).count("term") == 1


async def test_what_a_command_starts_to_save_its_work_gets_no_term(runs: Runs) -> None:
    script = "trap 'sh -c \"sleep 0.5; echo saved\"; exit 0' TERM; echo up; while :; do sleep 0.02; done"
    await launch(runs, "r", "sh", "-c", script)
    await wait_until(lambda: runs.log_tail("r", 1) == ["up"], LIMIT_S)
    await runs.stop("r", 10.0)
    assert runs.log_tail("r", 1) == ["saved"]


async def test_a_tree_that_forks_all_the_time_is_ended(runs: Runs) -> None:
    script = "trap '' TERM; while :; do (trap '' TERM; sleep 5) & sleep 0.01; done"
    await launch(runs, "r", "sh", "-c", script)
    await wait_until(lambda: len(runs.pids("r")) > 10, LIMIT_S)
    await runs.stop("r", 0.1)
    assert runs.pids("r") == frozenset()


async def test_a_zombie_does_not_count(runs: Runs) -> None:
    await launch(runs, "r", *PYTHON, "import os,time\nif os.fork(): time.sleep(600)")
    state = runs.read("r")
    assert state is not None and state.pid is not None
    await wait_until(lambda: any(one.state == "Z" for one in children_of(state.pid or 0)), LIMIT_S)
    assert runs.pids("r") == {state.pid}


async def test_a_process_whose_first_thread_ended_counts(runs: Runs) -> None:
    script = "import ctypes,threading,time\nthreading.Thread(target=time.sleep,args=(600,)).start()\nctypes.CDLL(None).pthread_exit(0)"
    state = await launch(runs, "r", *PYTHON, script)
    assert state.pid is not None

    def looks_dead() -> bool:
        one = process(state.pid or 0)
        return one is not None and one.state == "Z"

    await wait_until(looks_dead, LIMIT_S)
    assert runs.pids("r") == {state.pid}
    await runs.stop("r", 0.0)
    assert not living([state.pid])


def children_of(pid: int) -> list[Process]:
    names = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [one for one in (process(int(name)) for name in names) if one is not None]


# ------------------------------------------------------------ what survives kills


@pytest.mark.parametrize("attempt", range(3))
async def test_a_killed_launcher_leaves_a_run_that_is_locked_at_every_instant(
    tmp_path: Path, attempt: int
) -> None:
    directory = tmp_path / "runs"
    directory.mkdir()
    launcher = launch_and_die(directory, "sleep 0.2; (sleep 0.2 &); exit 7")
    files = RunFiles(directory / "r")
    wait_for(files.directory.exists, LIMIT_S, "the run")
    looks, deadline_s = 0, time.monotonic() + LIMIT_S
    while True:
        held, gone = files.locked(), (files.directory / "gone").exists()
        assert held or gone, f"unlocked at look {looks}"
        looks += 1
        if gone:
            break
        assert time.monotonic() < deadline_s
    assert launcher.wait(LIMIT_S) == -signal.SIGKILL
    assert looks > 100
    adopted = LinuxRuns(directory)
    state = adopted.read("r")
    assert state is not None and state.exit is not None and state.exit.code == 7


async def test_a_new_object_takes_over_a_living_run(runs: Runs, tmp_path: Path) -> None:
    pids = await launch_tree(runs, "r", "grandchildren")
    adopted = LinuxRuns(tmp_path / "runs")
    assert adopted.known() == ["r"]
    assert adopted.pids("r") == pids and {adopted.owner(pid) for pid in pids} == {"r"}
    assert adopted.read("r") == runs.read("r")
    await adopted.stop("r", 1.0)
    assert not living(pids)


async def test_a_killed_shim_loses_the_exit_code_and_nothing_else(runs: Runs) -> None:
    pids = await launch_tree(runs, "r", "children")
    state = runs.read("r")
    assert state is not None and state.pid is not None
    await kill_shim(runs, "r", state.pid)
    assert runs.pids("r") == pids
    assert {runs.owner(pid) for pid in pids} == {"r"}
    with pytest.raises(ValueError):
        runs.forget("r")
    await runs.stop("r", 1.0)
    lost = runs.read("r")
    assert lost is not None and lost.ran and lost.exit is None and lost.gone
    runs.forget("r")
    assert runs.read("r") is None


async def test_a_shim_killed_early_never_leaves_a_command_that_nobody_knows_of(
    runs: Runs, tmp_path: Path
) -> None:
    """Killed at any moment of its first 60 ms: without `started` the command did not run, and will not."""
    chance, seen = random.Random(5), {True: 0, False: 0}
    for number in range(30):
        ran = tmp_path / f"ran{number}"
        runs.launch(RunSpec(id=f"r{number}", holder="h", argv=("sh", "-c", f"echo > {ran}; exec sleep 600")))
        shim = runs._children[f"r{number}"].pid  # type: ignore[attr-defined]
        await asyncio.sleep(chance.uniform(0, 0.06))
        os.kill(shim, signal.SIGKILL)
        state = await until(runs, f"r{number}", lambda state: not state.lock_held)
        seen[state.ran] += 1
        if not state.ran:
            assert runs.pids(f"r{number}") == frozenset()
            runs.forget(f"r{number}")
        else:
            await runs.stop(f"r{number}", 0.0)
    assert seen[True] and seen[False], seen
    assert len(list(tmp_path.glob("ran*"))) <= seen[True]


async def test_a_shim_that_cannot_write_started_runs_nothing(runs: Runs, tmp_path: Path) -> None:
    files = RunFiles(runs.directory("r"))
    lock = files.create(RunSpec(id="r", holder="h", argv=("touch", str(tmp_path / "ran"))), "token")
    (files.directory / "started" / "in the way").mkdir(parents=True)
    shim = subprocess.Popen(
        [sys.executable, "-I", "-S", str(SHIM), str(lock), str(files.directory)],
        pass_fds=(lock,),
        start_new_session=True,
        stderr=subprocess.PIPE,
    )
    os.close(lock)
    _, words = shim.communicate(timeout=LIMIT_S)  # until the child has closed the pipe too
    assert shim.returncode == 1 and b"Error" in words
    assert not (tmp_path / "ran").exists() and not files.locked()
    shutil.rmtree(files.directory)


async def test_a_launcher_killed_before_the_shim_leaves_a_run_that_never_ran(runs: Runs) -> None:
    spec = RunSpec(id="r", holder="h", argv=("true",))
    os.close(RunFiles(runs.directory("r")).create(spec, "token"))
    state = runs.read("r")
    assert state is not None and not state.ran and state.ended and state.exit is None
    with pytest.raises(FileExistsError):
        runs.launch(spec)
    await runs.stop("r", 0.0)
    runs.forget("r")
    runs.launch(spec)
    await until(runs, "r", lambda state: state.gone)


async def test_half_made_runs_are_cleared_away(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "runs" / ".r.new").mkdir()
    assert runs.known() == []
    LinuxRuns(tmp_path / "runs")
    assert os.listdir(tmp_path / "runs") == []


async def test_signals_meant_for_others_do_not_end_a_shim(runs: Runs) -> None:
    state = await launch(runs, "r", "sleep", "600")
    assert state.pid is not None
    shim = shim_of(state.pid)
    assert os.getsid(shim) == shim and os.getsid(state.pid) == state.pid
    for number in (
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGTSTP,
    ):
        os.kill(shim, number)
    os.kill(state.pid, signal.SIGKILL)
    ended = await until(runs, "r", lambda state: state.gone)
    assert ended.exit is not None and ended.exit.code == -signal.SIGKILL


# ------------------------------------------------------------ what a command finds


async def test_the_command_inherits_no_lock_and_no_signal_of_ours(runs: Runs) -> None:
    script = "import os\nfor fd in sorted(os.listdir('/proc/self/fd')):\n  print(os.path.realpath('/proc/self/fd/'+fd))"
    await launch(runs, "r", *PYTHON, script)
    await until(runs, "r", lambda state: state.gone)
    open_files = {line for line in runs.log_tail("r", 50) if not line.startswith("/proc/")}
    assert open_files == {"/dev/null", str(runs.directory("r") / "log")}
    await launch(runs, "s", "grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status")
    await until(runs, "s", lambda state: state.gone)
    kept_by_libc = 0b11 << 31  # signals 32 and 33: ignored as whoever started the tests left them
    assert [int(line.split()[1], 16) & ~kept_by_libc for line in runs.log_tail("s", 5)] == [0, 0]


async def test_the_environment_is_the_daemon_s_plus_the_spec_s(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NOTIFY_SOCKET", "HEADWAY_TOKEN", "MINE", "OTHER"):
        monkeypatch.setenv(name, "outer")
    runs.launch(RunSpec(id="r", holder="h", argv=("env",), env={"MINE": "inner", "A": "ü\n=1"}))
    state = await until(runs, "r", lambda state: state.gone)
    lines = runs.log_tail("r", 500)
    found = dict(line.partition("=")[::2] for line in lines)
    assert (found["MINE"], found["OTHER"], found["A"]) == ("inner", "outer", "ü")
    assert found["HEADWAY_PID"] == str(state.pid)
    assert found["HEADWAY_RUN"].startswith("r.")
    assert not found.keys() & {"NOTIFY_SOCKET", "HEADWAY_TOKEN"}


async def test_output_goes_straight_to_the_log_in_order(runs: Runs) -> None:
    await launch(runs, "r", "sh", "-c", "seq 1 20000; echo last >&2")
    await until(runs, "r", lambda state: state.gone)
    assert runs.log_tail("r", 3) == ["19999", "20000", "last"]
    assert len(runs.log_tail("r", 10**6)) > 5000
    assert runs.log_tail("r", 0) == [] and runs.log_tail("nobody", 5) == []


@pytest.mark.parametrize("run_id", ["", "..", "a/b", ".hidden", "a\0b", "x" * 300])
def test_an_id_that_cannot_name_a_directory_is_refused(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(ValueError):
        LinuxRuns(tmp_path).launch(RunSpec(id=run_id, holder="h", argv=("true",)))
    assert os.listdir(tmp_path) == []
