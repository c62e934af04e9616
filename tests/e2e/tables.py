"""Config tables for whole stacks. `{home}` in any text becomes the stack's home, `{port}` is Headway's own word."""

import sys
from dataclasses import dataclass
from typing import Any, Literal

from demo.world import LIMITLESS, cached_model
from tests.parts.programs import ROOT

Table = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One `[service.NAME]` or `[job.NAME]` table."""

    kind: Literal["service", "job"]
    name: str
    table: Table


def python(module: str, *words: object) -> list[str]:
    """`python -m MODULE WORDS`."""
    return [sys.executable, "-m", module, *map(str, words)]


def config(
    *entries: Entry, devices: tuple[str, ...] = ("sim0",), total: str = "24GiB", **headway: Any
) -> Table:
    """A live config on simulated devices with free ports; `headway` adds settings.

    Quick defaults: jobs come back after half a second of quiet, and a model may be pushed half a second after it woke.
    """
    own = {"gap_min": 0.5, "wait_price": 0, "max_mean_wait": "1d", "max_waiting_share": 1}
    own |= {"min_residency": 0.5, "backoff_min": 0.5}
    settings = {
        **own,
        "host_floor": 0,
        "disk_floor": 0,
        **headway,
    }  # whatever the machine of the tests has free
    found: Table = {
        "mode": "live",
        "headway": settings,
        "gate": {"port": 0},
        "api": {"port": 0},
        "device": {
            name: {"meter": "simulated", "total": total, "reports": "{home}/reports"} for name in devices
        },
    }
    for entry in entries:
        found.setdefault(entry.kind, {})[entry.name] = entry.table
    return found


def tiny(name: str, size: str = "16GiB", *options: object, devices: str = "sim0", **more: Any) -> Entry:
    """A scripted server, up in a tenth of a second. It notes every request id in `{home}/NAME.record`."""
    words = ["--port", "{port}", "--name", name, "--record", f"{{home}}/{name}.record"]
    words += ["--reports", "{home}/reports", "--bytes", size, "--device", devices]
    return _service(name, "process", python("demo.tiny_server", *words, *options), size, devices, more)


def llama(name: str, size: str = "16GiB", *options: object, devices: str = "sim0", **more: Any) -> Entry:
    """The real llama.cpp server with the tiny model, behind the wrapper that reports what it would hold."""
    words = ["--model", cached_model(), "--port", "{port}", "--reports", "{home}/reports"]
    words += ["--bytes", size, "--device", devices]
    return _service(name, "llamacpp", python("demo.served", *words, *options), size, devices, more)


def _service(name: str, driver: str, start: list[str], size: str, devices: str, more: Table) -> Entry:
    table = {"driver": driver, "start": start, "cwd": str(ROOT), "devices": devices.split(",")}
    return Entry("service", name, {**table, "memory": {"awake": size}, **more})


def train(
    name: str = "train", size: str = "14GiB", *options: object, devices: str = "sim0", **more: Any
) -> Entry:
    """The job that restarts from saved points, every 5 steps of 50 ms. Its state is in `{home}/NAME`."""
    words = ["--dir", f"{{home}}/{name}", "--steps", 2000]
    work = [
        "--reports",
        "{home}/reports",
        "--bytes",
        size,
        "--total",
        LIMITLESS,
        "--step-s",
        0.05,
        "--save-every",
        5,
    ]
    saved = python("demo.jobs.train", *words, "--saved")
    start = python("demo.jobs.train", *words, *work, *options)
    return _job(name, "restart", start, size, devices, {"saved": saved, **more})


def render(
    name: str = "render", size: str = "12GiB", *options: object, devices: str = "sim0", **more: Any
) -> Entry:
    """The job that parks and resumes, a frame every 50 ms. Its state is in `{home}/NAME`."""
    place = ["--dir", f"{{home}}/{name}"]
    work = ["--reports", "{home}/reports", "--bytes", size, "--total", LIMITLESS, "--frame-s", 0.05]
    start = python("demo.jobs.render", *place, *work, *options)
    hooks = {word: python("demo.jobs.render_ctl", word, *place) for word in ("park", "resume")}
    return _job(name, "command", start, size, devices, {**hooks, **more})


def sleeper(name: str, seconds: float = 600.0, size: str | None = None, **more: Any) -> Entry:
    """A job that only sleeps, and ends with exit code 0. It holds nothing, whatever `size` declares."""
    return _job(name, "restart", ["sleep", str(seconds)], size, more.pop("devices", "sim0"), more)


def _job(name: str, driver: str, start: list[str], size: str | None, devices: str, more: Table) -> Entry:
    table: Table = {"driver": driver, "start": start, "cwd": str(ROOT), "devices": devices.split(",")}
    if size is not None:
        table["memory"] = {"running": size}
    return Entry("job", name, {**table, **more})
