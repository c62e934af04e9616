"""How a process ended, and what of its work was lost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How the leader of a run ended. `code` is negative for a signal."""

    code: int
    peak_host_bytes: int | None = None
    at_s: float | None = None  # boottime
    error: str | None = None  # why the command could not be executed at all
    last_lines: tuple[str, ...] = ()  # of its log, where it ended badly
    out_of_memory: bool = False  # its log says so

    @property
    def last_line(self) -> str | None:
        return self.last_lines[-1] if self.last_lines else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A stretch of work that was done after the last saved point, and is gone."""

    run: str | None
    cause: str  # a holder that needed the room, or the code of what ended it
    lost_s: float
    at_ran_s: float  # its running time when that happened
