"""Starting runs for drivers: never twice, never beside leftovers of an earlier run, and with the reason when not."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headway.core.model import Holder
from headway.errors import CannotStart, DriverFailed, LimitPassed, RunNotMade
from headway.ports import Runs, RunSpec, RunState, Task

LINES_TOLD, SIGNS_TOLD = 20, 300  # last log lines in an error, and how much of the end of each
NEXT = {  # what to do about what the system said
    errno.ENOSPC: "Free space there",
    errno.EDQUOT: "Free space there: this user may not have more",
    errno.EROFS: "Make that file system writable",
    errno.EACCES: "Make it this user's",
    errno.EPERM: "Make it this user's",
    errno.EIO: "Look at the disk with `dmesg | tail`",
    errno.EAGAIN: "End some processes, or allow more: `ulimit -u`",
    errno.EMFILE: "Allow more open files: `ulimit -n`",
}


@asynccontextmanager
async def limited(task: Task) -> AsyncIterator[None]:
    """The limit of a move.

    Raises:
        LimitPassed: the body took longer than `task.limit_s`.
    """
    try:
        async with asyncio.timeout(task.limit_s):
            yield
    except TimeoutError as error:
        raise LimitPassed(
            f"{task.holder.id} did not become {task.form} within {task.limit_s:g} s. "
            f"See what it was doing: `headway log {task.holder.id}`.",
            holder=task.holder.id,
            form=task.form,
            limit_s=task.limit_s,
        ) from error


async def ensure_launched(runs: Runs, spec: RunSpec) -> RunState:
    """Launch the run unless it exists, and wait until its command was executed, or could not be.

    A run directory without a command that was ever executed is what a killed launcher leaves: it is made anew.

    Raises:
        CannotStart: the command could not be executed; the reason is in the message.
        RunNotMade: the machine did not let it come to that.
    """
    state = runs.read(spec.id)
    if state is not None and not state.lock_held and not state.ran:
        runs.forget(spec.id)
        state = None
    if state is None:
        if not spec.argv:
            raise CannotStart(
                f"{spec.holder} has an empty command. Give it one in the config.", holder=spec.holder
            )
        try:
            await _launched(runs, spec)
        except FileExistsError:
            pass  # a move that was cut off is launching it in its thread
        except OSError as error:
            if error.filename == spec.argv[0]:  # it is the command after all
                raise _cannot_start(spec, error.strerror or str(error)) from error
            raise _not_made(runs, spec, error) from error
        state = runs.read(spec.id)
    while state is not None and state.lock_held and not state.ran:
        state = await runs.changed(spec.id, state)
    if state is None or not state.ran:
        raise _not_made(runs, spec, "; ".join(last_words(runs, spec.id)) or "its shim ended early")
    if state.error is not None:
        raise _cannot_start(spec, state.error)
    return state


async def _launched(runs: Runs, spec: RunSpec) -> None:
    """In a thread, as it waits for the disk. No thread can be called back: whoever gives it up waits for it.

    Else the stop that follows would find nothing to stop, and the run would begin after it.
    """
    launch = asyncio.get_running_loop().run_in_executor(None, runs.launch, spec)
    try:
        await asyncio.shield(launch)
    except asyncio.CancelledError:
        await asyncio.wait([launch])
        raise


async def end_earlier(runs: Runs, holder: Holder, run_id: str) -> None:
    """End what is left of the holder's previous run: a killed shim leaves its tree behind, and nothing runs twice."""
    if holder.run is not None and holder.run.id != run_id:
        await runs.stop(holder.run.id, holder.spec.stop_grace_s)


async def end_present(runs: Runs, task: Task) -> None:
    """Stop the run of the holder, and the one a start under way was making, with the holder's grace (kill: none)."""
    ids = {task.run_id} | ({task.holder.run.id} if task.holder.run else set())
    for run_id in sorted(ids):
        await runs.stop(run_id, 0.0 if task.kill else task.holder.spec.stop_grace_s)


def last_words(runs: Runs, run_id: str) -> list[str]:
    """The last lines of that log, as an error tells them: each step of a progress bar is one, and none is long."""
    lines = "\n".join(runs.log_tail(run_id, LINES_TOLD)).splitlines()
    return [line[-SIGNS_TOLD:] for line in lines[-LINES_TOLD:]]


def leader_lives(state: RunState) -> bool:
    """Whether the command itself still runs, as far as files and lock show."""
    return state.ran and state.exit is None and state.lock_held


def left_behind(runs: Runs, state: RunState) -> bool:
    """Whether anything of a run lives although its leader ended or its shim was killed."""
    return state.ran and not state.gone and bool(runs.pids(state.id))


def no_such_form(driver: str, task: Task) -> DriverFailed:
    """The error for a form that a driver's moves do not have."""
    return DriverFailed(
        f"the driver {driver} cannot bring {task.holder.id} into the form {task.form}. "
        f"Check its `driver` in the config.",
        holder=task.holder.id,
        form=task.form,
    )


def _not_made(runs: Runs, spec: RunSpec, error: OSError | str) -> RunNotMade:
    directory = str(runs.directory(spec.id).parent)
    reason, step = str(error), "`headway doctor` may tell more"
    if isinstance(error, OSError):
        reason, step = error.strerror or reason, NEXT.get(error.errno or 0, step)
        if error.filename and not str(error.filename).startswith(directory):
            directory = str(error.filename)
    words = f"its run could not be made in {directory}: {reason}. {step}"
    return RunNotMade(f"{spec.holder}: {words}.", holder=spec.holder, reason=words, path=directory)


def _cannot_start(spec: RunSpec, reason: str) -> CannotStart:
    return CannotStart(
        f"{spec.holder} could not be started: {reason}. Check its command in the config: {' '.join(spec.argv)}",
        holder=spec.holder,
        reason=reason,
        argv=list(spec.argv),
    )
