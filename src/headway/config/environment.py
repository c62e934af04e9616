"""What may be set in the environment of a service or a job."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headway.config.problems import Problem
from headway.config.schema import Holder

OURS = {
    "HEADWAY_JOB_ID", "HEADWAY_LEASE", "HEADWAY_PROGRESS_FILE", "HEADWAY_RUN_DIR", "HEADWAY_PID",
    "CUDA_VISIBLE_DEVICES",
}  # fmt: skip


def env_problems(path: tuple[str, ...], holder: Holder) -> Iterator[Problem]:
    """Variables that Headway sets itself, and what no process can be given."""
    for variable, value in holder.env.items():
        if variable in OURS:
            yield Problem((*path, "env", variable), "is set by Headway: leave it out")
        elif not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
            yield Problem((*path, "env", variable), "is no name of a variable")
        elif "\0" in value:
            yield Problem((*path, "env", variable), "holds a NUL character")
