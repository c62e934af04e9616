"""Reading of a metrics page: only the samples that somebody wants, in one pass over its lines."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

Samples: TypeAlias = Mapping[str, Sequence[tuple[str, float]]]  # name -> (labels, value) of each


def samples(text: str, wanted: Collection[str]) -> Samples:
    """Every sample of these names; a name that is not there is left out.

    >>> samples('a{b="c"} 1.0\\na_total 2\\na 3e-05\\n# a 4', {"a"})
    {'a': [('b="c"', 1.0), ('', 3e-05)]}
    """
    found: dict[str, list[tuple[str, float]]] = {}
    for line in text.splitlines():
        head, _, value = line.rpartition(" ")
        name, _, labels = head.partition("{")
        if name in wanted:
            try:
                number = float(value)
            except ValueError:
                continue
            if math.isfinite(number):
                found.setdefault(name, []).append((labels.removesuffix("}"), number))
    return found


def total(found: Samples, *names: str) -> float | None:
    """The sum over all samples of the first of these names that is there, as engines of one server tell one each."""
    for name in names:
        if name in found:
            return sum(value for _, value in found[name])
    return None


def highest(found: Samples, *names: str) -> float | None:
    """The largest of the samples of the first of these names that is there."""
    for name in names:
        if name in found:
            return max(value for _, value in found[name])
    return None
