"""A job that gives its memory back and takes it again when two commands of its own tell it to."""

from __future__ import annotations

import aiohttp

from headway.core.model import Holder, JobSpec, MoveRule
from headway.drivers import jobs
from headway.drivers.launching import ensure_launched, last_words, leader_lives, limited, no_such_form
from headway.errors import HookFailed, LimitPassed
from headway.ports import Clock, Moved, Runs, RunSpec, Seen, Task

MOVES: tuple[MoveRule, ...] = (
    MoveRule(source="running", to="parked", limit_s=60.0, frees=True, overlaps_start=True, to_host=True),
    MoveRule(source="parked", to="running", limit_s=60.0, frees=False),
    MoveRule(source="running", to="stopped", limit_s=30.0, frees=True, loses_work=True, overlaps_start=True),
    MoveRule(source="parked", to="stopped", limit_s=30.0, frees=True, loses_work=True, overlaps_start=True),
    MoveRule(source="stopped", to="running", limit_s=30.0, frees=False, creates=True),
)


class CommandDriver:
    """Parks by the `park` command and goes on by `resume`. A hook is a run of its own, found again after a restart."""

    name = "command"
    moves = MOVES

    def __init__(self, runs: Runs, http: aiohttp.ClientSession, clock: Clock) -> None:
        self.runs = runs

    async def observe(self, holder: Holder) -> Seen:
        """Stopped, or None: whether a living job is parked, only its last verified move can tell."""
        seen = jobs.look(self.runs, holder)
        return Seen(form=None, ready=seen.ready) if seen.form == "running" else seen

    async def move(self, task: Task) -> Moved:
        """Start, park, resume or stop it.

        Raises:
            CannotStart: its command, or the hook's, could not be executed.
            HookFailed: the hook ended with a code other than 0, or nobody knows how it ended.
            LimitPassed: not in time; a hook still under way is ended.
        """
        if task.form == "parked":
            return await self._hook(task, "park")
        if task.form == "running" and self._was_parked(task):
            return await self._hook(task, "resume")
        async with limited(task):
            if task.form == "running":
                return await jobs.start(self.runs, task)
            if task.form == "stopped":
                return await jobs.stop(self.runs, task)
        raise no_such_form(self.name, task)

    def _was_parked(self, task: Task) -> bool:
        """Whether running is reached by the hook: the job lives, and the form it leaves is not stopped."""
        state = jobs.present_run(self.runs, task.holder)
        return task.holder.form not in ("stopped", "running") and state is not None and leader_lives(state)

    def hook_argv(self, task: Task, verb: str) -> tuple[str, ...]:
        """The command for `park` or `resume`."""
        spec = task.holder.spec
        return (spec.park if verb == "park" else spec.resume) if isinstance(spec, JobSpec) else ()

    async def _hook(self, task: Task, verb: str) -> Moved:
        job = jobs.present_run(self.runs, task.holder)
        if job is None or not leader_lives(job):
            raise _failed(task, verb, "the job is not running", None, [])
        env = jobs.job_env(self.runs, task.holder, job.id, task.device_env)
        hook = RunSpec(
            id=task.hook_id,
            holder=task.holder.id,
            argv=self.hook_argv(task, verb),
            env={**env, "HEADWAY_PID": str(job.pid)},
            cwd=task.holder.spec.cwd,
            kind="hook",
        )
        try:
            async with limited(task):
                state = await ensure_launched(self.runs, hook)
                while leader_lives(state):
                    state = await self.runs.changed(hook.id, state)
        except LimitPassed:
            await self.runs.stop(hook.id, 0.0)
            raise
        lines = last_words(self.runs, hook.id)
        if state.exit is None:
            raise _failed(task, verb, "its shim was killed, so its exit code is lost", None, lines)
        if state.exit.code != 0:
            raise _failed(task, verb, f"it ended with code {state.exit.code}", state.exit.code, lines)
        return Moved(facts={"hook": hook.id})


def _failed(task: Task, verb: str, why: str, code: int | None, lines: list[str]) -> HookFailed:
    last = f" Its last line: {lines[-1]}" if lines else ""
    return HookFailed(
        f"the {verb} command of {task.holder.id} failed: {why}.{last} "
        f"See what the job was doing: `headway log {task.holder.id}`.",
        holder=task.holder.id,
        hook=verb,
        exit_code=code,
        lines=lines,
    )
