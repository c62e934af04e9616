"""The demo's home: the config, Headway itself as its own processes, and proof that nothing of them is left."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import tomlkit

from demo import tiny_model
from headway.client import Address, Client
from headway.host.locks import is_locked

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache" / "demo"
MARK = "DEMO_OF_HEADWAY"  # in the environment of all that comes from the demo; HEADWAY_* would not reach its runs

DEVICE, TOTAL = "sim0", "24GiB"
LIMITLESS = "1024GiB"  # the programs themselves refuse nothing: only Headway keeps the sum below the total
END_LIMIT_S = 60.0
LEAVE_LIMIT_S = 5.0
POLL_S = 0.05
LOG_LINES = 30


def cached_model(directory: Path = CACHE, name: str = "tiny", **shape: Any) -> Path:
    """The tiny model in a file that is made once, however many ask at the same time."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.gguf"
    with open(directory / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made_from = Path(tiny_model.__file__).stat().st_mtime
        if not path.exists() or path.stat().st_mtime < made_from:
            tiny_model.make_model(path, **shape)
    return path


def config(home: Path, model: Path) -> dict[str, Any]:
    """One model and two jobs on one device, of which any two are too much for it."""
    reports, state = home / "reports", home / "state"
    common = {"cwd": str(ROOT), "devices": [DEVICE]}
    render_ctl = _python("demo.jobs.render_ctl")
    train = _python("demo.jobs.train", "--dir", state / "train", "--steps", 5000)
    serve = _python("demo.served", "--model", model, "--port", "{port}", "--reports", reports)
    render = _python("demo.jobs.render", "--dir", state / "render", "--frames", 30, "--reports", reports)
    return {
        "mode": "live",
        "headway": {
            "max_active_jobs": 1,
            "gap_min": "1s",
            "wait_price": 0,
            "max_mean_wait": "1d",
            "max_waiting_share": 1,
            "min_residency": "1s",
            "reserve": "1GiB",
            "host_floor": 0,  # small as it is, it starts wherever it is tried
            "disk_floor": 0,
        },
        "gate": {"port": 0},
        "api": {"port": 0},
        "device": {DEVICE: {"meter": "simulated", "total": TOTAL, "reports": str(reports)}},
        "service": {
            "chat": {
                **common,
                "driver": "llamacpp",
                "start": [*serve, "--bytes", "16GiB"],
                "memory": {"awake": "16GiB"},
            }
        },
        "job": {
            "render": {
                **common,
                "driver": "command",
                "start": [*render, "--bytes", "12GiB", "--total", LIMITLESS],
                "park": [*render_ctl, "park", "--dir", str(state / "render")],
                "resume": [*render_ctl, "resume", "--dir", str(state / "render")],
                "memory": {"running": "12GiB"},
                "priority": "high",
                "goal": "thirty frames; goes on where it stood",
            },
            "train": {
                **common,
                "driver": "restart",
                "start": [*train, *_words("--reports", reports, "--save-every", 5, "--total", LIMITLESS)],
                "saved": [*train, "--saved"],
                "memory": {"running": "14GiB"},
                "goal": "restarts from its saved point",
            },
        },
    }


def _python(module: str, *words: object) -> list[str]:
    return [sys.executable, "-m", module, *_words(*words)]


def _words(*words: object) -> list[str]:
    return [str(word) for word in words]


class World:
    """Headway in a home of its own, from `up` to `down`. Everything it starts carries a mark and is found by it."""

    def __init__(self, home: Path, model: Path) -> None:
        self.home, self.mark = home, uuid.uuid4().hex
        self.reports, self.log = home / "reports", home / "headway.log"
        self.client = Client(Address(path=home / "run" / "headway.sock"))
        self._up: subprocess.Popen[bytes] | None = None
        self._ports: dict[str, int] = {}
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.reports.mkdir(exist_ok=True)  # a device is read from the start, in use or not
        (home / "config.toml").write_text(tomlkit.dumps(config(home, model)))

    def up(self) -> None:
        """Start `headway up`, in a session of its own: a Ctrl-C here is not meant for it."""
        with open(self.log, "wb") as log:
            self._up = subprocess.Popen(
                [sys.executable, "-m", "headway.cli.main", "--home", str(self.home), "up"],
                env={**os.environ, MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def ended(self) -> int | None:
        """The exit status of `headway up`; None while it runs."""
        return None if self._up is None else self._up.poll()

    def ready(self) -> bool:
        """Whether gate and daemon listen."""
        return self.front is not None and (self.home / "run" / "api-port").exists()

    @property
    def front(self) -> str | None:
        """Where people reach the model."""
        try:
            self._ports |= json.loads((self.home / "run" / "gate-ports.json").read_text())
        except FileNotFoundError:
            return None
        return f"http://127.0.0.1:{self._ports['front']}"

    def saw(self, status: Mapping[str, Any]) -> None:
        """Note the port of each model server, to see at the end that nobody listens there any more."""
        for row in status["services"]:
            if row["upstream"]:
                self._ports[row["name"]] = int(row["upstream"].rpartition(":")[2])

    def down(self) -> int | None:
        """End `headway up` by SIGTERM; returns its exit status, None if it had to be killed."""
        if self._up is None:
            return 0
        if self.ended is None:
            self._up.send_signal(signal.SIGTERM)
        try:
            return self._up.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._up.kill()
            self._up.wait()
            return None

    def left(self) -> list[str]:
        """Whatever of it stays: processes, ports somebody listens on, locks somebody holds."""
        until_s = time.monotonic() + LEAVE_LIMIT_S
        while (found := self._left_now()) and time.monotonic() < until_s:
            time.sleep(POLL_S)
        return found

    def _left_now(self) -> list[str]:
        api_port = self.home / "run" / "api-port"
        if api_port.exists():
            self._ports["api"] = int(api_port.read_text())
        found = [f"process {one.pid}: {_command(one)}" for one in self.processes()]
        found += [f"port {port} of {name}" for name, port in self._ports.items() if _listens(port)]
        locks = (lock for lock in self.home.rglob("*lock") if lock.is_file())
        return found + [f"lock {lock.relative_to(self.home)}" for lock in locks if is_locked(lock)]

    def processes(self) -> list[psutil.Process]:
        """Living processes that carry the mark."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue  # gone, or another user's
        return found

    def sweep(self) -> None:
        """Kill what is left: after a failed demo nothing keeps running."""
        until_s = time.monotonic() + END_LIMIT_S
        while (left := self.processes()) and time.monotonic() < until_s:
            for process in left:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    pass  # it went with another one
            time.sleep(POLL_S)

    def log_tail(self) -> list[str]:
        """The last lines that Headway logged."""
        if not self.log.exists():
            return []
        return self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:160]
    except psutil.NoSuchProcess:
        return "ended just now"


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
