"""The frontier as a picture. Needs the extra `plot`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.errors import NoPlot


def plot(document: Mapping[str, Any], path: Path) -> None:
    """Draw the frontier of a replay into a PNG.

    Raises:
        NoPlot: what draws is not installed, or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise NoPlot(
            "matplotlib draws the picture and is not installed: `pip install 'headway[plot]'`."
        ) from None
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
        raise NoPlot(f"{path} cannot be written: {error}.") from None
