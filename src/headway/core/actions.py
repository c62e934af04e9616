"""What a pass answers: what to do next, why everybody is where he is, and what the audit keeps of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headway.core.spec import DeviceId, FormName, HolderId


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why something is, or is not, so. `code` is stable; view.py makes the sentence from `facts`."""

    code: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    until_s: float | None = None  # when time alone may change it


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Bring a holder into a form."""

    holder: HolderId
    form: FormName
    devices: tuple[DeviceId, ...]
    limit_s: float
    creates: bool = False
    frees: bool = False
    exclusive: bool = False
    run_id: str | None = None
    kill: bool = False
    rung: int = 0
    cause: str | None = None  # holder id or code that it is done for


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGate:
    holder: HolderId


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseGate:
    holder: HolderId
    abort_after_s: float | None = None
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    holder: HolderId
    what: Literal["freeze", "thaw", "wind_down"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Ask the meter for a reading now."""

    devices: tuple[DeviceId, ...]


Action = Move | OpenGate | CloseGate | Signal | Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    actions: tuple[Action, ...]
    verdicts: Mapping[HolderId, Verdict]
    recheck_at_s: float | None
    asides: Mapping[HolderId, str] = field(default_factory=dict)  # who steps aside -> for whom, or a code


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the audit: what happened, to whom, with what measured time."""

    code: str  # dotted, stable: "job.started", "move.verified"
    holder: HolderId | None
    at_s: float  # boottime
    facts: Mapping[str, Any] = field(default_factory=dict)
