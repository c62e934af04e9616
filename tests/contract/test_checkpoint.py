"""The driver that parks CUDA programs by `cuda-checkpoint`, against a fake one with the traps that are known of the real one."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from headway.errors import HookFailed, LimitPassed
from tests.parts.driven import Driven, only, shell, without_run
from tests.parts.programs import GIB, held
from tests.parts.running import LIMIT_S
from tests.waiting import wait_until

pytestmark = [pytest.mark.contract, only("checkpoint")]


class Fake:
    """What the fake program knows."""

    def __init__(self, driven: Driven) -> None:
        self.directory = driven.directory / "fake"

    def on_device(self, pid: int, job: Path | None = None) -> None:
        (self.directory / str(pid)).write_text("running")
        if job is not None:
            (self.directory / f"{pid}.memory").write_text(str(job))

    def traps(self, *traps: str) -> None:
        (self.directory / "traps").write_text("".join(f"{trap}\n" for trap in traps))

    def states(self) -> dict[int, str]:
        return {int(f.name): f.read_text() for f in self.directory.iterdir() if f.name.isdigit()}

    def steps(self) -> list[str]:
        """What was done, without what was only asked."""
        lines = (self.directory / "calls").read_text().splitlines()
        return [" ".join(words[1:4:2]) for line in lines if (words := line.split())[0] == "--action"]


async def render(driven: Driven) -> tuple[Fake, int]:
    """A job that holds 1 GiB of a simulated device, and is one process on it."""
    fake = Fake(driven)
    await driven.driver.move(without_run(driven.task("running")))
    await wait_until(lambda: (driven.directory / "job" / "control.sock").exists(), LIMIT_S)
    pid = driven.state().pid or 0
    fake.on_device(pid, driven.directory / "job")
    return fake, pid


async def ranks(driven: Driven) -> tuple[Fake, list[int]]:
    """A job of two processes on devices, below one that is on none."""
    driven.changed(argv=shell("sleep 600 & sleep 600 & wait"))
    fake = Fake(driven)
    await driven.driver.move(without_run(driven.task("running")))
    leader = driven.state().pid or 0
    await wait_until(lambda: len(driven.runs.pids("r1")) == 3, LIMIT_S)
    pids = sorted(driven.runs.pids("r1") - {leader})
    for pid in pids:
        fake.on_device(pid)
    return fake, pids


async def test_a_job_that_knows_nothing_of_it_parks_and_goes_on_as_the_same_process(driven: Driven) -> None:
    fake, pid = await render(driven)
    reports = driven.directory / "reports"
    assert held(reports, "GPU-1") == GIB
    await driven.driver.move(driven.task("parked", was="running"))
    assert (held(reports, "GPU-1"), fake.states()) == (0, {pid: "checkpointed"})
    await driven.driver.move(driven.task("parked", was="running", hook_id="r1.hook2"))  # may be asked twice
    driven.restart()
    await driven.driver.move(driven.task("running", was="parked", hook_id="r1.hook3"))
    assert (held(reports, "GPU-1"), fake.states(), driven.state().pid) == (GIB, {pid: "running"}, pid)
    assert fake.steps() == [f"{step} {pid}" for step in ("lock", "checkpoint", "restore", "unlock")]


async def test_all_are_locked_before_one_is_checkpointed_and_restored_before_one_is_unlocked(
    driven: Driven,
) -> None:
    fake, (one, two) = await ranks(driven)
    await driven.driver.move(driven.task("parked", was="running"))
    await driven.driver.move(driven.task("running", was="parked", hook_id="r1.hook2"))
    steps = ("lock", "checkpoint", "restore", "unlock")
    assert fake.steps() == [f"{step} {pid}" for step in steps for pid in (one, two)]


async def test_strangers_on_the_device_are_never_touched(driven: Driven) -> None:
    fake, (one, two) = await ranks(driven)
    fake.on_device(os.getpid())
    await driven.driver.move(driven.task("parked", was="running"))
    assert fake.states() == {one: "checkpointed", two: "checkpointed", os.getpid(): "running"}


LEFT = {
    # name: (trap, with {one} and {two} for the processes; words that are told)
    "the second cannot be locked": ("lock:{two}:initialization error", "initialization error"),
    "the first cannot be checkpointed": ("checkpoint:{one}:operation not supported", "not supported"),
    "the second cannot be checkpointed": ("checkpoint:{two}:out of memory", "out of memory"),
    "it says that it did, and did not": ("checkpoint:{two}:lies", "and not checkpointed"),
    "its driver is too old": ("help:old", "570"),
    "nobody says who is on the device": ("listing:fails", "NVIDIA-SMI has failed"),
}


@pytest.mark.parametrize("name", LEFT)
async def test_what_fails_half_way_leaves_every_process_running_and_says_why(
    driven: Driven, name: str
) -> None:
    fake, (one, two) = await ranks(driven)
    trap, words = LEFT[name]
    fake.traps(trap.format(one=one, two=two))
    with pytest.raises(HookFailed) as failed:
        await driven.driver.move(driven.task("parked", was="running"))
    assert fake.states() == {one: "running", two: "running"}
    assert words in failed.value.facts["lines"][-1]


async def test_a_program_that_is_not_there_is_told(driven: Driven) -> None:
    driven.options["cuda_checkpoint"] = ("no-such-program",)
    await render(driven)
    with pytest.raises(HookFailed) as failed:
        await driven.driver.move(driven.task("parked", was="running"))
    assert "no-such-program cannot be run" in failed.value.facts["lines"][-1]


async def test_one_that_hangs_is_ended_at_the_limit_and_the_next_park_begins_where_it_was(
    driven: Driven,
) -> None:
    fake, (one, two) = await ranks(driven)
    fake.traps(f"checkpoint:{one}:hangs")
    with pytest.raises(LimitPassed):
        await driven.driver.move(replace(driven.task("parked", was="running"), limit_s=5.0))
    assert fake.states() == {one: "locked", two: "locked"} and not driven.runs.pids("r1.hook1")
    fake.traps()
    await driven.driver.move(driven.task("parked", was="running", hook_id="r1.hook2"))
    assert set(fake.states().values()) == {"checkpointed"}


async def test_a_restore_that_failed_for_one_is_asked_again_for_that_one(driven: Driven) -> None:
    fake, (one, two) = await ranks(driven)
    await driven.driver.move(driven.task("parked", was="running"))
    fake.traps(f"restore:{two}:out of memory")
    with pytest.raises(HookFailed):
        await driven.driver.move(driven.task("running", was="parked", hook_id="r1.hook2"))
    assert fake.states() == {one: "locked", two: "checkpointed"}
    fake.traps()
    await driven.driver.move(driven.task("running", was="parked", hook_id="r1.hook3"))
    assert set(fake.states().values()) == {"running"}


async def test_a_job_without_a_process_on_a_device_has_nothing_to_give_back(driven: Driven) -> None:
    driven.changed(argv=("sleep", "600"))
    await driven.driver.move(without_run(driven.task("running")))
    await driven.driver.move(driven.task("parked", was="running"))
    assert Fake(driven).steps() == []


async def test_one_that_ended_meanwhile_is_not_waited_for(driven: Driven) -> None:
    fake, (one, two) = await ranks(driven)
    await driven.driver.move(driven.task("parked", was="running"))
    os.kill(one, signal.SIGKILL)
    await wait_until(lambda: one not in driven.runs.pids("r1"), LIMIT_S)
    await driven.driver.move(driven.task("running", was="parked", hook_id="r1.hook2"))
    assert fake.states() == {one: "checkpointed", two: "running"}
