"""A small keeper of one job (act, host and a record, nothing else) that is killed again and again.

`python -m tests.parts.killed HOME --kills N --seed S` forks keepers one after the other, kills each with SIGKILL at a
random moment, some of their shims too, and lets a last one settle. HOME/record has one JSON line per step: `intent`
before a launch (on disk first), `end` with the exit code, `lost`, or `never` when nothing was executed. The job itself
notes its number in HOME/executed, and in HOME/copies if another one was alive.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import time
import traceback
from pathlib import Path
from typing import Any

from headway.host.linux_proc import open_pidfd
from headway.host.linux_runs import LinuxRuns
from headway.ports import RunSpec, RunState

JOB = """
exec 9>>"$0/lock"
flock -n 9 || echo $1 >>"$0/copies"
echo $1 >>"$0/executed"
sleep 0.02
exit $(($1 % 100))
"""
SPREAD_S = 0.07  # a keeper lives up to this long; one job takes about 0.06 s
SHIMS_KILLED = 0.1  # share of the kills that take the shim along


def run_id(number: int) -> str:
    return f"job-{number}"


def recorded(home: Path) -> list[dict[str, Any]]:
    """The record; a last line that was cut off by a kill is no line."""
    path = home / "record"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines if line]


class Keeper:
    """Keeps the job running: each time it ended, it is started again under the next number."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.runs = LinuxRuns(home / "runs")
        self.record = os.open(home / "record", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, **line: Any) -> None:
        # the newline first: it closes a line that a killed keeper left open
        os.write(self.record, b"\n" + json.dumps(line).encode() + b"\n")
        os.fdatasync(self.record)

    async def work(self, last: bool) -> None:
        """Adopt what is there, then go on for ever, or, as the `last` one, end."""
        lines = recorded(self.home)
        ends = {line["number"] for line in lines if "end" in line}
        number = max((line["number"] for line in lines), default=0)
        for run in self.runs.known():
            if int(run.removeprefix("job-")) in ends:
                self.runs.forget(run)
        while True:
            if number and number not in ends:
                self.note(number=number, end=await self.outcome(number))
                self.runs.forget(run_id(number))
            if last:
                return
            number += 1
            self.note(number=number, intent=True)
            argv = ("sh", "-c", JOB, str(self.home), str(number))
            self.runs.launch(RunSpec(id=run_id(number), holder="job", argv=argv))

    async def outcome(self, number: int) -> int | str:
        state = self.runs.read(run_id(number))
        while state is not None and state.lock_held and not state.gone:
            state = await self.runs.changed(run_id(number), state)
        if state is None or not state.ran:
            return "never"
        return state.exit.code if state.exit is not None else await self.lost(state)

    async def lost(self, state: RunState) -> str:
        await self.runs.stop(state.id, 0.0)  # the job itself may live on
        return "lost"


def fork_keeper(home: Path, last: bool = False) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            asyncio.run(Keeper(home).work(last))
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def kill_shim(home: Path) -> int | None:
    """Kill the shim of the present run; returns that run's number, None when there was none to kill."""
    lines = recorded(home)
    if not lines:
        return None
    number = int(lines[-1]["number"])
    try:
        started = json.loads((home / "runs" / run_id(number) / "started").read_text())
    except FileNotFoundError:
        return None
    fd = open_pidfd(started["shim"], started["shim_start_ticks"])
    if fd is None:
        return None
    signal.pidfd_send_signal(fd, signal.SIGKILL)
    os.close(fd)
    return number


def main() -> None:
    """Kill, settle, and print the numbers whose shims were killed, as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.parts.killed")
    parser.add_argument("home", type=Path)
    parser.add_argument("--kills", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    shims = []
    for _ in range(options.kills):
        keeper = fork_keeper(options.home)
        time.sleep(chance.uniform(0, SPREAD_S))
        os.kill(keeper, signal.SIGKILL)
        _, status = os.waitpid(keeper, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, f"a keeper ended by itself: {status}"
        if chance.random() < SHIMS_KILLED and (number := kill_shim(options.home)) is not None:
            shims.append(number)
    _, status = os.waitpid(fork_keeper(options.home, last=True), 0)
    assert status == 0, status
    print(json.dumps({"shims_killed": shims}))


if __name__ == "__main__":
    main()
