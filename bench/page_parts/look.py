"""A browser that looks at a busy Headway: `python -m bench.page_parts.look --jobs 500 --days 7 --seconds 30`.

first:  from the address to the board with its chart, in a browser that never saw the page; the median of some
jobs:   CPU of all processes of the browser while it shows the Jobs tab, as the kernel counted it
idle:   the same while it shows an empty page
query:  seven days of memory over the API, from the request to the last byte, in milliseconds
daemon: CPU of the daemon while the Jobs tab is shown
Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
from typing import Any

import psutil
from playwright.sync_api import Browser, ViewportSize, sync_playwright

from bench.gate_parts.cost import cpu_s
from bench.page_parts.world import headway
from demo.world import World

CHROMIUM = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
SETTLE_S = 2.0
VIEW: ViewportSize = {"width": 1280, "height": 900}


def first_view(browser: Browser, url: str) -> float:
    """Seconds until the board and its chart are there, and the next frame is painted."""
    context = browser.new_context(viewport=VIEW)
    page = context.new_page()
    began_s = time.monotonic()
    page.goto(f"{url}/")
    page.locator(".chart canvas").wait_for()
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    took_s = time.monotonic() - began_s
    context.close()
    return took_s


def processes(root: psutil.Process) -> list[int]:
    """Those of the browser."""
    below = root.children(recursive=True)
    return [one.pid for one in below if "chrom" in one.name()]


def shares(browser: Browser, url: str, seconds: float, daemon: int) -> tuple[float, float]:
    """Shares of a core of the browser and of the daemon while that page is open."""
    context = browser.new_context(viewport=VIEW)
    page = context.new_page()
    page.goto(url)
    time.sleep(SETTLE_S)
    pids = processes(psutil.Process())
    before, began_s = (cpu_s(pids), cpu_s([daemon])), time.monotonic()
    time.sleep(seconds)
    took_s = time.monotonic() - began_s
    after = (cpu_s(pids), cpu_s([daemon]))
    context.close()
    return (after[0] - before[0]) / took_s, (after[1] - before[1]) / took_s


def query_s(world: World) -> float:
    began_s = time.perf_counter()
    world.client.get("/api/v1/devices/sim0/memory", range="7d")
    return time.perf_counter() - began_s


def measure(world: World, seconds: float, times: int) -> dict[str, Any]:
    url = f"http://127.0.0.1:{(world.home / 'run' / 'api-port').read_text().strip()}"
    (daemon,) = (one.pid for one in world.processes() if "daemon" in one.cmdline())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(CHROMIUM))
        firsts = [first_view(browser, url) for _ in range(times)]
        idle, _ = shares(browser, "about:blank", seconds, daemon)
        jobs, told = shares(browser, f"{url}/#/jobs", seconds, daemon)
        browser.close()
    queries = sorted(query_s(world) * 1e3 for _ in range(10 * times))
    return {
        "first_s": statistics.median(firsts),
        "jobs_share": jobs,
        "idle_share": idle,
        "daemon_share": told,
        "query_ms": {"p50": statistics.median(queries), "p99": queries[int(len(queries) * 0.99)]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    with headway(options.jobs, options.days) as world:
        print(json.dumps(measure(world, options.seconds, options.times)))


if __name__ == "__main__":
    main()
