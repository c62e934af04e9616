"""The frontier as a picture. Needs the extra `plot`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from headway.errors import NoPlot

ENDINGS: Final = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".webp")


def writable(path: Path) -> None:
    """Can a picture be drawn there? To be asked before hours of a log are played for it.

    Raises:
        ValueError: the ending is that of no picture.
        NoPlot: what draws is not installed, or the file cannot be written.
    """
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"--plot {path}: the picture's name is to end in one of {', '.join(ENDINGS)}")
    try:
        import matplotlib.figure  # noqa: F401  # is it there?
    except ImportError:
        raise NoPlot(
            "matplotlib draws the picture and is not installed: `pip install 'headway[plot]'`."
        ) from None
    is_new = not os.path.lexists(path)
    try:
        path.open("ab").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise _unwritable(path, error) from None


def plot(document: Mapping[str, Any], path: Path) -> None:
    """Draw the frontier of a replay into a file that `writable` found fine.

    Raises:
        NoPlot: the file cannot be written after all.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5))
    axes = figure.add_subplot()
    for name, points in document["frontier"].items():
        if points:
            ordered = sorted(points)
            style = "o" if name == "fixed" else ".-"
            axes.plot([one[0] for one in ordered], [one[1] for one in ordered], style, label=name)
    axes.set_xlabel("mean wait (s)")
    axes.set_ylabel("share of time that jobs worked")
    axes.set_title(str(document["trace"]))
    axes.set_xlim(left=0)
    axes.legend()
    try:
        figure.savefig(path)
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> NoPlot:
    why = (error.strerror or str(error)).lower()
    return NoPlot(f"{path} cannot be written: {why}. Name another: `--plot FILE.png`.")
