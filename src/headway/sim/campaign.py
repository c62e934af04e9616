"""Many seeds in several processes: what failed, what was seen, and whether a seed is the same each time.

Each worker process has its own hash seed. With `twice` every seed is played by two of them, and their traces compared.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from headway.sim.play import BUSY_S, Result, play

LAST_LINES = 40
LOOK_S = 0.5  # real time: a Ctrl-C that another thread took is seen when the main thread wakes up
SEED_LIMIT_S = 600.0  # real time for one seed: one that spins without an end is a failure too


@dataclass(slots=True)
class Summary:
    """All results together. Times in seconds, virtual and real. `seen` counts each seed once."""

    played: int = 0
    failed: dict[int, Result] = field(default_factory=dict)
    unequal: list[int] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    virtual_s: float = 0.0
    took_s: float = 0.0
    interrupted: bool = False  # by Ctrl-C, before all were played
    _digests: dict[int, str] = field(default_factory=dict)

    @property
    def seeds(self) -> int:
        """How many different ones."""
        return len(self._digests)

    @property
    def good(self) -> bool:
        return not (self.failed or self.unequal)

    def to_doc(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "seeds": self.seeds,
            "played": self.played,
            "failed": [self.failed[seed].to_doc() for seed in sorted(self.failed)],
            "unequal": sorted(self.unequal),
            "virtual_s": self.virtual_s,
            "took_s": self.took_s,
            "interrupted": self.interrupted,
            "seen": dict(self.seen),
        }

    def add(self, result: Result) -> None:
        self.played += 1
        self.virtual_s += result.virtual_s
        self.took_s += result.took_s
        if result.violations:
            self.failed.setdefault(result.seed, result)
        if result.seed not in self._digests:
            self._digests[result.seed] = result.digest
            self.seen += result.seen
        elif self._digests[result.seed] != result.digest:
            self.unequal.append(result.seed)


def campaign(
    seeds: Iterable[int],
    *,
    faults: str | None = None,
    workers: int | None = None,
    twice: bool = False,
    busy_s: float = BUSY_S,
    limit_s: float = float("inf"),
    told: Callable[[Result], None] = lambda result: None,
) -> Summary:
    """Play seeds until there are no more, the real time is up, or somebody presses Ctrl-C.

    Args:
        faults: as for `play`.
        workers: processes; None: one per core. `twice` needs two at least.
        told: called with each result, one at a time.
    """
    count = max(workers or os.cpu_count() or 1, 2 if twice else 1)
    crew = [_Worker(number, faults, busy_s) for number in range(count)]
    dealer = _Dealer(iter(seeds), count, twice, time.monotonic() + limit_s)
    summary, lock, broken = Summary(), threading.Lock(), list[Exception]()

    def serve(number: int) -> None:
        try:
            while (seed := dealer.take(number)) is not None:
                result = crew[number].ask(seed)
                with lock:
                    if not dealer.ending.is_set():
                        summary.add(result)
                        told(result)
        except Exception as error:  # of `told`: raised below
            broken.append(error)
            dealer.ending.set()

    threads = [threading.Thread(target=serve, args=(number,), daemon=True) for number in range(count)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(LOOK_S)
        for number in range(count):  # what was left for a worker that had ended
            serve(number)
    except KeyboardInterrupt:
        summary.interrupted = True  # what was found until now is worth telling
    finally:
        dealer.ending.set()
        for worker in crew:
            worker.close()
    if broken:
        raise broken[0]
    return summary


class _Dealer:
    """Hands seeds to workers; with `twice` each of them to a second one as well.

    Args:
        until_s: no new seed is dealt after that (monotonic).
    """

    def __init__(self, seeds: Iterator[int], count: int, twice: bool, until_s: float) -> None:
        self._seeds, self._twice, self._until_s = seeds, twice, until_s
        self._backlog: list[list[int]] = [[] for _ in range(count)]
        self._lock = threading.Lock()
        self.ending = threading.Event()  # nothing counts any more

    def take(self, number: int) -> int | None:
        """The next seed for that worker: one that another played already, else a new one; None: no more."""
        with self._lock:
            if self.ending.is_set():
                return None
            if self._backlog[number]:
                return self._backlog[number].pop(0)
            seed = next(self._seeds, None) if time.monotonic() < self._until_s else None
            if seed is not None and self._twice:
                self._backlog[(number + 1) % len(self._backlog)].append(seed)
            return seed


class _Worker:
    """A process that plays one seed per line. One that ends is started again for the next seed."""

    def __init__(self, number: int, faults: str | None, busy_s: float) -> None:
        self._environment = {**os.environ, "PYTHONHASHSEED": str(number)}
        self._order = json.dumps({"faults": faults, "busy_s": busy_s})
        self._process: subprocess.Popen[str] | None = None
        self._starting, self._closed = threading.Lock(), False

    def ask(self, seed: int) -> Result:
        """One that ends over a seed, or never comes to an end with it, has found something too."""
        process = self._process or self._start()
        if process is None:
            return _broke(seed, "nobody plays it any more")
        assert process.stdin is not None and process.stdout is not None
        watch = threading.Timer(SEED_LIMIT_S, process.kill)
        watch.start()
        try:
            process.stdin.write(f"{seed}\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        if line:
            return Result.from_doc(json.loads(line))
        code = process.wait()
        self._process = None
        return _broke(seed, f"the process that played it ended with {code}")

    def _start(self) -> subprocess.Popen[str] | None:
        with self._starting:
            if not self._closed:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "headway.sim.campaign", self._order],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=self._environment,
                    text=True,
                )
            return self._process

    def close(self) -> None:
        """End it, also one that is just being started; none is started afterwards."""
        with self._starting:
            self._closed, process = True, self._process
        if process is not None:  # whoever asks it may forget it meanwhile
            process.kill()
            process.wait()


def _broke(seed: int, sentence: str) -> Result:
    return Result(seed=seed, digest="", violations=(sentence,), last=())


def report(result: Result, options: str = "") -> Iterator[str]:
    """Lines about a seed that failed, with the last turns before it.

    Args:
        options: what else it was played with, as `headway sim` takes it.
    """
    yield f"seed {result.seed} failed after {result.virtual_s:.0f} virtual seconds:"
    yield from (f"  {sentence}" for sentence in result.violations)
    yield "the last of it:"
    yield from (f"  {line}" for line in result.last[-LAST_LINES:])
    yield f"again: headway sim {result.seed}{options}"


def _serve() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that asks
    order = json.loads(sys.argv[1])
    for line in sys.stdin:
        try:
            result = play(int(line), order["faults"], order["busy_s"])
        except Exception:
            result = _broke(int(line), traceback.format_exc())
        sys.stdout.write(json.dumps(result.to_doc()) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
