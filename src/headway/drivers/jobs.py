"""A job as a run of its command: what the drivers of jobs share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headway.core.model import Holder
from headway.drivers.launching import end_earlier, end_present, ensure_launched, leader_lives, left_behind
from headway.ports import Moved, Runs, RunSpec, RunState, Seen, Task

PROGRESS = "progress"  # the file a job may write, in its run's directory


def job_env(runs: Runs, holder: Holder, run_id: str, device_env: Mapping[str, str]) -> dict[str, str]:
    """What a job and its hooks find in their environment, on top of the daemon's own."""
    directory = runs.directory(run_id)
    return {
        **holder.spec.env,
        **device_env,
        "HEADWAY_JOB_ID": holder.id,
        "HEADWAY_RUN_DIR": str(directory),
        "HEADWAY_PROGRESS_FILE": str(directory / PROGRESS),
    }


def progress_file(runs: Runs, run_id: str) -> Path:
    """Where the job of that run may write how far it is."""
    return runs.directory(run_id) / PROGRESS


def present_run(runs: Runs, holder: Holder) -> RunState | None:
    """The holder's run as its files show it; None: there is none."""
    return runs.read(holder.run.id) if holder.run else None


def look(runs: Runs, holder: Holder) -> Seen:
    """Running while the leader lives, stopped when nothing is left, else None: not begun, or ended with leftovers."""
    state = present_run(runs, holder)
    if state is None:
        return Seen(form="stopped")
    if leader_lives(state):
        return Seen(form="running", ready=True)
    if state.lock_held and not state.ran:
        return Seen(form=None)
    return Seen(form=None if left_behind(runs, state) else "stopped", down=True)


async def start(runs: Runs, task: Task) -> Moved:
    """Start the job, or find the run that was started for this move; answers when its command was executed.

    Raises:
        CannotStart: it could not be.
    """
    holder = task.holder
    await end_earlier(runs, holder, task.run_id)
    state = await ensure_launched(
        runs,
        RunSpec(
            id=task.run_id,
            holder=holder.id,
            argv=holder.spec.argv,
            env=job_env(runs, holder, task.run_id, task.device_env),
            cwd=holder.spec.cwd,
            stop_grace_s=holder.spec.stop_grace_s,
        ),
    )
    return Moved(facts={"pid": state.pid})


async def stop(runs: Runs, task: Task) -> Moved:
    """End the whole tree: TERM, grace, KILL; with `kill` no grace."""
    await end_present(runs, task)
    return Moved()
