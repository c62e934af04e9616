"""How much Headway itself adds to a swap, on a whole running Headway with a simulated device.

    python -m bench.swap [--swaps 30]

One model server and one parkable job that never fit together. For each swap:
  told:  a request arrives at the service that is aside -> the job's park command was launched
  start: the meter verified the release -> the server's command was launched
  whole: the request was sent -> its answer was there
Launch times are those of the runs' spec files; the drivers' own times (the hook, the server's start) are in neither.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import tomlkit

from demo.world import ROOT, World

LIMIT_S = 30.0


UNPROMISED = {"wait_price": 0, "max_mean_wait": "1d", "max_waiting_share": 1}  # any gap is good


def config(home: Path) -> dict[str, Any]:
    """A server that is ready in about 0.1 s and a job that parks by a short command."""
    reports, state = home / "reports", home / "state"
    place = {"cwd": str(ROOT), "devices": ["sim0"]}
    python = [sys.executable, "-m"]
    control = [*python, "demo.jobs.render_ctl"]
    return {
        "mode": "live",
        "headway": {"gap_min": "0.2s", "min_residency": "0.2s", **UNPROMISED},
        "gate": {"port": 0},
        "api": {"port": 0},
        "device": {"sim0": {"meter": "simulated", "total": "24GiB", "reports": str(reports)}},
        "service": {
            "chat": {
                **place,
                "driver": "process",
                "start": [
                    *python,
                    "demo.tiny_server",
                    "--port",
                    "{port}",
                    "--name",
                    "chat",
                    "--reports",
                    str(reports),
                    "--device",
                    "sim0",
                    "--bytes",
                    "16GiB",
                ],
                "memory": {"awake": "16GiB"},
            }
        },
        "job": {
            "render": {
                **place,
                "driver": "command",
                "start": [
                    *python,
                    "demo.jobs.render",
                    "--dir",
                    str(state),
                    "--reports",
                    str(reports),
                    "--bytes",
                    "12GiB",
                    "--frames",
                    "100000",
                ],
                "park": [*control, "park", "--dir", str(state)],
                "resume": [*control, "resume", "--dir", str(state)],
                "memory": {"running": "12GiB"},
            }
        },
    }


def launched_s(home: Path, prefix: str, after_s: float) -> float:
    """Wall clock of the first run with that prefix launched after an instant."""
    times = [path.stat().st_mtime for path in (home / "runs").glob(f"{prefix}*/spec.json")]
    return min(at_s for at_s in times if at_s >= after_s)


def wait_running(world: World) -> None:
    """Until the job has the device again."""
    until_s = time.monotonic() + LIMIT_S
    while time.monotonic() < until_s:
        jobs = world.client.get("/api/v1/jobs")["jobs"]
        if (
            any(job["state"] == "running" for job in jobs)
            and world.client.get("/api/v1/services/chat")["state"] == "stopped"
        ):
            return
        time.sleep(0.02)
    raise SystemExit("the job did not come back in time")


def swap(world: World, home: Path) -> tuple[float, float, float]:
    """One request to the model that is aside; milliseconds (told, start, whole)."""
    wait_running(world)
    body = json.dumps({"model": "chat", "messages": []}).encode()
    began_s = time.time()
    request = urllib.request.Request(
        f"{world.front}/v1/chat/completions", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        answer.read()
    whole_s = time.time() - began_s
    rows = world.client.get("/api/v1/history", last=40)
    verified_s = max(row["wall_s"] for row in rows if row["code"] == "release.verified")
    told_ms = (launched_s(home, "j1.1.parked", began_s) - began_s) * 1e3
    start_ms = (launched_s(home, "chat.", began_s) - verified_s) * 1e3
    return told_ms, start_ms, whole_s * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--swaps", type=int, default=30)
    swaps = parser.parse_args().swaps
    with tempfile.TemporaryDirectory(prefix="hw-") as directory:
        home = Path(directory) / "h"
        world = World(home, home / "no-model")
        (home / "config.toml").write_text(tomlkit.dumps(config(home)))
        world.up()
        try:
            until_s = time.monotonic() + LIMIT_S
            while not world.ready() and time.monotonic() < until_s:
                time.sleep(0.05)
            figures = [swap(world, home) for _ in range(swaps)]
        finally:
            world.down()
            world.sweep()
    for name, column in zip(("told", "start", "whole"), zip(*figures, strict=True), strict=True):
        times = sorted(column)
        print(
            f"{name:6s} p50 {statistics.median(times):6.1f} ms   p90 {times[int(len(times) * 0.9)]:6.1f} ms"
        )


if __name__ == "__main__":
    main()
