"""A whole Headway with a long queue, jobs that tell their progress, and a database that has seen some days."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tomlkit

from bench.page_parts.week import fill
from bench.swap import config
from demo.world import LIMITLESS, ROOT, World

LIMIT_S = 60.0
RUNNING = 4
DEVICE = "local/sim0"


@contextmanager
def headway(jobs: int, days: int) -> Iterator[World]:
    """One with so many jobs, of which four run."""
    with TemporaryDirectory(prefix="hw-") as folder:
        home = Path(folder) / "h"
        world = World(home, home / "no-model")
        (home / "config.toml").write_text(tomlkit.dumps(_config(home)))
        asyncio.run(fill(home / "headway.db", DEVICE, int(time.time()), days))
        world.up()
        try:
            _until(world, world.ready, "Headway did not come up")
            for number in range(jobs):
                recipe = f"train{number}" if number < RUNNING else "later"
                world.client.post("/api/v1/jobs", {"recipe": recipe})
            _until(world, lambda: _running(world) == RUNNING, "its jobs did not start")
            yield world
        finally:
            world.down()
            world.sweep()


def _config(home: Path) -> dict[str, Any]:
    tables = config(home)
    tables["headway"] |= {"max_active_jobs": RUNNING}
    common = {"cwd": str(ROOT), "devices": ["sim0"], "driver": "restart", "placement": "share"}
    python = [sys.executable, "-m", "demo.jobs.train", "--steps", "100000", "--step-s", "0.25"]
    work = ["--save-every", "20", "--bytes", "1GiB", "--total", LIMITLESS, "--reports", str(home / "reports")]
    tables["job"] = {
        "later": {**common, "start": ["sleep", "600"], "memory": {"running": "1GiB"}, "tags": ["later"]},
        **{
            f"train{number}": {
                **common,
                "start": [*python, *work, "--dir", str(home / f"train{number}")],
                "memory": {"running": "1GiB"},
            }
            for number in range(RUNNING)
        },
    }
    return tables


def _running(world: World) -> int:
    return len(world.client.get("/api/v1/jobs?state=running")["jobs"])


def _until(world: World, seen: Any, otherwise: str) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not seen():
        if time.monotonic() > until_s or world.ended is not None:
            raise SystemExit("\n".join([f"{otherwise}:", *world.log_tail()]))
        time.sleep(0.1)
