"""What one check found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["ok", "warning", "problem", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`measured` is what is so. Where it is not well: what that `blocks`, and the `next` thing to type."""

    level: Level
    measured: str
    blocks: str | None = None
    next: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def ok(measured: str, **facts: Any) -> Finding:
    return Finding(level="ok", measured=measured, facts=facts)


def unknown(measured: str, next_: str | None = None, **facts: Any) -> Finding:
    """It could not be found out, which is neither good nor bad."""
    return Finding(level="unknown", measured=measured, next=next_, facts=facts)


def warning(measured: str, blocks: str, next_: str, **facts: Any) -> Finding:
    """Headway works, and not as well as it could."""
    return Finding(level="warning", measured=measured, blocks=blocks, next=next_, facts=facts)


def problem(measured: str, blocks: str, next_: str, **facts: Any) -> Finding:
    """Something does not work at all before this is mended."""
    return Finding(level="problem", measured=measured, blocks=blocks, next=next_, facts=facts)
