"""What the end of a run's log says, and what jobs say of themselves now and then."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.core.model import Exit, Job, Run
from headway.daemon.run_ends import run_seen
from headway.drivers.jobs_told import JobTeller
from headway.host.linux_runs import LinuxRuns
from headway.ports import RunSpec
from tests.core.make import job_spec
from tests.parts.fake_runs import FakeRuns
from tests.parts.running import LIMIT_S
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

OUT = [
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.6 GiB",
    "RuntimeError: CUDA error: out of memory",
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 900 MiB on device 0: cudaMalloc failed: out of memory",
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.",
    "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 4,294,967,296 bytes",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "HIP out of memory. Tried to allocate 20.00 MiB",
]
OTHER = [
    "MemoryError",
    "Out of memory: Killed process 4711 (python)",
    "ValueError: the cuda device is busy",
    "ran out of patience",
    "",
]


def told(runs: FakeRuns, lines: list[str], code: int) -> Exit:
    runs.log_tail = lambda run_id, count: lines[-count:]  # type: ignore[method-assign, assignment]
    state = runs.put("j1.1", "j1", exit=Exit(code=code), lock_held=False, gone=True)
    found = run_seen(runs, "j1", state).exit
    assert found is not None
    return found


@pytest.mark.parametrize("line", OUT)
def test_out_of_memory_is_known_by_what_libraries_say(line: str) -> None:
    found = told(FakeRuns(), ["starting", line, "Traceback ends"], 1)
    assert (found.out_of_memory, found.last_line) == (True, "Traceback ends")


def test_of_many_lines_the_last_ones_are_kept_and_of_a_long_one_its_beginning() -> None:
    found = told(FakeRuns(), [*(f"line {number}" for number in range(30)), "", "x" * 1000], 1)
    assert found.last_lines == (*(f"line {number}" for number in range(21, 30)), "x" * 300)
    assert told(FakeRuns(), ["a\0b"], 1).last_lines == ("a\ufffdb",), (
        "no environment and no terminal takes a NUL"
    )


def test_each_step_of_a_progress_bar_is_a_line_of_its_own() -> None:
    bar = "\r".join(f"step {number}" for number in range(1000))
    assert told(FakeRuns(), ["begun", bar], 1).last_lines == tuple(
        f"step {number}" for number in range(990, 1000)
    )


@pytest.mark.parametrize("line", OTHER)
def test_nothing_else_is_taken_for_it(line: str) -> None:
    assert not told(FakeRuns(), [line], 1).out_of_memory


def test_one_that_ended_well_may_have_said_what_it_likes() -> None:
    found = told(FakeRuns(), ["CUDA out of memory, so the batch was made smaller"], 0)
    assert (found.out_of_memory, found.last_line) == (False, None)


# ---------------------------------------------------------------- what jobs say now and then


def shell(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


async def test_health_and_summary_are_asked_for_at_their_own_pace_and_signs_of_work_each_time(
    tmp_path: Path,
) -> None:
    runs, clock = LinuxRuns(tmp_path / "runs"), [0.0]
    spec = job_spec(
        health=shell("exit 1"),
        health_every_s=30.0,
        summary=shell("echo noise; echo best 0.93"),
        stall_after_s=9.0,
    )
    runs.launch(RunSpec(id="j1.1", holder="j1", argv=shell("echo hello; exec sleep 600")))
    await wait_until(lambda: runs.log_tail("j1.1", 1) == ["hello"], LIMIT_S)
    job = Job(id="j1", spec=spec, form="running", run=Run(id="j1.1", lock_held=True, pid=1))
    teller = JobTeller(runs, now_s=lambda: clock[0])
    try:
        first = await teller.ask(job)
        assert (first.healthy, first.summary, first.log_bytes) == (False, "best 0.93", 6)
        assert first.busy_s is not None and first.busy_s >= 0.0
        again = await teller.ask(job)
        assert (again.healthy, again.summary, again.log_bytes) == (None, None, 6)
        clock[0] = 31.0
        assert (await teller.ask(job)).healthy is False
        clock[0] = 62.0
        assert (await teller.ask(job)).summary == "best 0.93"
    finally:
        await runs.stop("j1.1", 0.0)


async def test_a_summary_is_asked_for_once_more_when_its_run_is_over(tmp_path: Path) -> None:
    teller = JobTeller(FakeRuns(), now_s=lambda: 0.0)
    job = Job(id="j1", spec=job_spec(summary=shell("echo done"), health=shell("exit 1")), form="running")
    job = Job(id="j1", spec=job.spec, form="stopped", run=Run(id="j1.1", lock_held=False, gone=True))
    for _ in range(2):
        said = await teller.ask(job)
        assert (said.summary, said.healthy) == ("done", None)


async def test_processor_time_is_of_the_whole_tree(tmp_path: Path) -> None:
    runs = LinuxRuns(tmp_path / "runs")
    runs.launch(RunSpec(id="r", holder="h", argv=shell("(while :; do :; done) & exec sleep 600")))
    try:
        await wait_until(lambda: (runs.busy_s("r") or 0.0) > 0.05, LIMIT_S)
    finally:
        await runs.stop("r", 0.0)
    assert runs.busy_s("r") is None
