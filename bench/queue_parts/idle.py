"""What `headway up` costs while nothing happens: `python -m bench.queue_parts.idle --seconds 60`.

All of it as people run it: supervisor, gate (parent and child), daemon, meter; one model server that is stopped and a
simulated device. CPU is what the kernel counted for all its processes; memory is what they hold of their own, and their
part of what they share (PSS). Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import psutil
import tomlkit

from bench.gate_parts.cost import cpu_s, held_bytes
from bench.swap import config
from demo.world import World

SETTLE_S = 5.0  # imports, first readings and the first looks at everything are over by then
LIMIT_S = 60.0
# part -> words of its command line, all of which are there
PARTS = {
    "up": ("headway.cli.main", "up"),
    "daemon": ("headway.cli.main", "daemon"),
    "gate": ("headway.cli.main", "gate"),
    "gate child": ("headway.gate.main",),
    "meter": ("headway.meters",),
}


def measure(seconds: float) -> dict[str, dict[str, float]]:
    """Share of a core, and bytes, of each part."""
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        home = Path(folder) / "h"
        world = World(home, home / "no-model")
        tables = config(home)
        del tables["job"]
        (home / "config.toml").write_text(tomlkit.dumps(tables))
        world.up()
        try:
            until_s = time.monotonic() + LIMIT_S
            while not world.ready():
                if time.monotonic() > until_s or world.ended is not None:
                    raise SystemExit("\n".join(["Headway did not come up:", *world.log_tail()]))
                time.sleep(0.1)
            time.sleep(SETTLE_S)
            pids = {part_of(process): process.pid for process in world.processes()}
            if missing := PARTS.keys() - pids.keys():
                raise SystemExit(f"these are not there: {', '.join(sorted(missing))}")
            return watched(pids, seconds)
        finally:
            world.down()
            world.sweep()


def part_of(process: psutil.Process) -> str:
    """Which part that is; its command line, where it is none."""
    line = process.cmdline()
    for part, words in PARTS.items():
        if all(any(word in given for given in line) for word in words):
            return part
    return " ".join(line)


def watched(pids: dict[str, int], seconds: float) -> dict[str, dict[str, float]]:
    """CPU over that time, memory at its end."""
    before = {part: cpu_s([pid]) for part, pid in pids.items()}
    began_s = time.monotonic()
    time.sleep(seconds)
    took_s = time.monotonic() - began_s
    return {
        part: {"cpu_share": (cpu_s([pid]) - before[part]) / took_s, "bytes": held_bytes([pid])}
        for part, pid in sorted(pids.items())
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    print(json.dumps(measure(parser.parse_args().seconds)))


if __name__ == "__main__":
    main()
