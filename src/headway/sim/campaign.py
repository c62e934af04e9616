"""Many seeds in several processes: what failed, what was seen, and whether a seed is the same each time.

Each worker process has its own hash seed. With `twice` every seed is played by two of them, and their traces compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from headway.sim.play import BUSY_S, Result, play

LAST_LINES = 40


@dataclass(slots=True)
class Summary:
    """All results together. Times in seconds, virtual and real."""

    played: int = 0
    failed: dict[int, Result] = field(default_factory=dict)
    unequal: list[int] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    virtual_s: float = 0.0
    took_s: float = 0.0
    _digests: dict[int, str] = field(default_factory=dict)

    def add(self, result: Result) -> None:
        self.played += 1
        self.virtual_s += result.virtual_s
        self.took_s += result.took_s
        self.seen += result.seen
        if result.violations:
            self.failed.setdefault(result.seed, result)
        if self._digests.setdefault(result.seed, result.digest) != result.digest:
            self.unequal.append(result.seed)


def campaign(
    seeds: Iterable[int],
    *,
    workers: int | None = None,
    twice: bool = False,
    busy_s: float = BUSY_S,
    limit_s: float = float("inf"),
    told: Callable[[Result], None] = lambda result: None,
) -> Summary:
    """Play seeds until there are no more, or the real time is up.

    Args:
        told: called in this thread with each result.
    """
    count = workers or os.cpu_count() or 1
    given, summary, lock = iter(seeds), Summary(), threading.Lock()
    until_s = time.monotonic() + limit_s
    backlog: dict[int, list[int]] = {number: [] for number in range(count)}

    def take(number: int) -> int | None:
        """The next seed for a worker: one that another played already, else a new one."""
        with lock:
            if backlog[number]:
                return backlog[number].pop(0)
            seed = next(given, None) if time.monotonic() < until_s else None
            if seed is not None and twice:
                backlog[(number + 1) % count].append(seed)
            return seed

    def serve(number: int) -> None:
        with _worker(number, busy_s) as ask:
            while (seed := take(number)) is not None:
                result = ask(seed)
                with lock:
                    summary.add(result)
                    told(result)

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(count):  # what was left for a worker that had ended
        if backlog[number]:
            serve(number)
    return summary


class _worker:
    """A process that plays one seed per line."""

    def __init__(self, number: int, busy_s: float) -> None:
        environment = {**os.environ, "PYTHONHASHSEED": str(number)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headway.sim.campaign", repr(busy_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def __enter__(self) -> Callable[[int], Result]:
        return self._ask

    def _ask(self, seed: int) -> Result:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{seed}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker that played seed {seed} ended with {self._process.wait()}")
        doc: dict[str, Any] = json.loads(line)
        doc["violations"], doc["last"] = tuple(doc["violations"]), tuple(doc["last"])
        return Result(**{**doc, "seen": Counter(doc["seen"])})

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def report(result: Result) -> Iterator[str]:
    """Lines about a seed that failed, with the last turns before it."""
    yield f"seed {result.seed} failed after {result.virtual_s:.0f} virtual seconds:"
    yield from (f"  {sentence}" for sentence in result.violations)
    yield "the last of it:"
    yield from (f"  {line}" for line in result.last[-LAST_LINES:])
    yield f"again: headway sim {result.seed}"


def _serve() -> None:
    busy_s = float(sys.argv[1])
    for line in sys.stdin:
        result = play(int(line), busy_s=busy_s)
        doc = {one.name: getattr(result, one.name) for one in fields(result)}
        sys.stdout.write(json.dumps(doc) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
