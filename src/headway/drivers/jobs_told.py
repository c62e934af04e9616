"""What a job says of itself, from short commands of its own and from its progress file, and signs of its work."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.core.facts import JobTold
from headway.core.model import Job
from headway.drivers.jobs import job_env, progress_file
from headway.ports import Runs

OUTPUT_MAX_BYTES = 64 * 1024
ASK_LIMIT_S = 10.0
LOOK_EVERY_S = 0.02
SUMMARY_EVERY_S = 60.0
SUMMARY_MAX = 500


@dataclass(frozen=True, slots=True)
class JobTeller:
    """Asks jobs. One that says nothing, fails, or takes too long tells nothing."""

    runs: Runs
    limit_s: float = ASK_LIMIT_S
    now_s: Callable[[], float] = time.monotonic
    _asked_s: dict[tuple[str, str], float] = field(default_factory=dict)  # when (job, what) was last asked

    async def ask(self, job: Job) -> JobTold:
        """All that it says of itself, and signs of its work; each None where it does not say.

        Its saved point, the age of that in seconds, and its progress from 0 to 1 each time; its health and its
        summary once in a while, and once more when its run is over.
        """
        saved = await self._output(job, job.spec.saved) if job.spec.saved else None
        point, age_s = read_saved(saved or "")
        lives, healthy = job.run is not None and job.run.alive, None
        if lives and job.spec.health and self._due(job.id, "health", job.spec.health_every_s):
            healthy = await self._output(job, job.spec.health) is not None
        summary = None
        if job.spec.summary and (not lives or self._due(job.id, "summary", SUMMARY_EVERY_S)):
            summary = _last_line(await self._output(job, job.spec.summary) or "")[:SUMMARY_MAX] or None
        busy_s = None
        if job.run is not None and job.spec.stall_after_s is not None:
            busy_s = await asyncio.to_thread(self.runs.busy_s, job.run.id)
        return JobTold(
            job=job.id,
            saved_point=point,
            saved_age_s=age_s,
            progress=await self._progress(job),
            summary=summary,
            healthy=healthy,
            log_bytes=self._log_bytes(job),
            busy_s=busy_s,
        )

    def _due(self, job: str, what: str, every_s: float) -> bool:
        last_s = self._asked_s.get((job, what))
        if last_s is not None and self.now_s() - last_s < every_s:
            return False
        self._asked_s[(job, what)] = self.now_s()
        return True

    def _log_bytes(self, job: Job) -> int | None:
        try:
            return (self.runs.directory(job.run.id) / "log").stat().st_size if job.run else None
        except OSError:
            return None

    async def _progress(self, job: Job) -> float | None:
        if job.spec.progress:
            return read_progress(await self._output(job, job.spec.progress) or "")
        if job.run is None:
            return None
        try:
            return read_progress(
                progress_file(self.runs, job.run.id).read_text(errors="replace")[:OUTPUT_MAX_BYTES]
            )
        except OSError:
            return None

    async def _output(self, job: Job, argv: Sequence[str]) -> str | None:
        env = {**os.environ, **job_env(self.runs, job, job.run.id if job.run else "", {})}
        return await asyncio.to_thread(output_of, argv, job.spec.cwd, env, self.limit_s)


def output_of(argv: Sequence[str], cwd: str | None, env: Mapping[str, str], limit_s: float) -> str | None:
    """What a short command prints, at most 64 KiB; None: it failed or took too long. Its whole group ends with it.

    Its exit ends the wait, not the end of its output: something it left behind may hold the pipe open.
    """
    read_end, write_end = os.pipe()
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=subprocess.DEVNULL,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    except OSError:
        os.close(read_end)
        return None
    finally:
        os.close(write_end)
    output, give_up_s, ended = b"", time.monotonic() + limit_s, False
    os.set_blocking(read_end, False)
    try:
        while not ended and time.monotonic() < give_up_s and len(output) < OUTPUT_MAX_BYTES:
            select.select([read_end], [], [], LOOK_EVERY_S)
            ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            while len(output) < OUTPUT_MAX_BYTES and (part := _read(read_end)):
                output += part
    finally:
        os.killpg(child.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
        code = child.wait()
        os.close(read_end)
    return output.decode(errors="replace") if ended and code == 0 else None


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, OUTPUT_MAX_BYTES)
    except BlockingIOError:
        return b""


def read_progress(text: str) -> float | None:
    """Progress from 0 to 1 in the last line: `{"done": 3, "total": 4}`, `75%`, `3/4`, or a number from 0 to 1.

    >>> [read_progress(text) for text in ('{"done": 3, "total": 4}', "75 %", "3/4", "0.75", "75", "soon", "nan")]
    [0.75, 0.75, 0.75, 0.75, None, None, None]
    """
    line = _last_line(text)
    document = _document(line)
    try:
        if document is not None:
            share = float(document["done"]) / float(document["total"])
        elif line.endswith("%"):
            share = float(line[:-1]) / 100
        elif "/" in line:
            done, _, total = line.partition("/")
            share = float(done) / float(total)
        else:
            share = float(line)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    return share if 0 <= share <= 1 else None


def read_saved(text: str) -> tuple[str | None, float | None]:
    """The saved point in words and its age in seconds, from the last line: a JSON object with `age_s`, or any words.

    >>> read_saved('{"done": 40, "total": 300, "age_s": 2.5}')
    ('40/300', 2.5)
    >>> read_saved("step-40.ckpt")
    ('step-40.ckpt', None)
    >>> read_saved("")
    (None, None)
    """
    line = _last_line(text)
    document = _document(line)
    if document is None:
        return line or None, None
    age_s = document.get("age_s")
    known = isinstance(age_s, int | float) and not isinstance(age_s, bool) and age_s >= 0
    if not known and not document.get("done"):
        return None, None  # it never saved
    point = document.get(
        "point", f"{document.get('done')}/{document.get('total')}" if "total" in document else line
    )
    return str(point), float(age_s) if known and age_s is not None else None


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


def _document(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
