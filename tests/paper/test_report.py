from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dpbraid.paper import report
from dpbraid.paper.guarantee import guarantee
from dpbraid.paper.panels import Algorithm
from dpbraid.paper.results import Rate


class Page(HTMLParser):
    """Tags with their attributes, rows of tables, and the data of the script."""

    VOID = ("meta", "line", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.data = ""
        self._open: list[str] = []
        self._cell: str | None = None
        self._in_data = False
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append((tag, found))
        if tag not in self.VOID:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._cell = ""
        self._in_data = tag == "script" and found.get("id") == "data"

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self._open.pop() == tag
        if tag in ("td", "th"):
            self.rows[-1].append(self._cell)
            self._cell = None
        self._in_data = False

    def handle_data(self, data):
        if self._cell is not None:
            self._cell += data
        if self._in_data:
            self.data += data


@pytest.fixture(scope="module")
def pages(small) -> dict[str, str]:
    return {
        "report": report.report(small.study, small.results),
        "beside": report.beside(small.study, small.results, small.beside),
    }


@pytest.mark.parametrize("name", ["report", "beside"])
def test_a_page_is_well_formed_and_needs_no_network(pages, name):
    page = Page(pages[name])
    for tag, attributes in page.tags:
        assert tag not in ("link", "img", "iframe", "object", "base")
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    for word in ("@import", "url(", "fetch(", "XMLHttpRequest", "import(", "WebSocket"):
        assert word not in pages[name].replace("url(#", "")
    names = [a["id"] for t, a in page.tags if t == "figure"]
    assert sorted(names) == sorted(json.loads(page.data)["panels"])
    assert "@@" not in pages[name]


def test_the_same_results_give_the_same_page(small, pages):
    assert report.report(small.study, small.results) == pages["report"]


def test_tables_hold_the_numbers(small, pages):
    rows = Page(pages["report"]).rows
    for result in small.results:
        for curve in result.curves:
            best, optimum = curve.best, result.optimum
            wanted = [
                f"{best.final:.6g} ± {best.final_std:.2g}",
                f"{best.final - optimum:.4g}",
                f"{best.learning_rate:g}",
            ]
            # panels that share a run share its row
            row, *_ = (
                row for row in rows if row[1:4] == wanted and curve.title in row[0]
            )
            found = guarantee(result, best)
            noise = best.cell.noise_std
            assert row[5] == (f"{noise:.6g}" if curve.private else "0")
            if found.noise_std is None:
                assert row[6] == "refused"
            else:
                assert row[6] == row[5]
            if found.holds:
                assert row[7] == found.words
        zero, public = result.reference.zero_value, result.reference.public_value
        for name, value in (("zero vector", zero), ("public solution", public)):
            wanted = [name, f"{value:.6g}", f"{value - result.optimum:.4g}"]
            assert any(row[:3] == wanted for row in rows)


@pytest.mark.parametrize("name", ["report", "beside"])
def test_what_costs_no_privacy_is_in_the_overview_too(small, pages, name):
    head, *rows = (
        row
        for row in Page(pages[name]).rows
        if row[0] == "panel" or row[0].startswith("Crime")
    )
    assert len(rows) == len(small.results)
    for result, row in zip(small.results, rows, strict=True):
        over = 0.0 if name == "report" else result.optimum
        digits = 6 if name == "report" else 4
        for point, value in (
            ("zero vector", result.reference.zero_value),
            ("public solution", result.reference.public_value),
        ):
            assert row[head.index(point)] == f"{value - over:.{digits}g}"


def test_the_data_are_the_curves(small, pages):
    data = json.loads(Page(pages["report"]).data)["panels"]
    for result in small.results:
        drawn = data[result.panel.id]
        assert drawn["optimum"] == result.optimum
        for curve, shown in zip(result.curves, drawn["curves"], strict=True):
            assert shown["title"] == curve.title
            assert shown["mean"] == pytest.approx(list(curve.best.mean), rel=1e-8)
            assert shown["std"] == pytest.approx(list(curve.best.std), rel=1e-8)


def test_void_and_unstable_entries_are_named(small):
    """At rate 1e-2, far above 2/L, Interleaved's guarantee is void."""
    first = small.results[0]
    curve = first.curve(Algorithm.INTERLEAVED)
    lowest = replace(curve.rates[0], objectives=curve.rates[0].objectives * 0 + 0.03)
    changed = replace(curve, rates=(lowest, *curve.rates[1:]))
    page = report.report(small.study, [replace(first, curves=(changed,))])
    (row,) = (row for row in Page(page).rows if row[0] == curve.title)
    assert row[6:] == ["refused", "guarantee void"]
    assert "guarantee void at its best learning rate 0.01, above 2/L" in page
    assert "†" in page


def test_words_are_escaped(small):
    strange = '<script>alert("x")</script>'
    task = replace(small.results[0].task, title=strange)
    page = report.report(small.study, [replace(small.results[0], task=task)])
    assert strange not in page
    assert page.count("<script") == 2


def test_a_curve_that_diverged_is_drawn_as_far_as_it_goes(small):
    first = small.results[0]
    curve = first.curve(Algorithm.DP)
    objectives = curve.best.objectives.copy()
    objectives[:, 5:] = float("inf")
    gone = replace(curve, rates=(Rate(curve.best.cell, objectives, 0.0),))
    others = tuple(c for c in first.curves if c is not curve)
    page = Page(report.report(small.study, [replace(first, curves=(gone, *others))]))
    shown = json.loads(page.data)["panels"][first.panel.id]["curves"][0]
    assert shown["mean"][5:] == [None] * 8
    assert any("diverged" in row[1] for row in page.rows if row[0] == curve.title)


def test_the_second_report_has_both_sides(small, pages):
    rows = Page(pages["beside"]).rows
    for left, right in zip(small.results, small.beside, strict=True):
        for curve in left.curves:
            other = right.curve(curve.algorithm)
            sides = [
                f"{c.best.final - r.optimum:.4g} ± {c.best.final_std:.2g}"
                for r, c in ((left, curve), (right, other))
            ]
            row, *_ = (
                row
                for row in rows
                if [text.rstrip("*") for text in row[1:6:4]] == sides
            )
            if curve.private:
                gain = (curve.best.final - left.optimum) / (
                    other.best.final - right.optimum
                )
                assert row[9] == f"{gain:.2f}"


# -- in a browser --------------------------------------------------------------------

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell")


@pytest.fixture(scope="module")
def browser() -> str:
    for name in BROWSERS:
        path = shutil.which(name)
        if path is not None:
            return path
    pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)} is in PATH")


def _in_browser(browser: str, path: Path, width: int) -> str:
    """The page after its script ran."""
    done = subprocess.run(
        [
            browser,
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            f"--user-data-dir={path.parent / 'profile'}",
            f"--window-size={width},900",
            *("--virtual-time-budget=10000", "--timeout=60000", "--dump-dom"),
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("name", "width"), [("report", 1400), ("beside", 390)])
def test_every_panel_is_drawn_in_a_browser(
    browser, small, pages, tmp_path, name, width
):
    path = tmp_path / f"{name}.html"
    path.write_text(pages[name], encoding="utf-8")
    dom = _in_browser(browser, path, width)
    figures = re.findall(r"<figure.*?</figure>", dom, re.DOTALL)
    sides = 1 if name == "report" else 2
    assert f'data-charts="{len(figures)}"' in dom
    assert len(figures) == sides * len(small.results)
    results = (
        small.results
        if name == "report"
        else [r for pair in zip(small.results, small.beside, strict=True) for r in pair]
    )
    for figure, result in zip(figures, results, strict=True):
        assert f'data-drawn="{len(result.curves)}"' in figure
        assert "NaN" not in figure
        assert "Infinity" not in figure
        for curve in result.curves:
            pattern = rf'<path d="(M[^"]+)"[^>]*data-curve="{curve.algorithm.value}"'
            (line,) = re.findall(pattern, figure)
            assert len(re.findall(r"[ML]", line)) == result.panel.epochs + 1
