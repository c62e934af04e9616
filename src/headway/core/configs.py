"""A changed config on its way into a running daemon: what was read, what differs, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from headway.core.commands import Configure


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One key that differs, in words, and from when on it counts: `restart` is that of Headway itself."""

    what: str
    when: Literal["now", "next_start", "restart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """The config that counts now, with its defaults. What may hold a secret is left out of its values.

    `etag` changes with every value, secrets included, and at each start of the daemon.
    """

    file: str
    etag: str
    config: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """A config that was read and has no problems of its own.

    Attributes:
        changes: against the one in force, with the names of services and recipes that go on with the one before.
        taken: to be called once it is in force.
        etag: of the one that is in force now.
    """

    file: str
    etag: str
    configure: Configure
    changes: Callable[[Collection[str]], Sequence[ConfigChange]]
    taken: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What became of a changed config. `draining`: services that are not in it any more, until they are forgotten."""

    file: str
    applied: bool  # False: it was only asked what would change
    changes: list[ConfigChange]
    draining: list[str]


class Configs(Protocol):
    """The config of a running daemon."""

    async def apply(
        self, drain: bool, by: str, dry_run: bool = False, seen: Callable[[str], bool] | None = None
    ) -> Applied:
        """Take what its file says now, whole or not at all. Raises ConfigInvalid, Refused."""
