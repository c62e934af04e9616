"""A `cuda-checkpoint` and the `nvidia-smi` beside it, over no GPU at all: `python -m tests.parts.fake_cuda_checkpoint DIR ...`.

DIR holds what is true: `PID` is the state of a process that is on a device, `PID.memory` a job's own directory that is told to
give its memory back, `reports` the directory in which jobs report what they hold (then nobody has to name them here), `traps` what goes wrong, one word a line (`checkpoint:4711:out of memory`, `help:old`, `listing:fails`),
and `calls` all that was asked. Its rules are those of the real one as far as they are written down; none of it was compared
with a GPU.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from demo.jobs.render_ctl import tell

HELP = "--get-state --pid --action lock|checkpoint|restore|unlock --timeout --toggle"
STEPS = {
    "lock": ("running", "locked"),
    "checkpoint": ("locked", "checkpointed"),
    "restore": ("checkpointed", "locked"),
    "unlock": ("locked", "running"),
}
TELLS = {"checkpoint": "park", "restore": "resume"}


def listing(directory: Path) -> int:
    """What nvidia-smi lists: a process that was checkpointed is not on a device."""
    if "listing:fails" in traps(directory):
        print("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver")
        return 9
    for file in sorted({*directory.iterdir(), *(directory / str(pid) for pid in reported(directory))}):
        if file.name.isdigit() and state(directory, file.name) != "checkpointed":
            print(file.name)
    return 0


def reported(directory: Path) -> list[int]:
    """Processes that report memory."""
    file = directory / "reports"
    reports = Path(file.read_text()).glob("[!.]*") if file.exists() else ()
    return [json.loads(report.read_text())["pid"] for report in reports]


def state(directory: Path, pid: str) -> str | None:
    """None: it has nothing to do with a device."""
    file = directory / pid
    if file.exists():
        return file.read_text()
    return "running" if int(pid) in reported(directory) else None


def traps(directory: Path) -> list[str]:
    file = directory / "traps"
    return file.read_text().splitlines() if file.exists() else []


def step(directory: Path, action: str, pid: str) -> int:
    """One step of one process; a state that it does not begin in is CUDA's error 401."""
    for trap in traps(directory):
        where, whose, says = (*trap.split(":"), "", "")[:3]
        if (where, whose) != (action, pid):
            continue
        if says == "lies":
            return 0
        if says == "hangs":
            time.sleep(600)
        print(f'Could not {action} on process ID {pid}: "{says}"')
        return 1
    source, becomes = STEPS[action]
    if state(directory, pid) != source:
        print(f'Could not {action} on process ID {pid}: "illegal state"')
        return 1
    memory = directory / f"{pid}.memory"
    if not memory.exists():
        memory = directory / "job"
    if action in TELLS and memory.exists():
        answer = tell(Path(memory.read_text()), TELLS[action], 30.0)
        if answer.startswith("error:"):  # without room it never comes back, not even when there is room again
            with (directory / "traps").open("a") as more:
                more.write(f"{action}:{pid}:OS call failed or operation not supported on this OS\n")
            print(f'Could not {action} on process ID {pid}: "out of memory"')
            return 1
    (directory / pid).write_text(becomes)
    return 0


def main() -> int:
    directory, *words = Path(sys.argv[1]), *sys.argv[2:]
    with (directory / "calls").open("a") as calls:
        calls.write(" ".join(words) + "\n")
    if words == ["nvidia-smi"]:
        return listing(directory)
    if words == ["--help"]:
        print("--toggle --pid" if "help:old" in traps(directory) else HELP)
        return 0
    options = dict(zip(words[::2], words[1::2], strict=False)) if words[0] != "--get-state" else {}
    if words[0] == "--get-state":
        if (found := state(directory, words[2])) is None:
            print(f'Could not get the state of process ID {words[2]}: "initialization error"')
            return 1
        print(found)
        return 0
    return step(directory, options["--action"], options["--pid"])


if __name__ == "__main__":
    sys.exit(main())
