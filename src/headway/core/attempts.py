"""What follows when a run of a job ends badly: another attempt, a hold, or the end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headway.core.draft import Draft
from headway.core.model import Exit, Job

CRASH_S = 30.0  # a run that ends badly within this long failed at its start
CRASHES = 3  # so many of these in a row, and it is held


def out_of_memory(job: Job, exit_: Exit) -> bool:
    """Did it run out of memory, by the exit code it was said to have then, or by its log?"""
    return exit_.out_of_memory or (exit_.code != 0 and exit_.code == job.spec.oom_exit_code)


def another(d: Draft, job: Job, exit_: Exit, backoff_min_s: float, backoff_max_s: float) -> Job | None:
    """The job as it waits for its next attempt, or as it is held; None: it has failed.

    Running out of memory beside others is no failure of its own: it is tried once more with its devices to itself,
    whatever retries are left, and however often that attempt is interrupted.
    """
    facts: dict[str, Any] = {"exit_code": exit_.code, "line": exit_.last_line}
    if out_of_memory(job, exit_) and not job.alone and job.spec.count:
        d.event("job.out_of_memory", job.id, **facts)
        return replace(job, alone=True, retry_at_s=None, note="out_of_memory", note_facts=facts)
    if job.attempts_left <= 0:
        return None
    short = job.ran_s - job.run_from_s < CRASH_S
    crashes, left = (job.crashes + 1 if short else 0), job.attempts_left - 1
    again = replace(job, crashes=crashes, attempts_left=left, note="exit", note_facts=facts)
    if crashes >= CRASHES and left and job.wish == "run":
        facts |= {"failures": crashes, "lines": list(exit_.last_lines)}
        d.event("job.held", job.id, reason="crash_loop", **facts)
        return replace(
            again,
            wish="hold",
            wish_by="headway",
            wish_s=d.now_s,
            retry_at_s=None,
            note="crash_loop",
            note_facts=facts,
        )
    tries = max(1, crashes)
    wait_s = min(backoff_max_s, backoff_min_s * 2.0 ** (tries - 1))
    d.event("job.retry", job.id, attempts_left=left, **facts)
    return replace(again, failures=tries, retry_at_s=d.now_s + wait_s)
