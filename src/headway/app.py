"""What `headway up`, `daemon`, `gate` and `check` run. Each imports only what it needs: a start is felt by people."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headway import __version__
from headway.config.paths import Paths
from headway.errors import AlreadyRunning
from headway.host.locks import take_lock

if TYPE_CHECKING:
    from headway.config.build import Built
    from headway.config.schema import Config


def settings(config_path: Path) -> Built:
    """Read and check the config. Raises ConfigInvalid with every problem at once."""
    from headway.composition import settings as read

    return read(config_path)


def doubts(config_path: Path) -> list[str]:
    """What is allowed in the config and probably not meant. Raises ConfigInvalid when it has problems."""
    from headway.config.load import doubts as found
    from headway.meters.once import read_once

    return found(config_path, read_once)


def daemon(paths: Paths, config_path: Path | None = None) -> int:
    """Run the daemon in this process until SIGTERM or SIGINT. Returns the exit status.

    Raises:
        AlreadyRunning: another daemon uses this home, or its port is taken.
        ConfigInvalid: the config has problems.
        StoreTooNew: the database is from a newer Headway.
    """
    os.umask(0o077)
    paths.create()
    built = settings(config_path or paths.config_file)
    lock = take_lock(paths.run_dir / "daemon.lock")
    if lock is None:
        raise AlreadyRunning(
            f"a daemon is already running in {paths.state_dir}. See it: `headway status`.",
            home=str(paths.state_dir),
        )
    from headway.composition import run_daemon

    try:
        run_daemon(paths, built)
    finally:
        os.close(lock)
    return 0


def gate(paths: Paths, config_path: Path | None = None) -> int:
    """Run the gate parent in this process until SIGTERM or SIGINT."""
    from headway.config.load import load
    from headway.gate.main import run_parent
    from headway.gate.spec import Spec

    os.umask(0o077)
    paths.create()
    config = load(config_path or paths.config_file)
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
    new.write_bytes(wire.encode(wire.Table(wire.PROTO, "config", rows, mode=config.mode)))
    with suppress(FileExistsError):  # the daemon was faster, and knows more
        os.link(new, path)
    new.unlink()


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
