"""What only the drivers of jobs do: environments, leftovers, hooks, and what jobs tell."""

import asyncio
import os
import signal
from dataclasses import replace

import pytest

from headway.core.model import Job
from headway.drivers.jobs_told import JobTeller
from headway.errors import CannotStart, HookFailed, LimitPassed, RunNotMade
from headway.ports import Task
from tests.parts.driven import Driven, command, only, shell, without_run
from tests.parts.programs import GIB, held
from tests.parts.running import LIMIT_S, kill_shim, until_so
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

jobs = only("restart", "command", "checkpoint")


@jobs
async def test_a_job_finds_its_environment(driven: Driven) -> None:
    driven.changed(argv=("env",), env={"MINE": "1", "CUDA_VISIBLE_DEVICES": "all"})
    moved = await driven.driver.move(without_run(driven.task("running")))
    await wait_until(lambda: driven.state().gone, LIMIT_S)
    found = dict(line.partition("=")[::2] for line in driven.runs.log_tail("r1", 500))
    directory = driven.runs.directory("r1")
    wanted = {
        "MINE": "1",
        "CUDA_VISIBLE_DEVICES": "GPU-1",
        "HEADWAY_JOB_ID": "h",
        "HEADWAY_RUN_DIR": str(directory),
        "HEADWAY_PROGRESS_FILE": str(directory / "progress"),
        "HEADWAY_PID": str(moved.facts["pid"]),
    }
    assert {name: found[name] for name in wanted} == wanted


@jobs
async def test_a_job_with_an_empty_command_is_refused(driven: Driven) -> None:
    driven.changed(argv=())
    with pytest.raises(CannotStart):
        await driven.driver.move(without_run(driven.task("running")))
    assert driven.runs.known() == []


@jobs
async def test_a_directory_of_runs_that_cannot_be_written_is_no_fault_of_the_command(driven: Driven) -> None:
    runs = driven.runs.directory("r1").parent
    runs.rename(runs.with_name("away"))
    with pytest.raises(RunNotMade) as refused:
        await driven.driver.move(without_run(driven.task("running")))
    assert refused.value.facts["path"] == str(runs) and str(runs) in str(refused.value)
    runs.with_name("away").rename(runs)
    await driven.driver.move(without_run(driven.task("running")))
    assert driven.state().ran


@jobs
async def test_a_job_whose_leader_left_leftovers_is_neither_running_nor_stopped(driven: Driven) -> None:
    driven.changed(argv=shell("sleep 600 & exit 0"))
    await driven.driver.move(without_run(driven.task("running")))
    await wait_until(lambda: driven.state().exit, LIMIT_S)
    assert (await driven.driver.observe(driven.holder())).form is None
    await driven.driver.move(driven.task("stopped", was="running"))
    assert (await driven.driver.observe(driven.holder())).form == "stopped"


@only("command")
async def test_a_job_parks_and_goes_on_as_the_same_process(driven: Driven) -> None:
    reports = driven.directory / "reports"
    await driven.driver.move(without_run(driven.task("running")))
    await wait_until(lambda: (driven.directory / "job" / "control.sock").exists(), LIMIT_S)
    pid = driven.state().pid
    assert held(reports, "GPU-1") == GIB
    await driven.driver.move(driven.task("parked", was="running"))
    assert held(reports, "GPU-1") == 0
    await driven.driver.move(driven.task("parked", was="running", hook_id="r1.hook2"))
    driven.restart()
    await driven.driver.move(driven.task("running", was="parked", hook_id="r1.hook3"))
    assert held(reports, "GPU-1") == GIB and driven.state().pid == pid
    assert driven.runs.known() == ["r1", "r1.hook1", "r1.hook2", "r1.hook3"]
    assert {driven.state(f"r1.hook{n}").kind for n in (1, 2, 3)} == {"hook"}


async def with_hook(driven: Driven, script: str) -> Task:
    """A living job whose park command is `script`, and the task to park it."""
    driven.changed(argv=("sleep", "600"), park=shell(script), resume=shell(script))
    await driven.driver.move(without_run(driven.task("running")))
    return driven.task("parked", was="running")


@only("command")
async def test_a_hook_that_fails_tells_its_code_and_its_last_lines(driven: Driven) -> None:
    task = await with_hook(driven, "echo asking; echo 'nobody there' >&2; exit 4")
    for _ in range(2):  # the second time its recorded exit is taken
        with pytest.raises(HookFailed) as failed:
            await driven.driver.move(task)
        assert failed.value.facts["exit_code"] == 4
        assert failed.value.facts["lines"] == ["asking", "nobody there"]
    assert driven.runs.known() == ["r1", "r1.hook1"]


@only("command")
async def test_a_hook_finds_the_job_s_environment_and_pid(driven: Driven) -> None:
    task = await with_hook(driven, 'echo "$HEADWAY_PID $HEADWAY_JOB_ID $HEADWAY_RUN_DIR"')
    await driven.driver.move(task)
    assert driven.runs.log_tail("r1.hook1", 1) == [f"{driven.state().pid} h {driven.runs.directory('r1')}"]


@only("command")
async def test_a_hook_under_way_is_found_by_the_next_daemon(driven: Driven) -> None:
    go, ran = driven.directory / "go", driven.directory / "ran"
    task = await with_hook(driven, f"echo >> {ran}; while [ ! -e {go} ]; do sleep 0.02; done")
    first = asyncio.gather(driven.driver.move(task))
    await wait_until(ran.exists, LIMIT_S)
    first.cancel()
    driven.restart()
    second = asyncio.gather(driven.driver.move(task))
    await wait_until(lambda: driven.state("r1.hook1").lock_held, LIMIT_S)
    assert not second.done()
    go.touch()
    await second
    assert ran.read_text() == "\n" and (await driven.driver.move(task)).facts == {"hook": "r1.hook1"}


@only("command")
async def test_a_hook_that_hangs_is_ended_at_its_limit_and_the_job_lives(driven: Driven) -> None:
    task = replace(await with_hook(driven, "trap '' TERM; sleep 600; sleep 600"), limit_s=0.5)
    with pytest.raises(LimitPassed):
        await driven.driver.move(task)
    assert not driven.runs.pids("r1.hook1") and driven.runs.pids("r1")


@only("command")
async def test_a_hook_whose_end_nobody_knows_has_failed(driven: Driven) -> None:
    task = await with_hook(driven, "sleep 600")
    moving = asyncio.gather(driven.driver.move(task))
    await wait_until(lambda: "r1.hook1" in driven.runs.known() and driven.state("r1.hook1").ran, LIMIT_S)
    await kill_shim(driven.runs, "r1.hook1", driven.state("r1.hook1").pid or 0)
    with pytest.raises(HookFailed):
        await moving


@only("command")
async def test_nobody_parks_a_job_that_ended(driven: Driven) -> None:
    task = await with_hook(driven, f"echo > {driven.directory}/ran")
    os.kill(driven.state().pid or 0, signal.SIGKILL)
    await wait_until(lambda: driven.state().gone, LIMIT_S)
    with pytest.raises(HookFailed):
        await driven.driver.move(task)
    assert not (driven.directory / "ran").exists()


# ------------------------------------------------------------ what jobs tell


def job_saying(driven: Driven, saved: str = "", progress: str = "") -> Job:
    holder = driven.holder()
    assert isinstance(holder, Job)
    said = replace(
        holder.spec, saved=shell(saved) if saved else (), progress=shell(progress) if progress else ()
    )
    return replace(holder, spec=said)


@only("restart")
async def test_a_job_tells_its_saved_point_and_its_progress(driven: Driven) -> None:
    driven.changed(argv=(*driven.argv, "--step-s", "0.01", "--save-every", "5"))
    await driven.driver.move(without_run(driven.task("running")))
    teller = JobTeller(driven.runs)
    saved = command("demo.jobs.train", "--dir", driven.directory / "job", "--saved")
    holder = driven.holder()
    assert isinstance(holder, Job)
    job = replace(holder, spec=replace(holder.spec, saved=saved))

    async def told() -> bool:
        said = await teller.ask(job)
        return said.saved_age_s is not None and (said.progress or 0) > 0

    await until_so(told, "a saved point")


@only("restart")
async def test_what_a_job_says_is_read_or_left_out(driven: Driven) -> None:
    teller = JobTeller(driven.runs, limit_s=0.5)
    said = await teller.ask(job_saying(driven, saved="echo noise; echo step-4", progress="echo 40 %"))
    assert (said.saved_point, said.saved_age_s, said.progress) == ("step-4", None, 0.4)
    for script in ("exit 1", "echo 3; exit 2", "sleep 600 & sleep 600", "cat /dev/zero"):
        said = await teller.ask(job_saying(driven, saved=script, progress=script))
        assert (said.saved_point, said.saved_age_s, said.progress) == (None, None, None), script
