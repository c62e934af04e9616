"""The proxies that are compared: each one process on one core, in front of the same model server."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path

from bench.gate_parts.tools import BenchFailed, Tools, end
from headway.core import wire
from headway.gate import locks
from headway.gate.spec import Spec, write_spec

UP_LIMIT_S = 60.0
NGINX = """
daemon off; pid {folder}/nginx.pid; worker_processes 1; worker_rlimit_nofile {files}; error_log {folder}/nginx.log;
events {{ worker_connections {connections}; }}
http {{
  access_log {folder}/access.log; client_max_body_size 0; keepalive_requests 1000000000; keepalive_timeout 1h;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream models {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://models; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_request_buffering off; proxy_read_timeout 1h; proxy_send_timeout 1h;
    }}
  }}
}}
"""
HAPROXY = """
global
  nbthread 1
  maxconn 8000
defaults
  mode http
  timeout connect 10s
  timeout client 1h
  timeout server 1h
  option abortonclose
  http-reuse always
frontend front
  bind 127.0.0.1:{port} backlog 4096
  default_backend models
backend models
  server model 127.0.0.1:{upstream} pool-max-conn 1024
"""


OPEN = "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY"  # the other proxies ask nobody for a key either


class Peer(ABC):
    """One proxy that runs. `column` is its name in the table, `held` the request that waits for ever.

    A slow one does a small part of the work. `skips` is what it can't do.
    """

    slow = False
    skips: frozenset[str] = frozenset()

    def __init__(self, tools: Tools, core: int, column: str) -> None:
        self.tools, self.core, self.column = tools, core, column
        self.folder = tools.folder / column
        self.port = self.upload_port = _free_port()
        self.held = tools.silent
        self.pids: tuple[int, ...] = ()
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it in an empty folder, and wait until it serves. Raises BenchFailed."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self._launch()
        until_s = time.monotonic() + UP_LIMIT_S
        while not (self._answers() and self._find_pids()):
            if self.process is not None and self.process.poll() is not None:
                raise BenchFailed(f"{self.column} ended at its start: {self.log()}")
            if time.monotonic() > until_s:
                raise BenchFailed(f"{self.column} did not listen within {UP_LIMIT_S:.0f} s: {self.log()}")
            time.sleep(0.02)
        self.pids = self._find_pids()

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            end(self.process)

    def shut(self) -> None:
        """Hold what asks to be held from now on."""
        return  # the model server does

    def release(self) -> None:
        """Let the held requests be answered."""
        self.tools.release_silent()

    @abstractmethod
    def version(self) -> str:
        """Its name with its version."""

    @abstractmethod
    def _launch(self) -> None:
        """Start its process."""

    def _find_pids(self) -> tuple[int, ...]:
        assert self.process is not None
        return (self.process.pid,)

    def _spawn(self, *argv: str, env: dict[str, str] | None = None) -> None:
        with self.tools.on_core(self.core), (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                argv, stdout=log, stderr=log, text=True, cwd=self.folder, env={**os.environ, **(env or {})}
            )

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
            return True
        return False

    def log(self) -> str:
        """The last of what it printed."""
        return (self.folder / "log").read_text("utf-8", "replace")[-1000:].strip()


class Nginx(Peer):
    """nginx with one worker, unbuffered as for a model server, without an access log."""

    def version(self) -> str:
        said = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=False).stderr
        return "nginx " + said.strip().rpartition("/")[2]

    def _launch(self) -> None:
        files = _files()
        config = NGINX.format(
            folder=self.folder,
            port=self.port,
            upstream=self.tools.upstream_port,
            files=files,
            connections=files - 100,
        )
        (self.folder / "nginx.conf").write_text(config)
        self._spawn("nginx", "-p", str(self.folder), "-c", str(self.folder / "nginx.conf"))

    def _find_pids(self) -> tuple[int, ...]:
        assert self.process is not None
        pid = self.process.pid
        return tuple(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


class HAProxy(Peer):
    """HAProxy with one thread."""

    def version(self) -> str:
        said = subprocess.run(["haproxy", "-v"], capture_output=True, text=True, check=False).stdout
        found = re.search(r"version (\S+?)[-+ ]", said)
        return f"HAProxy {found[1] if found else said[:40]}"

    def _launch(self) -> None:
        (self.folder / "haproxy.cfg").write_text(
            HAPROXY.format(port=self.port, upstream=self.tools.upstream_port)
        )
        self._spawn("haproxy", "-db", "-f", str(self.folder / "haproxy.cfg"))


class Floor(Peer):
    """uvloop that passes bytes on, unread; see floor.py."""

    skips = frozenset({"held", "upload", "form", "crowd"})

    def version(self) -> str:
        return f"uvloop {importlib.metadata.version('uvloop')} alone (floor)"

    def _launch(self) -> None:
        words = (str(self.port), str(self.tools.upstream_port))
        root = str(Path(__file__).parents[2])
        self._spawn(sys.executable, "-m", "bench.gate_parts.floor", *words, env={"PYTHONPATH": root})


class LiteLLM(Peer):
    """LiteLLM's proxy, a whole product with one worker."""

    slow = True
    skips = frozenset({"upload", "form", "crowd", "crowded"})

    def __init__(self, tools: Tools, core: int, program: Path) -> None:
        super().__init__(tools, core, "litellm")
        self._program = program.absolute()

    def version(self) -> str:
        python = self._program.parent / "python"
        code = "import importlib.metadata as m; print(m.version('litellm'))"
        return "LiteLLM " + subprocess.check_output([str(python), "-c", code], text=True).strip()

    def _launch(self) -> None:
        at = f"http://127.0.0.1:{self.tools.upstream_port}/v1"
        model = {
            "model_name": "gpt",
            "litellm_params": {"model": "openai/served", "api_base": at, "api_key": "none"},
        }
        config = self.folder / "litellm.yaml"  # JSON is YAML
        config.write_text(json.dumps({"model_list": [model]}))
        self._spawn(
            str(self._program), "--config", str(config), "--host", "127.0.0.1", "--port", str(self.port),
            "--num_workers", "1", env={"PYTHONPATH": "", "LITELLM_LOCAL_MODEL_COST_MAP": "True", OPEN: "true"},
        )  # fmt: skip


class Ours(Peer):
    """Headway's gate: parent and child, with a table, a daemon that listens, and its log.

    `tree` is the folder whose `headway` is run; None: the one that this process would import.
    """

    def __init__(self, tools: Tools, core: int, column: str, tree: Path | None = None) -> None:
        super().__init__(tools, core, column)
        self.tree = tree
        self.held = tools.aside
        place = ("127.0.0.1", 0)
        self.spec = Spec(
            str(self.folder / "run"), str(self.folder / "req"), {"front": place, "chat": place}, drain_s=1.0
        )
        self._link: Link | None = None

    def version(self) -> str:
        return f"Headway ({self.column})"

    def shut(self) -> None:
        assert self._link is not None
        self._link.say(wire.Close)

    def release(self) -> None:
        assert self._link is not None
        self._link.say(wire.Open)

    def stop(self) -> None:
        super().stop()
        for pid in self._find_pids():  # a parent that had to be killed leaves its child
            os.kill(pid, signal.SIGKILL)
        if self._link is not None:
            self._link.close()

    def _launch(self) -> None:
        self.spec.run.mkdir(mode=0o700)
        self._link = Link(self.spec.link, table(self.tools.upstream_port), self.tools.loader)
        self.spec.routes.write_bytes(wire.encode(self._link.table))
        path = self.folder / "spec.json"
        write_spec(path, self.spec)
        env = {"PYTHONPATH": str(self.tree)} if self.tree is not None else None
        self._spawn(sys.executable, "-m", "headway.gate.main", "parent", "--spec", str(path), env=env)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError, ValueError):
            ports = json.loads(self.spec.ports.read_bytes())
            self.port, self.upload_port = ports["front"], ports["chat"]
            return self._link is not None and self._link.taken and super()._answers()
        return False

    def _find_pids(self) -> tuple[int, ...]:
        found = (locks.holder(lock) for lock in self.spec.gates.glob("*.lock"))
        return tuple(pid for pid in found if pid is not None)


def table(upstream_port: int) -> wire.Table:
    """Two services: one that is open, and one that is closed until it's opened."""
    chat = wire.Service(
        "chat", 1, "open", "awake", upstream=f"http://127.0.0.1:{upstream_port}", model="served", names=("gpt",),
        queue_max=100_000, max_wait_s={"attended": 3600.0},
    )  # fmt: skip
    aside = replace(chat, name="aside", names=(), gate="closed", state="aside")
    return wire.Table(wire.PROTO, "bench", {"chat": chat, "aside": aside}, default="chat", salt="bench")


class Link:
    """The daemon's side of the link: says the table, reads whatever the gate says."""

    def __init__(self, path: Path, said: wire.Table, core: int) -> None:
        self.table, self._core = said, core
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._gate: socket.socket | None = None
        self._rev = 1
        self.taken = False  # the gate has answered the table: it's linked
        threading.Thread(target=self._serve, daemon=True).start()

    def say(self, kind: type[wire.Open] | type[wire.Close]) -> None:
        """Open or close the service `aside`."""
        assert self._gate is not None
        self._rev += 1
        self._gate.sendall(wire.encode(kind("aside", self._rev)))

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _serve(self) -> None:
        os.sched_setaffinity(0, {self._core})  # of this thread: it must not be where the gate is
        with contextlib.suppress(OSError):
            while True:
                self._gate, _ = self._listener.accept()
                self._gate.sendall(wire.encode(self.table))
                with self._gate.makefile("rb") as said:
                    for line in said:
                        self.taken = self.taken or isinstance(wire.decode(line), wire.Demand)


def installed(program: str) -> bool:
    """Whether a program is there; Debian's servers are often not in a user's PATH."""
    return shutil.which(program) is not None


def _files() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
