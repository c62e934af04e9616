"""A job that somebody adds without a recipe: the same checks as a [job.NAME] table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from pydantic import ValidationError

from headway.config.build import Moves, job_spec
from headway.config.jobs import driver_of, job_problems
from headway.config.problems import explained
from headway.config.schema import JobConfig
from headway.core.model import JobSpec
from headway.core.names import NAME_WORDS, is_like_an_id, is_name, shown, usable
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
    argv, options = tuple(given.pop("argv", ())), given.pop("options", {})
    try:
        name = _name(given.pop("name", None), argv)
        if twice := sorted({"start", *given} & options.keys()):
            raise ValueError(f"options has {', '.join(twice)}, which has a field of its own: say it there")
        if not os.path.isabs(given.get("cwd", "/")):
            raise ValueError(f'cwd is "{given["cwd"]}": write the whole path, it is relative to nothing here')
        table: dict[str, Any] = {"start": list(argv), **options}
        gpu = given.pop("gpu", None)
        table |= given
        if gpu is not None and (size := parse_size(gpu)) > 0:
            table["memory"] = {**table.get("memory", {}), "running": size}
        elif gpu is not None:
            table["gpus"] = 0
        job = JobConfig.model_validate(table)
        if wrong := [f"{'.'.join(problem.path[2:])} {problem.text}" for problem in job_problems(name, job)]:
            raise ValueError("; ".join(wrong))
    except ValidationError as error:
        words = "; ".join(f"{'.'.join(one.path)}: {one.text}" for one in explained(error, ("job", name)))
        raise Refused("invalid_job", f"this job cannot be queued: {words}", problems=words) from None
    except ValueError as error:
        raise Refused("invalid_job", f"this job cannot be queued: {error}", problems=str(error)) from None
    return job_spec(name, job, moves[driver_of(job)])


def _name(given: str | None, argv: tuple[str, ...]) -> str:
    """Raises: ValueError, for one that cannot be used."""
    if given is None:
        return usable(PurePath(argv[0]).name) if argv else "job"
    if not is_name(given):
        raise ValueError(f"the name {shown(given)} cannot be used: {NAME_WORDS}")
    if is_like_an_id(given):
        raise ValueError(f"the name {given} is what the id of a job looks like: choose another name")
    return given
