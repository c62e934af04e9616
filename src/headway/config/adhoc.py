"""A job that somebody adds without a recipe: the same checks as a [job.NAME] table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from pydantic import ValidationError

from headway.config.build import Moves, job_spec
from headway.config.jobs import driver_of, job_problems
from headway.config.schema import JobConfig
from headway.core.model import JobSpec
from headway.core.units import parse_size
from headway.errors import Refused


def adhoc(fields: Mapping[str, Any], moves: Mapping[str, Moves]) -> JobSpec:
    """The spec of an ad-hoc job.

    Args:
        fields: as the API's body names them: argv, and where given name, gpu (size on each GPU), gpus, placement,
            priority, after, driver, cwd, env, options (further keys of a [job.NAME] table, as a config has them).

    Raises:
        Refused: with code `invalid_job` and every problem in words.
    """
    given = {key: value for key, value in fields.items() if value not in (None, {}, [])}
    argv = tuple(given.pop("argv", ()))
    name = str(given.pop("name", None) or (PurePath(argv[0]).name if argv else "job"))
    table: dict[str, Any] = {"start": list(argv), **given.pop("options", {})}
    gpu = given.pop("gpu", None)
    table |= given
    try:
        if gpu is not None and (size := parse_size(gpu)) > 0:
            table["memory"] = {**table.get("memory", {}), "running": size}
        elif gpu is not None:
            table["gpus"] = 0
        job = JobConfig.model_validate(table)
        if wrong := [f"{'.'.join(problem.path[2:])} {problem.text}" for problem in job_problems(name, job)]:
            raise ValueError("; ".join(wrong))
    except ValidationError as error:
        words = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise Refused("invalid_job", f"this job cannot be queued: {words}", problems=words) from None
    except ValueError as error:
        raise Refused("invalid_job", f"this job cannot be queued: {error}", problems=str(error)) from None
    return job_spec(name, job, moves[driver_of(job)])
