"""A hook: `cuda-checkpoint` over all processes of a job, so that their device memory goes to main memory and back.

Run as `python -m headway.host.checkpointing park|resume PROGRAM ...` in the environment of a hook. A call of PROGRAM
can hang and cannot be cut off safely. So who waits for it is a process of its own, which may be ended, and which a new
daemon finds still under way. What is known of it is kept to here:

- only single steps, never `--toggle`, which does the opposite of what was meant in a state that was not known;
- all processes are locked before the first is checkpointed, and all are restored before the first is unlocked;
- only processes that the driver lists on a device: one that merely opened it cannot be locked;
- its exit code proves nothing, so the state is read after each step. Memory is measured by the daemon.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.host.cgroups import Scopes
from headway.host.linux_proc import process
from headway.host.run_files import RunFiles
from headway.host.run_trees import RunTrees

LOCK_MS = 10_000  # what was submitted before has to end meanwhile
STATE_S, STEP_S = 60.0, 600.0  # even asking for the state can take many seconds
KEPT = "checkpointed"  # in the run's directory: the processes that were taken off the devices
LISTING = ("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader,nounits")
NEEDED = ("--action", "--timeout")  # in its help: there from driver 570 on


class StepFailed(Exception):
    """Its message is the last line of the hook's log, which people are told."""


@dataclass(frozen=True, slots=True)
class Program:
    """The program, and its steps."""

    words: tuple[str, ...]

    def check(self) -> None:
        """Raises StepFailed: it cannot be run, or is too old."""
        help_ = self._output("--help", limit_s=STATE_S)
        if missing := [option for option in NEEDED if option not in help_]:
            raise StepFailed(
                f"{self.words[0]} has no {', '.join(missing)}: it needs NVIDIA driver 570 or newer"
            )

    def state(self, pid: int) -> str:
        """running, locked, checkpointed or failed."""
        return self._output("--get-state", "--pid", str(pid), limit_s=STATE_S).strip().lower()

    def step(self, action: str, pid: int, becomes: str) -> None:
        """Do one, and see that it was done."""
        limit = ("--timeout", str(LOCK_MS)) if action == "lock" else ()
        self._output("--action", action, "--pid", str(pid), *limit, limit_s=STEP_S)
        if (state := self.state(pid)) != becomes:
            raise StepFailed(f"pid {pid} is {state or 'in no state'} after {action}, and not {becomes}")

    def _output(self, *options: str, limit_s: float) -> str:
        words, environ = [*self.words, *options], {**os.environ}
        environ.pop("CUDA_VISIBLE_DEVICES", None)  # it has to see what the process sees
        return _run(words, environ, limit_s)


def _run(words: Sequence[str], environ: dict[str, str], limit_s: float) -> str:
    said = " ".join(words)
    try:
        done = subprocess.run(
            words,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit_s,
        )
    except OSError as error:
        raise StepFailed(f"{words[0]} cannot be run: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise StepFailed(f"{said}: no answer within {limit_s:g} s") from error
    output = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise StepFailed(
            f"{said}: {' '.join(output.split()) or 'nothing was said'} (exit code {done.returncode})"
        )
    return output


def on_devices() -> frozenset[int]:
    """Processes that hold memory on any device.

    Raises:
        StepFailed: nobody can say.
    """
    lines = _run(LISTING, {**os.environ}, STATE_S).splitlines()
    return frozenset(int(line) for line in lines if line.strip().isdigit())


def tree(directory: Path) -> dict[int, int]:
    """Living processes of that run: pid -> start ticks."""
    runs, boot_id = directory.parent, Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    trees = RunTrees(boot_id, lambda run_id: RunFiles(runs / run_id), Scopes(runs))
    return {one.pid: one.start_ticks for one in trees.of(directory.name)}


def remembered(directory: Path) -> frozenset[int]:
    """Those that an earlier park took, as far as they live."""
    try:
        known = json.loads((directory / KEPT).read_text())
    except (OSError, ValueError):
        return frozenset()
    return frozenset(pid for pid, ticks in known if (one := process(pid)) and one.start_ticks == ticks)


def park(program: Program, directory: Path) -> None:
    """Take all processes off the devices, or leave all as they were.

    Raises:
        StepFailed: they were left, as far as that was possible.
    """
    ours = tree(directory)
    pids = sorted((on_devices() | remembered(directory)) & ours.keys())
    (directory / KEPT).write_text(json.dumps([(pid, ours[pid]) for pid in pids]))
    states = {pid: program.state(pid) for pid in pids}
    if failed := [pid for pid, state in states.items() if state not in ("running", "locked", "checkpointed")]:
        raise StepFailed(f"pid {failed[0]} is {states[failed[0]] or 'in no state'}")
    try:
        for pid in (pid for pid in pids if states[pid] == "running"):
            program.step("lock", pid, "locked")
        for pid in (pid for pid in pids if states[pid] != "checkpointed"):
            program.step("checkpoint", pid, "checkpointed")
    except StepFailed:
        _undo(program, pids)
        raise


def resume(program: Program, directory: Path) -> None:
    """Put all that were taken back. Safe to ask again after one that failed half-way.

    Raises:
        StepFailed: some are where they were.
    """
    pids = sorted(remembered(directory))
    for pid in pids:
        if program.state(pid) == "checkpointed":
            program.step("restore", pid, "locked")
    for pid in pids:
        if program.state(pid) == "locked":
            program.step("unlock", pid, "running")


def _undo(program: Program, pids: Iterable[int]) -> None:
    """As far as it goes: the daemon goes one form lower in any case."""
    for action, source, becomes in (("restore", "checkpointed", "locked"), ("unlock", "locked", "running")):
        for pid in pids:
            try:
                if program.state(pid) == source:
                    program.step(action, pid, becomes)
            except StepFailed as error:
                print(error, file=sys.stderr)


def main(words: Sequence[str]) -> int:
    """Exit code 0: done. 1: not, and the last line says why."""
    verb, *rest = words
    program, directory = Program(tuple(rest)), Path(os.environ["HEADWAY_RUN_DIR"])
    try:
        program.check()
        (park if verb == "park" else resume)(program, directory)
    except StepFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
