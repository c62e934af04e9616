"""What people and programs may ask. Each changes wishes, the queue or the mode; nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.core.model import HolderId, JobSpec, Mode, ServiceSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class AddJob:
    """Queue a job. The loop gives the id."""

    spec: JobSpec
    recipe: str | None = None
    hold: bool = False
    by: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetWish:
    """One of the verbs on one holder (an id, or a name that only one living holder has)."""

    target: HolderId
    verb: Literal["hold", "release", "pause", "resume", "wind_down", "stop", "kill", "cancel", "retry"]
    by: str = "unknown"
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveJob:
    target: HolderId
    where: Literal["top", "bottom", "before", "after"]
    other: HolderId | None = None
    by: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMode:
    mode: Mode
    by: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configure:
    """The services and recipes of the config, at start and on reload."""

    services: tuple[ServiceSpec, ...]
    recipes: tuple[tuple[JobSpec, bool], ...]  # with `hold`


Command = AddJob | SetWish | MoveJob | SetMode | Configure


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What became of a command in its turn. `code` is "accepted" or the code of a refusal."""

    accepted: bool
    code: str
    facts: dict[str, object]
    holder: HolderId | None = None
    rev: int = 0
