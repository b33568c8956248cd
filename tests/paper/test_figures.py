from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from dpbraid.paper import figures
from dpbraid.paper.panels import Algorithm, title
from dpbraid.paper.style import COLOURS, DASHES, limits
from dpbraid.theory.figures import SCHEDULE_COLOURS


def test_every_name_has_a_colour_and_a_dash_of_its_own():
    assert set(COLOURS) == set(DASHES) == set(Algorithm)
    assert len(set(COLOURS.values())) == len(set(DASHES.values())) == len(Algorithm)


def test_bounds_and_experiments_have_the_same_colours():
    names = {"alternating": "interleaved_epochs"}
    for schedule, colour in SCHEDULE_COLOURS.items():
        assert COLOURS[Algorithm(names.get(schedule, schedule))] == colour


def test_files_of_every_panel_and_figure(small, tmp_path):
    seen = []
    written = figures.draw(small.results, tmp_path, progress=seen.append)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        f"{panel.id}.{kind}" for panel in small.study.panels for kind in ("png", "svg")
    }
    assert len(written) == len(seen) == figures.count(small.results) == 4
    for path in written:
        start = path.read_bytes()[:5]
        assert start == (b"\x89PNG\r" if path.suffix == ".png" else b"<?xml")
    # two panels of one figure have a sheet
    pair = [small.results[0], small.results[0]]
    figures.draw(pair, tmp_path, suffix="-beside")
    assert (tmp_path / "figure-2-beside.png").exists()


def test_the_same_results_give_the_same_bytes(small):
    for kind in figures.FORMATS:
        first, second = (
            figures.picture(figures.panel(small.results[0]), kind) for _ in range(2)
        )
        assert first == second


def with_all_names(result):
    """The result with a curve of every algorithm, hence the largest legend."""
    curve = result.curves[0]
    return replace(
        result,
        curves=tuple(
            replace(curve, algorithm=name, title=title(name, result.panel.order))
            for name in Algorithm
        ),
    )


@pytest.fixture(params=["panel", "sheet", "sheet of two", "pair"])
def kind(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["some names", "all names"])
def figure(request, kind, small):
    found = [*small.results, *small.beside]
    if request.param:
        found = [with_all_names(result) for result in found]
    if kind == "panel":
        return figures.panel(found[0])
    if kind == "pair":
        return figures.pair(found[0], found[2])
    return figures.sheet(found if kind == "sheet" else found[:2], "All")


def test_axes_are_labelled_and_the_legend_covers_nothing(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    drawn = [axes for axes in figure.axes if axes.lines]
    assert drawn
    for axes in drawn:
        assert axes.get_xlabel() == "epoch"
        assert axes.get_ylabel() == "G(x; D)"
        assert not box.overlaps(axes.get_tightbbox())
    # nothing sticks out of the paper
    paper = figure.bbox.get_points()
    for part in (*(axes.title for axes in drawn), *legend.get_texts(), legend):
        inner = part.get_window_extent().get_points()
        assert np.all(inner >= paper[0])
        assert np.all(inner <= paper[1])


def test_lines_are_the_means_in_the_colours_of_the_legend(small):
    result = small.results[0]
    figure = figures.panel(result)
    (axes,) = figure.axes
    named = dict(
        zip(
            [text.get_text() for text in figure.legends[0].get_texts()],
            [to_hex(line.get_color()) for line in figure.legends[0].get_lines()],
            strict=True,
        )
    )
    low, high = limits(result)
    for curve, line in zip(result.curves, axes.lines, strict=False):
        assert to_hex(line.get_color()) == named[curve.title]
        inside = (curve.best.mean > low) & (curve.best.mean < high)
        assert inside.any()
        np.testing.assert_array_equal(line.get_ydata()[inside], curve.best.mean[inside])


def test_frames_hold_all_ends_and_the_optimum(small):
    for result in small.results + small.beside:
        low, high = limits(result)
        assert low <= result.optimum
        for curve in result.curves:
            assert low < curve.best.final < high
            assert low < curve.best.mean[0] < high


def test_svg_text_names_the_curves(small):
    text = figures.picture(figures.panel(small.results[0]), "svg").decode()
    assert len(re.findall(r"<path", text)) > len(small.results[0].curves)
