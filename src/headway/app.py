"""What `headway up`, `daemon`, `gate` and `check` run. Each imports only what it needs: a start is felt by people."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway import __version__
from headway.config.paths import Paths
from headway.core.words import ENDED
from headway.errors import AlreadyRunning, DaemonAway
from headway.host.locks import is_locked, take_lock

AT_REST = ("held", "stopped", "failed", *ENDED)
REST_LIMIT_S = 60.0

if TYPE_CHECKING:
    from headway.client import Client
    from headway.config.build import Built
    from headway.config.schema import Config


def settings(config_path: Path) -> Built:
    """Read and check the config. Raises ConfigInvalid with every problem at once."""
    from headway.composition import running

    return running(config_path).built


def doubts(config_path: Path) -> list[str]:
    """What is allowed in the config and probably not meant. Raises ConfigInvalid when it has problems."""
    from headway.config.load import doubts as found
    from headway.meters.once import read_once

    return found(config_path, read_once)


def doctor(paths: Paths) -> dict[str, dict[str, Any]]:
    """What of this machine stands in the way: by check, what doctor.finding.Finding has. Takes some seconds at most."""
    from dataclasses import asdict

    from headway.config.load import doubts as found
    from headway.config.load import load
    from headway.doctor.around import checked, look
    from headway.doctor.checks import examine
    from headway.meters.once import read_once

    file = paths.config_file
    around = look(
        paths,
        os.environ,
        lambda cards: checked(lambda: settings(file), lambda: found(file, cards), lambda: load(file)),
        lambda limit_s: read_once(limit_s=limit_s, traits=True),
    )
    here = f"headway --home {shlex.quote(str(paths.home))} " if paths.home else "headway "
    return {
        name: asdict(one) | {"next": one.next and re.sub(r"\bheadway (?!--home)", lambda _: here, one.next)}
        for name, one in examine(around).items()
    }


def shown(config_path: Path, everything: bool = False, units: bool = False) -> dict[str, Any]:
    """The config as it counts: all files, the environment and [vars] put together.

    Args:
        everything: with what was left out, at its default.
        units: sizes and durations as texts with their units, not in bytes and seconds.

    Raises:
        ConfigInvalid: it has problems.
    """
    from headway.config.load import load

    found = load(config_path)
    return found.model_dump(
        mode="json", exclude_none=True, exclude_unset=not everything, context={"units": units}
    )


def config_schema() -> str:
    """The JSON Schema of the config file, as it is shipped."""
    from headway.config.json_schema import FILE

    return FILE.read_text("utf-8")


def init(file: Path, ports: Sequence[int] = (), example: bool = False, dry_run: bool = False) -> str:
    """Look for GPUs and model servers, and write a config that only watches them. Returns its text.

    Args:
        ports: looked at besides the usual ones.
        example: with a service and a job to start from.
        dry_run: write nothing.

    Raises:
        ConfigThere: there is a file already.
    """
    from headway.config.json_schema import FILE
    from headway.config.starter import text, written
    from headway.host.model_servers import find_servers
    from headway.meters.once import read_once

    made = text(read_once(), find_servers(ports), str(FILE), example)
    if not dry_run:
        written(file, made)
    return made


def daemon(paths: Paths, config_path: Path | None = None, again: bool = False) -> int:
    """Run the daemon in this process until SIGTERM or SIGINT. Returns the exit status.

    Args:
        again: while the file has problems, go on with the last config that was in force.

    Raises:
        AlreadyRunning: another daemon uses this home, or its port is taken.
        ConfigInvalid: the config has problems.
        StoreTooNew: the database is from a newer Headway.
    """
    os.umask(0o077)
    paths.create()
    from headway.composition import run_daemon, running

    signal.pthread_sigmask(
        signal.SIG_BLOCK, (signal.SIGHUP,)
    )  # one from now on means a newer file than is read here
    config = running(config_path or paths.config_file, paths.kept_config, again)
    lock = take_lock(paths.run_dir / "daemon.lock")
    if lock is None:
        raise AlreadyRunning(
            f"a daemon is already running in {paths.state_dir}. See it: `headway status`.",
            home=str(paths.state_dir),
        )
    try:
        run_daemon(paths, config)
    finally:
        os.close(lock)
    return 0


def gate(paths: Paths, config_path: Path | None = None, again: bool = False) -> int:
    """Run the gate parent in this process until SIGTERM or SIGINT. `again` is as for the daemon."""
    from headway.config.kept import loaded
    from headway.gate.main import run_parent
    from headway.gate.spec import Spec

    os.umask(0o077)
    paths.create()
    config, _ = loaded(config_path or paths.config_file, paths.kept_config, again)
    listen = {"front": (config.gate.host, config.gate.port)}
    listen |= {
        name: (config.gate.host, one.port) for name, one in config.service.items() if one.port is not None
    }
    _first_routes(paths.run_dir / "routes.json", config)
    run_parent(Spec(str(paths.run_dir), str(paths.requests_dir), listen, __version__))
    return 0


def _first_routes(path: Path, config: Config) -> None:
    """Before the first daemon ever ran: the services by name, all closed, so that requests wait for it."""
    from headway.config.checks import models_of
    from headway.core import wire

    if path.exists():
        return
    rows = {
        name: wire.Service(name, rev=0, gate="closed", names=models_of(name, one))
        for name, one in config.service.items()
    }
    new = path.with_name(f".routes.json.{os.getpid()}")
    try:
        new.write_bytes(wire.encode(wire.Table(wire.PROTO, "config", rows, mode=config.mode)))
        with suppress(FileExistsError):  # the daemon was faster, and knows more
            os.link(new, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # it does not say which file
    finally:
        new.unlink(missing_ok=True)


def is_daemon_due(paths: Paths) -> bool:
    """Does a daemon live here, or a `headway up` that starts one?"""
    return any(is_locked(paths.run_dir / lock) for lock in ("up.lock", "daemon.lock"))


def up(paths: Paths, config_path: Path | None = None) -> int:
    """Run the gate and the daemon under a small supervisor until SIGTERM or SIGINT.

    Raises:
        AlreadyRunning: another `headway up` uses this home.
        ConfigInvalid: the config has problems.
    """
    from headway.config.load import load
    from headway.supervisor import supervise

    os.umask(0o077)
    paths.create()
    load(config_path or paths.config_file)
    lock = take_lock(paths.run_dir / "up.lock")  # what a killed one left running is adopted: see supervisor
    if lock is None:
        raise AlreadyRunning(
            f"`headway up` is already running in {paths.state_dir}. See it: `headway status`.",
            home=str(paths.state_dir),
        )
    try:
        return supervise(paths, config_path)
    finally:
        os.close(lock)


def down(paths: Paths, config_path: Path | None = None, everything: bool = False) -> int:
    """End what `headway up` runs. With `everything` jobs and models are stopped and held before. Exit status.

    Raises:
        DaemonAway: `everything`, and a daemon could be neither reached nor started.
    """
    from headway import supervisor

    held = _stop_everything(paths, config_path) if everything else []
    names = supervisor.names_of(paths)
    locks = ("up.lock", "daemon.lock", "gate-parent.lock")
    ended = [supervisor.end_locked(paths.run_dir / lock) for lock in locks]
    ended.append(supervisor.end_gates(paths))
    supervisor.tell("Headway ended." if any(ended) else f"Nothing of Headway runs in {paths.state_dir}.")
    if held:
        again = supervisor.typed(paths, f"release {' '.join(held)}")
        supervisor.tell(
            f"Held: {', '.join(held)}. After {supervisor.typed(paths, 'up')}, {again} lets them go on."
        )
    supervisor.tell_living(paths, names)
    return 0 if not any(map(supervisor.locked_by, (paths.run_dir / lock for lock in locks))) else 1


def _stop_everything(paths: Paths, config_path: Path | None) -> list[str]:
    """Hold what waits, stop what runs, and wait until nothing lives. Returns the ids that were held for it."""
    from headway import supervisor
    from headway.client import Answered, Client, address

    if not supervisor.living(paths) and supervisor.board_of(paths) is None:
        return []
    _ensure_daemon(paths, config_path)
    client = Client(address(paths.run_dir, {}))
    waiting = [row["id"] for row in client.get("/api/v1/jobs", state=["queued"], limit=1000)["jobs"]]
    told = {"reason": "by `headway down --all`"}
    if waiting:  # in one turn: held for equally long, a release gives each its place back
        with suppress(Answered):  # one was forgotten meanwhile
            client.post("/api/v1/select/hold", {"targets": waiting, **told})
    stopped: list[str] = []
    while left := supervisor.living(paths):
        for hid in [hid for hid in left if hid not in stopped]:
            stopped.append(hid)
            supervisor.tell(f"{hid} is being stopped.")
            with suppress(Answered):
                client.post(f"/api/v1/holders/{hid}/stop", told)
        time.sleep(supervisor.LOOK_S)
    # in the order in which a release gives everybody his place back
    held = [*stopped, *(hid for hid in waiting if hid not in stopped)]
    _at_rest(client, held)
    return held


def _ensure_daemon(paths: Paths, config_path: Path | None) -> None:
    """Have a daemon that answers: only it can stop a job so that the job goes on later.

    Raises:
        DaemonAway: there is none, and a new one ends at once.
    """
    from headway import supervisor

    child: subprocess.Popen[bytes] | None = None
    while supervisor.board_of(paths) is None:
        if child is None and supervisor.locked_by(paths.run_dir / "daemon.lock") is None:
            config = [str(config_path.absolute())] if config_path else []
            argv = [*supervisor.command_line(paths), "daemon", *config]
            child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, start_new_session=True)
        if child is not None and child.poll() is not None:
            raise DaemonAway("no daemon answers, and a new one ended at once; see what it says above.")
        time.sleep(supervisor.LOOK_S)


def _at_rest(client: Client, held: list[str]) -> None:
    """Wait until the daemon has seen the end of all of them, and has written it down."""
    until_s = time.monotonic() + REST_LIMIT_S
    for hid in held:
        while client.get(f"/api/v1/holders/{hid}")["state"] not in AT_REST and time.monotonic() < until_s:
            time.sleep(0.05)
