"""A whole Headway in a home of its own, as users run it: real processes, sockets and files, ended with the test."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Literal, TypeVar

import psutil
import tomlkit

from demo.client import Answer
from demo.sim_device import living, total_held
from headway.host.locks import is_locked
from tests.e2e.api import Api
from tests.e2e.api import Row as Row
from tests.e2e.asking import Asking
from tests.e2e.tables import Table
from tests.parts.programs import ROOT
from tests.processes import TOKEN, Started, alive, end, remove_scopes
from tests.waiting import NeverHappened, wait_for

T = TypeVar("T")
Part = Literal["up", "parent", "child", "daemon", "meter"]

LIMIT_S = 60.0
LOG_CHARS = 12_000
# part -> words of its command line, all of which are there
PARTS: dict[Part, tuple[str, ...]] = {
    "up": ("headway.cli.main", "up"),
    "parent": ("headway.cli.main", "gate"),
    "child": ("headway.gate.main", "child"),
    "daemon": ("headway.cli.main", "daemon"),
    "meter": ("headway.meters",),
}


class Stack(Api):
    """One Headway. `up` starts all of it; `start_gate` and `start_daemon` its halves, without a supervisor."""

    def __init__(self, home: Path, config: Table, started: Started) -> None:
        super().__init__(home)
        self._started = started
        self._asking: Asking | None = None
        self.reports.mkdir()
        self.configure(config)

    def configure(self, config: Table) -> None:
        """Write the config: a start reads it."""
        text = tomlkit.dumps(config).replace("{home}", str(self.home))
        (self.home / "config.toml").write_text(text)

    @property
    def token(self) -> str:
        """What the environment of everything that is ended with it carries."""
        return self._started.token

    # ------------------------------------------------------------ starting and ending

    def up(self, wait: bool = True) -> subprocess.Popen[bytes]:
        """`headway up`; returns when gate and daemon answer."""
        return self._start("up", (self.gate_listens, self.daemon_answers) if wait else ())

    def start_gate(self, wait: bool = True) -> subprocess.Popen[bytes]:
        """The gate alone."""
        return self._start("gate", (self.gate_listens,) if wait else ())

    def start_daemon(self, wait: bool = True) -> subprocess.Popen[bytes]:
        """The daemon alone."""
        return self._start("daemon", (self.daemon_answers,) if wait else ())

    def _start(self, verb: str, signs: tuple[Callable[[], bool], ...]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "headway.cli.main", "--home", str(self.home), verb]
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        child = self._started.start(command, env={"PYTHONPATH": paths}, cwd=self.home)
        for sign in signs:
            self.wait(lambda: child.poll() is not None or sign(), f"{sign.__name__} after {verb}")  # noqa: B023
            if child.poll() is not None:
                raise AssertionError(f"`headway {verb}` ended with {child.returncode}\n{self.logs()}")
        return child

    def by_hand(self, command: list[str]) -> subprocess.Popen[bytes]:
        """A program that somebody starts beside Headway; ended with it."""
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        return self._started.start(command, env={"PYTHONPATH": paths}, cwd=self.home)

    def gate_listens(self) -> bool:
        """A gate child holds its lock, and the ports are known."""
        ports = self.home / "run" / "gate-ports.json"
        return ports.exists() and any(map(is_locked, (self.home / "run" / "gates").glob("*.lock")))

    def daemon_answers(self) -> bool:
        """The API answers on the Unix socket."""
        return self.tried(lambda: self.api("/healthz")) is not None

    def close(self) -> None:
        """End everything, runs and what came of them included."""
        if self._asking is not None:
            self._asking.close()
        for part in ("up", "daemon", "parent"):  # nobody is left to start anything again
            for pid in self.pids(part):
                end(pid)
        wait_for(self._none_marked, LIMIT_S, "the end of all processes of the stack")
        remove_scopes(self.home / "runs")

    def _none_marked(self) -> bool:
        for process in (left := self._marked()):
            if alive(process.pid):
                process.kill()
        return not left

    # ------------------------------------------------------------ asking

    @property
    def front(self) -> str:
        """URL of the front door."""
        return f"http://127.0.0.1:{self.ports['front']}"

    @property
    def ports(self) -> dict[str, int]:
        """The gate's real ports: `front`, and services that have one of their own."""
        found: dict[str, int] = json.loads((self.home / "run" / "gate-ports.json").read_text())
        return found

    @property
    def api_url(self) -> str:
        """URL of the API on TCP."""
        return f"http://127.0.0.1:{(self.home / 'run' / 'api-port').read_text().strip()}"

    def send(self, model: str, *, stream: bool = True) -> Future[Answer]:
        """A chat request in the background."""
        return self.asking.send(model, stream=stream)

    def ask(self, model: str, *, stream: bool = True) -> Answer:
        """A chat request, to its end."""
        return self.send(model, stream=stream).result(LIMIT_S + 5)

    @property
    def asking(self) -> Asking:
        """Where requests are sent from."""
        if self._asking is None:
            self._asking = Asking(lambda: self.front)
        return self._asking

    # ------------------------------------------------------------ the device

    @property
    def reports(self) -> Path:
        """Where programs report what they hold."""
        return self.home / "reports"

    def held(self, device: str = "sim0") -> int:
        """Bytes that living processes hold on a device, as seen from outside."""
        return total_held(self.reports, device)

    def holding(self, device: str = "sim0") -> dict[int, int]:
        """Bytes held on a device by pid."""
        return {report.pid: report.bytes for report in living(self.reports) if report.device == device}

    # ------------------------------------------------------------ waiting

    def wait(self, seen: Callable[[], T | None], what: str, limit_s: float = LIMIT_S) -> T:
        """Wait for anything; the failure tells the board and what Headway logged."""
        try:
            return wait_for(seen, limit_s, what)
        except NeverHappened as error:
            words = "\n".join([str(error), self.board(), *self.processes(), self.logs()])
            raise NeverHappened(words) from None

    def wait_service(self, name: str, *states: str, limit_s: float = LIMIT_S) -> Row:
        """Wait until a service is in one of the states; returns its row."""
        return self._wait_row(lambda: self.service(name), name, states, limit_s)

    def wait_job(self, target: str, *states: str, limit_s: float = LIMIT_S) -> Row:
        """Wait until a job (id or name) is in one of the states; returns its row."""
        return self._wait_row(lambda: self.job(target), target, states, limit_s)

    def _wait_row(self, ask: Callable[[], Row], name: str, states: tuple[str, ...], limit_s: float) -> Row:
        def seen() -> Row | None:
            row = self.tried(ask)
            return row if row is not None and row["state"] in states else None

        return self.wait(seen, f"{name} in {' or '.join(states)}", limit_s)

    def logs(self) -> str:
        """The end of what all its processes printed."""
        return self._started.output()[-LOG_CHARS:]

    # ------------------------------------------------------------ processes

    def processes(self) -> list[str]:
        """Everything of it that runs, for a message."""
        return [
            f"pid {process.pid} {process.status()}: {_command(process)[:200]}" for process in self._marked()
        ]

    def pid(self, part: Part) -> int:
        """The one process that is this part now. A child of it looks the same until it is another program."""
        pids: list[int] = self.wait(
            lambda: found if len(found := self.pids(part)) == 1 else None, f"one {part}"
        )
        return pids[0]

    def pids(self, part: Part) -> list[int]:
        """Living processes that are this part."""
        return [process.pid for process in self._marked() if _is(process, part)]

    def kill(self, part: Part) -> int:
        """SIGKILL one part; returns the pid it had, once that is gone."""
        pid = self.pid(part)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not alive(pid), LIMIT_S, f"the end of the {part}")
        return pid

    def run_pids(self, target: str) -> list[int]:
        """Leader first: the living processes of a service's or a job's present run."""
        row: Row = self.api(f"/api/v1/holders/{target}")
        if row["pid"] is None or not alive(row["pid"]):
            return []
        leader = psutil.Process(row["pid"])
        return [leader.pid, *(child.pid for child in leader.children(recursive=True))]

    def _marked(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(TOKEN) == self._started.token and alive(process.pid):
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue  # gone, or another user's
        return found


def _is(process: psutil.Process, part: Part) -> bool:
    words = _command(process).split()
    first, *rest = PARTS[part]
    return any(word.startswith(first) for word in words) and all(word in words for word in rest)


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""
