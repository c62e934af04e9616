"""What a [job.NAME] table means, and what cannot be in one together or between several."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from headway.config.environment import env_problems
from headway.config.problems import Problem, did_you_mean
from headway.config.schema import Config, JobConfig


def driver_of(job: JobConfig) -> str:
    """The driver that `auto` means. One with no other way is stopped, which people may always ask for."""
    if job.driver != "auto":
        return job.driver
    return "command" if job.park is not None and job.resume is not None else "restart"


def checkpoint_program(job: JobConfig) -> tuple[str, ...]:
    """What driver checkpoint runs."""
    return job.cuda_checkpoint or ("cuda-checkpoint",)


def steps_aside(job: JobConfig) -> bool:
    """Was it said, or can it be seen, that it may be made to give its memory back without losing its work?"""
    if job.step_aside == "none":
        return False
    return job.driver != "auto" or driver_of(job) == "command" or job.saved is not None or job.resumable


def job_problems(name: str, job: JobConfig) -> Iterator[Problem]:
    """What cannot be in one [job.NAME] together."""
    path = ("job", name)
    yield from env_problems(path, job)
    if job.driver == "auto" and (job.park is None) != (job.resume is None):
        key, other = ("resume", "park") if job.resume is None else ("park", "resume")
        yield Problem((*path, key), f"is missing: {other} needs it, or leave both out")
    for key in ("park", "resume"):
        written = getattr(job, key) is not None
        if job.driver == "command" and not written:
            yield Problem(
                (*path, key), "is missing: driver command needs park and resume (or use driver restart)"
            )
        if job.driver in ("restart", "checkpoint") and written:
            yield Problem((*path, key), f"driver {job.driver} never runs it: use driver command")
    if job.cuda_checkpoint is not None and job.driver != "checkpoint":
        yield Problem((*path, "cuda_checkpoint"), f"driver {driver_of(job)} never runs it")
    parked, running, never = job.memory.parked, job.memory.running, driver_of(job) == "restart"
    for key in ("memory", "host_memory", "disk") if never else ():
        if getattr(job, key).parked is not None:
            yield Problem(
                (*path, key, "parked"), "driver restart never parks a job: it is running or stopped"
            )
    if not never and parked is not None and running is not None and parked > running:
        yield Problem((*path, "memory", "parked"), "is more than running")


def after_problems(name: str, job: JobConfig, names: Mapping[str, Collection[str]]) -> Iterator[Problem]:
    jobs, services = names.get("job", ()), names.get("service", ())
    for key in ("after", "after_ok"):
        for other in getattr(job, key):
            if other == name:
                yield Problem(("job", name, key), "a job cannot wait for itself")
            elif other not in jobs and other in services:
                yield Problem(("job", name, key), f'"{other}" is a service, which never ends: name a job')
            elif other not in jobs:
                yield Problem(("job", name, key), f'no job "{other}"{did_you_mean(other, jobs)}')


def cycle_problems(config: Config) -> Iterator[Problem]:
    """Each ring of jobs that wait for each other, told once, at its first job in the file."""
    waits = {name: [*job.after, *job.after_ok] for name, job in config.job.items()}
    told: set[str] = set()
    for start in waits:
        ring = None if start in told else _ring(start, waits)
        if ring:
            told.update(ring)
            key = "after" if ring[1] in config.job[start].after else "after_ok"
            yield Problem(("job", start, key), f"these wait for each other: {' -> '.join(ring)}")


def _ring(start: str, waits: Mapping[str, list[str]]) -> list[str] | None:
    """The way from `start` back to itself, None if there is none; one step (itself) is told elsewhere."""
    came: dict[str, str] = {}
    line = [start]
    for name in line:
        for other in waits.get(name, ()):
            if other == start and name != start:
                back = [start]
                while name != start:
                    back.append(name)
                    name = came[name]
                return [*back, start][::-1]
            if other in waits and other not in came and other != start:
                came[other] = name
                line.append(other)
    return None
