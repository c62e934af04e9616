"""CPU of `headway status` beside that of `import click`: `python -m bench.queue_parts.status --runs 40`.

They take turns, each in a Python of its own; user and system time as the kernel counted it. The daemon that answers has
a hundred queued jobs. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench.queue_parts.turns import standing

PEER = [sys.executable, "-c", "import click"]


def cpu_s(argv: Sequence[str], env: dict[str, str]) -> float:
    """User and system time of one run. Raises SystemExit when it fails."""
    process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(argv)} ended with {process.returncode}: {said.decode()}")
    return used.ru_utime + used.ru_stime


async def measure(runs: int) -> dict[str, float]:
    """Seconds, at the median; their ratio is that of pairs that ran one after the other."""
    async with standing(100) as stand:
        home: Path = stand.home
        (home / "run").mkdir()
        (home / "run" / "headway.sock").symlink_to(stand.socket)
        env = {key: value for key, value in os.environ.items() if not key.startswith("HEADWAY_")}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # people have their bytecode
        ours = [sys.executable, "-m", "headway.cli.main", "--home", str(home), "status"]
        for argv in (ours, PEER):
            await asyncio.to_thread(cpu_s, argv, env)
        pairs = [[await asyncio.to_thread(cpu_s, argv, env) for argv in (ours, PEER)] for _ in range(runs)]
    return {
        "status_s": median(pair[0] for pair in pairs),
        "click_s": median(pair[1] for pair in pairs),
        "ratio": median(pair[0] / pair[1] for pair in pairs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    print(json.dumps(asyncio.run(measure(parser.parse_args().runs))))


if __name__ == "__main__":
    main()
