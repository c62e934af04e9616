"""Whether jobs that are to be parked by NVIDIA's `cuda-checkpoint` can be, as far as looking tells."""

from __future__ import annotations

from pathlib import PurePath

from headway.config.jobs import checkpoint_program
from headway.config.warnings import missing
from headway.doctor.around import Around
from headway.doctor.finding import Finding, ok, problem, unknown, warning

STOPPED = "these jobs are stopped instead of parked"


def checkpoint(a: Around) -> Finding:
    """Of jobs with `driver = "checkpoint"`: is all there that is known to be needed? None is tried."""
    jobs = {
        name: job for name, job in (a.config.job if a.config else {}).items() if job.driver == "checkpoint"
    }
    if not jobs:
        return ok("no job is to be parked by cuda-checkpoint")
    environ = (a.machine.environment(a.daemon) if a.daemon else a.environ) or a.environ
    for name, job in jobs.items():
        for program in (checkpoint_program(job)[0], "nvidia-smi"):
            if no := missing(program, job.cwd, environ):
                return problem(f"{no}, which {name} is parked by", STOPPED, "headway check", jobs=list(jobs))
    if "/dev/dxg" in a.machine.signs_of_nvidia():
        return problem("this is WSL2, where no process is checkpointed", STOPPED, 'driver = "restart"')
    if a.cards is None:
        return unknown("NVML did not answer in time", "nvidia-smi")
    if names := [card.name for card in a.gpus if card.extra.get("mig")]:
        return problem(f"MIG is on: {', '.join(names)}", STOPPED, 'driver = "restart"', jobs=list(jobs))
    if pids := a.machine.running("nvidia-cuda-mps"):
        return problem("NVIDIA's MPS runs", STOPPED, "echo quit | nvidia-cuda-mps-control", pids=list(pids))
    if names := [card.name for card in a.gpus if card.extra.get("persistence") is False]:
        return problem(
            f"persistence mode is off: {', '.join(names)}",
            "a job that is parked may be killed by it",
            "sudo nvidia-smi -pm 1",
            jobs=list(jobs),
        )
    plain = [name for name, job in jobs.items() if PurePath(checkpoint_program(job)[0]).name != "sudo"]
    if plain and a.machine.user() != 0:
        return warning(
            f"{', '.join(plain)}: cuda-checkpoint is run without sudo, and this user is not root",
            "it is refused in practice, and then " + STOPPED,
            'cuda_checkpoint = ["sudo", "-n", "/usr/local/bin/cuda-checkpoint"]   (docs/howto/checkpoint.md)',
            jobs=list(jobs),
        )
    return ok(f"what is known to be needed is there for {', '.join(jobs)}")
