"""A CUDA job that knows nothing of parking: `cuda-checkpoint` takes its device memory to main memory and back."""

from __future__ import annotations

import sys

from headway.core.model import MoveRule
from headway.drivers.command import CommandDriver
from headway.ports import Task

HOOK = (
    sys.executable,
    "-P",
    "-m",
    "headway.host.checkpointing",
)  # -P: nothing in the job's directory is imported

# Nothing else may move on its devices meanwhile: two at once hang or kill engines.
MOVES: tuple[MoveRule, ...] = (
    MoveRule(
        source="running", to="parked", limit_s=180.0, frees=True, exclusive=True, to_host=True, copies=True
    ),
    MoveRule(source="parked", to="running", limit_s=180.0, frees=False, exclusive=True),
    MoveRule(source="running", to="stopped", limit_s=30.0, frees=True, loses_work=True, overlaps_start=True),
    MoveRule(source="parked", to="stopped", limit_s=30.0, frees=True, loses_work=True, overlaps_start=True),
    MoveRule(source="stopped", to="running", limit_s=30.0, frees=False, creates=True),
)


class CheckpointDriver(CommandDriver):
    """Parks and resumes by a hook of Headway's own: see host/checkpointing.py."""

    name = "checkpoint"
    moves = MOVES

    def hook_argv(self, task: Task, verb: str) -> tuple[str, ...]:
        """Ours, with the program that the job names."""
        return (*HOOK, verb, *task.holder.spec.options["cuda_checkpoint"])
