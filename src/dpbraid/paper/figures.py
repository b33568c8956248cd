"""The panels as pictures: curves, a band of one std, one legend, one colour a name.

Each function returns a matplotlib Figure that belongs to nobody; `draw` writes them.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dpbraid._files import write_atomically
from dpbraid.paper.panels import Algorithm
from dpbraid.paper.results import Result
from dpbraid.paper.style import COLOURS, DASHES, limits, panel_title

FORMATS = ("png", "svg")


def panel(result: Result) -> Figure:
    """One panel with its own legend below."""
    figure = Figure(figsize=(4.6, 3.9), layout="constrained")
    axes = figure.add_subplot()
    _curves(axes, result)
    _legend(figure, [result], columns=3)
    return figure


def sheet(results: Sequence[Result], title: str) -> Figure:
    """Many panels, four in a row, with one legend."""
    columns = min(5 if len(results) % 5 == 0 else 4, len(results))
    rows = math.ceil(len(results) / columns)
    figure = Figure(figsize=(2.4 * columns, 2.2 * rows + 0.9), layout="constrained")
    figure.suptitle(title)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, result in zip(grid.flat, results, strict=False):
        _curves(axes, result)
    for axes in grid.flat[len(results) :]:
        axes.set_axis_off()
    _legend(figure, results, columns=6)
    return figure


def pair(left: Result, right: Result) -> Figure:
    """Two results side by side on the same axes, under their settings."""
    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    low, high = zip(limits(left), limits(right), strict=True)
    frame = (min(low), max(high))
    for axes, result in zip(figure.subplots(1, 2), (left, right), strict=True):
        _curves(axes, result, frame)
        words = result.settings.words.replace(", ", "\n")
        axes.set_title(f"{panel_title(result)}: {words}", fontsize=9)
    _legend(figure, [left, right], columns=6)
    return figure


def _curves(
    axes: Axes, result: Result, frame: tuple[float, float] | None = None
) -> None:
    low, high = frame or limits(result)
    for curve in result.curves:
        best = curve.best
        epochs = np.arange(len(best.mean))
        # what leaves the frame by far would break the renderer
        mean, above, below = (
            np.clip(values, low - 9 * (high - low), high + 9 * (high - low))
            for values in (best.mean, best.mean + best.std, best.mean - best.std)
        )
        colour = COLOURS[curve.algorithm]
        axes.fill_between(epochs, below, above, color=colour, alpha=0.18, linewidth=0)
        unstable = curve.unstable(result.optimum) is not None
        axes.plot(
            epochs,
            mean,
            color=colour,
            dashes=DASHES[curve.algorithm],
            linewidth=0.8 if unstable else 1.5,
            alpha=0.6 if unstable else 1.0,
        )
    axes.axhline(result.optimum, color="black", linewidth=0.8, linestyle=":")
    axes.set_xlim(0, result.panel.epochs)
    axes.set_ylim(low, high)
    axes.set_title(panel_title(result), fontsize=10)
    axes.set_xlabel("epoch")
    axes.set_ylabel("G(x; D)")
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)


def _legend(figure: Figure, results: Sequence[Result], columns: int) -> None:
    """One entry a name, below all panels, so that it covers no curve."""
    titles: dict[Algorithm, str] = {}
    for result in results:
        for curve in result.curves:
            titles.setdefault(curve.algorithm, curve.title)
    lines = [
        Line2D([], [], color=COLOURS[a], dashes=DASHES[a], linewidth=1.5, label=title)
        for a, title in titles.items()
    ]
    lines.append(
        Line2D(
            [], [], color="black", linewidth=0.8, linestyle=":", label="G*, not private"
        )
    )
    # fewer columns where their names are wider than the paper, with a little room, as
    # text is not equally wide at all resolutions
    room = 0.97 * figure.bbox.width
    for number in range(columns, 0, -1):
        legend = figure.legend(
            handles=lines,
            loc="outside lower center",
            ncols=number,
            fontsize=9,
            frameon=False,
        )
        if number == 1 or legend.get_window_extent().width <= room:
            return
        legend.remove()


def draw(
    results: Sequence[Result],
    folder: Path,
    *,
    suffix: str = "",
    progress: Callable[[Path], None] | None = None,
) -> list[Path]:
    """Write a picture of each panel and one of each figure, PNG and SVG.

    suffix: of the file names. The same results give the same bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, its in _drawings(results).items():
        figure = panel(its[0]) if len(its) == 1 else sheet(its, its[0].panel.figure)
        for kind in FORMATS:
            path = folder / f"{name}{suffix}.{kind}"
            write_atomically(path, picture(figure, kind))
            written.append(path)
            if progress is not None:
                progress(path)
    return written


def count(results: Sequence[Result]) -> int:
    """How many files `draw` writes."""
    return len(FORMATS) * len(_drawings(results))


def _drawings(results: Sequence[Result]) -> dict[str, list[Result]]:
    """File name -> panels in it: each figure of several panels, then each panel."""
    figures: dict[str, list[Result]] = {}
    for result in results:
        figures.setdefault(_file_name(result.panel.figure), []).append(result)
    sheets = {name: its for name, its in figures.items() if len(its) > 1}
    return sheets | {result.panel.id: [result] for result in results}


def picture(figure: Figure, kind: str) -> bytes:
    """The file's content, without a date or random names in it."""
    content = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with matplotlib.rc_context({"svg.hashsalt": "dpbraid"}):
        figure.savefig(content, format=kind, dpi=150, metadata=metadata)
    return content.getvalue()


def _file_name(figure: str) -> str:
    """ "Figure 2" -> "figure-2", "p = 0.25" -> "p-0.25"."""
    words = figure.lower().replace("=", " ").split()
    return "-".join(words)
