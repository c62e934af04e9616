"""Everything that the checks look at: what was read once for all of them, and whom to ask for the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headway import __version__
from headway.client import Address, Client, address
from headway.config.paths import Paths
from headway.config.schema import Config
from headway.doctor.bounded import within
from headway.errors import ConfigInvalid, HeadwayError
from headway.host.surroundings import Surroundings
from headway.ports import DeviceReading, Reading

ASK_LIMIT_S = 5.0
CONFIG_LIMIT_S = 15.0  # its check brings in half of Headway, which takes a second where nothing else goes on
CARDS_LIMIT_S = 12.0  # without persistence mode the first look at a GPU takes seconds
LOCKS = ("daemon.lock", "up.lock", "gate-parent.lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What `headway check` says of the config. `config` is None where it has problems."""

    config: Config | None = None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """One machine, one user, one home. None is "could not be found out in time"."""

    paths: Paths
    environ: Mapping[str, str]
    machine: Surroundings
    checked: Checked | None
    cards: Reading | None
    board: Mapping[str, Any] | None  # GET /api/v1/status
    health: Mapping[str, Any] | None  # GET /healthz
    gate_version: str | None  # what a gate answers at its own port
    version: str = __version__

    @property
    def config(self) -> Config | None:
        return self.checked.config if self.checked else None

    @property
    def gpus(self) -> tuple[DeviceReading, ...]:
        return self.cards.devices if self.cards else ()

    @property
    def daemon(self) -> int | None:
        """The daemon's pid; None: none runs."""
        return self.machine.lock_pid(self.paths.run_dir / "daemon.lock")

    @property
    def gate(self) -> int | None:
        """The pid of the gate's parent; None: none runs."""
        return self.machine.lock_pid(self.paths.run_dir / "gate-parent.lock")

    def headways(self) -> frozenset[int]:
        """Pids of everything that is this Headway."""
        locks = [self.paths.run_dir / name for name in LOCKS]
        locks += sorted(self.paths.gates_dir.glob("*.lock"))
        return frozenset(pid for lock in locks if (pid := self.machine.lock_pid(lock)))


def look(
    paths: Paths,
    environ: Mapping[str, str],
    check: Callable[[Callable[[], Reading]], Checked],
    read: Callable[[float], Reading],
) -> Around:
    """Read what many checks need, each with a limit, side by side.

    Args:
        check: the check of the config; it is given what NVML shows.
        read: one look at the GPUs, with a limit in seconds.
    """
    client = Client(address(paths.run_dir, {}), ASK_LIMIT_S)
    first = within(
        CARDS_LIMIT_S + 1,
        {
            "cards": lambda: read(CARDS_LIMIT_S),
            "board": lambda: _asked(client, "/api/v1/status"),
            "health": lambda: _asked(client, "/healthz"),
            "gate": lambda: _gate_version(paths),
        },
    )
    cards = first.get("cards")
    shown = cards if isinstance(cards, Reading) else Reading(at_s=0.0, devices=(), trouble="NVML hangs")
    checked = within(CONFIG_LIMIT_S, {"config": lambda: check(lambda: shown)}).get("config")
    return Around(
        paths=paths,
        environ=environ,
        machine=Surroundings(),
        checked=checked if isinstance(checked, Checked) else None,
        cards=cards if isinstance(cards, Reading) else None,
        board=_table(first.get("board")),
        health=_table(first.get("health")),
        gate_version=version if isinstance(version := first.get("gate"), str) else None,
    )


def checked(
    settings: Callable[[], Any], doubts: Callable[[], list[str]], load: Callable[[], Config]
) -> Checked:
    """What the check of a config says, as one value."""
    try:
        settings()
        return Checked(config=load(), warnings=tuple(doubts()))
    except ConfigInvalid as error:
        return Checked(problems=tuple(error.problems))


def _table(answer: Any) -> Mapping[str, Any] | None:
    return answer if isinstance(answer, dict) else None


def _asked(client: Client, path: str) -> Any:
    """What the daemon answers; None: nothing that is of use."""
    with suppress(HeadwayError):
        return client.get(path)
    return None


def _gate_version(paths: Paths) -> str | None:
    """Asked at the port that the gate last said it listens on."""
    with suppress(OSError, ValueError, KeyError, TypeError, HeadwayError):
        port = int(json.loads((paths.run_dir / "gate-ports.json").read_bytes())["front"])
        return str(Client(Address(port=port), ASK_LIMIT_S).get("/api/version")["version"])
    return None
