"""What the options of `headway sim` take, refused in words where it makes no sense."""

from __future__ import annotations

import math
from itertools import count
from typing import Any

import click


class Span(click.ParamType[Any]):
    """Seeds: `7`, `1-200`, or `1-` for all from there on."""

    name = "seeds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        first, dash, last = str(value).partition("-")
        if not first.isdecimal() or not (last.isdecimal() or not last):
            self.fail(f"{value!r} is not a span of seeds such as 1-200, or 1- without an end", param, ctx)
        if dash and not last:
            return count(int(first))
        span = range(int(first), int(last or first) + 1)
        if not span:
            self.fail(f"{value} has no seed in it: write {last}-{first}", param, ctx)
        return span


class Finite(click.FloatRange):
    """A number with a least value, neither `nan` nor `inf`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no length of time", param, ctx)
        return number


class FaultNames(click.ParamType[Any]):
    """Names as the list or the summary prints them, with commas between. `all` becomes None, `none` becomes ""."""

    name = "faults"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from headway.sim.faults import chosen

        names = [
            "_".join(name.lower().replace("-", " ").replace("_", " ").split()) for name in value.split(",")
        ]
        if not any(names):
            self.fail(
                "names no fault: write `none` for no faults at all, or leave the option out", param, ctx
            )
        names = [name for name in names if name]
        for word in ("all", "none"):
            if word in names and len(set(names)) > 1:
                self.fail(f"`{word}` stands alone: leave it out, or leave out the other names", param, ctx)
        if names[0] in ("all", "none"):
            return names[0]
        try:
            return ",".join(chosen(",".join(names)))
        except ValueError as error:
            self.fail(str(error), param, ctx)
