"""One holder per driver, with a real program behind it, and the tasks a daemon would give."""

import os
import shlex
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp
import pytest

from headway.core.model import Form, Holder, Job, JobSpec, Run, Service, ServiceSpec
from headway.drivers.registry import DRIVERS
from headway.host.linux import LinuxClock
from headway.host.linux_runs import LinuxRuns
from headway.ports import Driver, RunState, Task
from tests.parts.programs import ROOT

FORMS = {"service": ("awake", "asleep", "stopped"), "job": ("running", "parked", "stopped")}
UPSTREAM = "http://127.0.0.1:{port}"
SERVERS = ("process", "llamacpp", "vllm")


def command(*words: object) -> tuple[str, ...]:
    """`python -m WORDS`."""
    return (sys.executable, "-m", *map(str, words))


@dataclass
class Driven:
    """A driver, its runs, and a holder for it."""

    name: str
    directory: Path
    http: aiohttp.ClientSession
    argv: tuple[str, ...]
    park: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    grace_s: float = 5.0
    upstream: str = UPSTREAM
    env: dict[str, str] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kind = "service" if self.name in SERVERS else "job"
        self.top = FORMS[self.kind][0]
        self.restart()

    def restart(self) -> None:
        """A daemon's restart: nothing of the old objects is left."""
        self.runs = LinuxRuns(self.directory / "runs")
        self.driver: Driver = DRIVERS[self.name](self.runs, self.http, LinuxClock())

    def holder(self, run_id: str | None = "r1", form: str | None = None) -> Holder:
        """The holder as a daemon would have it: its run as read from the files."""
        state = self.runs.read(run_id) if run_id else None
        run = as_run(state) if state else None
        forms = tuple(Form(name=form) for form in FORMS[self.kind])
        if self.kind == "service":
            service = ServiceSpec(
                name="h",
                driver=self.name,
                forms=forms,
                moves=self.driver.moves,
                argv=self.argv,
                env=self.env,
                cwd=str(ROOT),
                stop_grace_s=self.grace_s,
                upstream=self.upstream,
                options=self.options,
            )
            return Service(id="h", spec=service, forms=forms, run=run, form=form)
        job = JobSpec(
            name="h",
            driver=self.name,
            forms=forms,
            moves=self.driver.moves,
            argv=self.argv,
            env=self.env,
            cwd=str(ROOT),
            stop_grace_s=self.grace_s,
            park=self.park,
            resume=self.resume,
            options=self.options,
        )
        return Job(id="h", spec=job, forms=forms, run=run, form=form)

    def task(
        self,
        form: str,
        run_id: str = "r1",
        *,
        was: str | None = "stopped",
        hook_id: str = "r1.hook1",
        limit_s: float = 30.0,
        kill: bool = False,
        of_run: str | None = None,
    ) -> Task:
        """The task to bring the holder from `was` into `form`; its present run is `of_run`, or else `run_id`."""
        return Task(
            holder=self.holder(of_run or run_id, was),
            form=form,
            device_env={"CUDA_VISIBLE_DEVICES": "GPU-1"},
            limit_s=limit_s,
            run_id=run_id,
            hook_id=hook_id,
            kill=kill,
        )

    def state(self, run_id: str = "r1") -> RunState:
        """The run, which must be there."""
        found = self.runs.read(run_id)
        assert found is not None
        return found

    def changed(self, **fields: object) -> None:
        """Another command, grace, ... from now on."""
        for name, value in fields.items():
            assert hasattr(self, name)
            setattr(self, name, value)


def as_run(state: RunState) -> Run:
    """What the daemon keeps of a run."""
    return Run(
        id=state.id,
        lock_held=state.lock_held,
        pid=state.pid,
        start_ticks=state.start_ticks,
        boot_id=state.boot_id,
        exit=state.exit,
        gone=state.gone,
        port=state.port,
    )


def without_run(task: Task) -> Task:
    """The same task for a holder that never ran."""
    return replace(task, holder=replace(task.holder, run=None))


def listen_on(port: int) -> socket.socket:
    """Take a port in this process."""
    return socket.create_server(("127.0.0.1", port))


def shell(script: str, *words: Sequence[str] | str) -> tuple[str, ...]:
    """`sh -c SCRIPT` with words behind it: "$0", "$1", ..."""
    flat = [one for word in words for one in ([word] if isinstance(word, str) else word)]
    return ("sh", "-c", script, *flat)


def only(*names: str) -> pytest.MarkDecorator:
    """Run a test of the suite for these drivers only."""
    return pytest.mark.parametrize("driven", names, indirect=True)


def made(name: str, directory: Path, http: aiohttp.ClientSession, model: Path) -> Driven:
    """The driver with the program of the demo that fits it."""
    job = (
        "--dir",
        directory / "job",
        "--reports",
        directory / "reports",
        "--bytes",
        "1GiB",
        "--total",
        "24GiB",
    )
    tell = command("demo.jobs.render_ctl", "--dir", directory / "job")
    programs = {
        "process": command("demo.tiny_server", "--port", "{port}"),
        "llamacpp": command("demo.llama_server", "--model", model, "--port", "{port}"),
        "vllm": command("tests.parts.fake_vllm", "--port", "{port}", "--enable-sleep-mode"),
        "restart": command("demo.jobs.train", *job, "--steps", 10**6),
        "command": command("demo.jobs.render", *job, "--frames", 10**6),
        "checkpoint": command("demo.jobs.render", *job, "--frames", 10**6),
    }
    assert programs.keys() == DRIVERS.keys() - {"lease"}, "each driver that runs something has a row here"
    env = {"VLLM_SERVER_DEV_MODE": "1"} if name == "vllm" else {}
    park, resume = (*tell, "park"), (*tell, "resume")
    made = Driven(name, directory, http, programs[name], park=park, resume=resume, env=env)
    if name == "checkpoint":
        made.env, made.options = fake_checkpoint(directory / "fake")
    return made


def fake_checkpoint(directory: Path) -> tuple[dict[str, str], dict[str, object]]:
    """The environment in which `nvidia-smi` is a fake one, and the options that name the fake `cuda-checkpoint`."""
    (directory / "bin").mkdir(parents=True)
    program = command("tests.parts.fake_cuda_checkpoint", directory)
    smi = directory / "bin" / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\nexec {shlex.join(program)} nvidia-smi\n")
    smi.chmod(0o755)
    return {"PATH": f"{smi.parent}:{os.environ['PATH']}"}, {"cuda_checkpoint": program}
