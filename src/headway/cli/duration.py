"""Durations as people type them."""

from __future__ import annotations

from typing import Any

import click

from headway.core.units import parse_duration

FOREVER = "forever"
MOST = "366d"  # as in the API


class Duration(click.ParamType[float]):
    """Seconds of "90s" or "1h30min", at most MOST; where `waits` says so, 0 and "forever" too (as infinity)."""

    def __init__(self, waits: bool = False) -> None:
        self.name = "DURATION|0|forever" if waits else "DURATION"
        self.waits = waits

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        if self.waits and value in ("0", FOREVER):
            return 0.0 if value == "0" else float("inf")
        try:
            found = parse_duration(value)
        except ValueError as error:
            self.fail(f"{error}" + (', or "0", or "forever"' if self.waits else ""), param, ctx)
        if not found and not self.waits:
            self.fail(f'"{value}" is no time at all', param, ctx)
        if found > parse_duration(MOST):
            self.fail(f"it may be at most {MOST}", param, ctx)
        return found
