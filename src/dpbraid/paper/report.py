"""The reports: one HTML file each, which needs no network and shows every number.

Tables and words are written here; the curves are drawn by the page's own script from
the data in it, so that they can be hovered and zoomed. The same results give the same
bytes.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from dpbraid.paper import claims as judge
from dpbraid.paper.claims import Verdict
from dpbraid.paper.guarantee import guarantee
from dpbraid.paper.panels import PAPER, Algorithm
from dpbraid.paper.results import Curve, Rate, Result, seconds
from dpbraid.paper.study import Study
from dpbraid.paper.style import COLOURS, DASHES, limits, panel_title
from dpbraid.paper.sweep import Settings

_PAGE = files("dpbraid.paper") / "page"

_WARNING = (
    "Research on published data: objectives on private rows are shown, and learning "
    "rates are picked by them, as the paper does. Neither is covered by any guarantee "
    "named here."
)


def report(study: Study, results: Sequence[Result]) -> str:
    """The report: every panel with its table, the claims, the choices behind it."""
    title = ", ".join(dict.fromkeys(r.panel.figure for r in results))
    parts = [
        f"<h1>{escape(title)}</h1>",
        _facts(study, study.settings, results),
        _nav(results),
        "<h2>Which claims hold</h2>",
        _claim_counts(results),
        "<h2>Final objectives</h2>",
        _overview(results),
        "<h2>Panels</h2>",
        _reading(),
        _cards(results),
        _choices(study),
    ]
    charts = {r.panel.id: _chart(r, limits(r)) for r in results}
    return _page(title, "\n".join(parts), charts)


def beside(study: Study, results: Sequence[Result], others: Sequence[Result]) -> str:
    """The second report: what exact accounting and placement change, panel by panel."""
    title = "Noise at every step, noise at epoch ends"
    parts = [
        f"<h1>{escape(title)}</h1>",
        "<p>Left: noise as in the paper. Right: the same panels at the same guarantee, "
        "with one Gaussian after the last private step of each private epoch, its size "
        "from the best analysis that holds. Both axes of a pair are the same.</p>",
        _facts(study, study.beside_settings, [*results, *others]),
        _nav([*results, *others]),
        "<h2>Lowest excess over G* of a private algorithm</h2>",
        _gains(results, others),
        "<h2>Panels</h2>",
        '<div class="panels wide">',
    ]
    charts = {}
    for left, right in zip(results, others, strict=True):
        low, high = zip(limits(left), limits(right), strict=True)
        frame = (min(low), max(high))
        names = (left.panel.id, f"{left.panel.id}-beside")
        charts[names[0]] = _chart(left, frame)
        charts[names[1]] = _chart(right, frame)
        parts += [
            '<section class="panel">',
            f"<h3>{escape(_heading(left))}</h3>",
            '<div class="pair">',
            _figure(names[0], left.settings.words),
            _figure(names[1], right.settings.words),
            "</div>",
            _beside_table(left, right),
            "</section>",
        ]
    parts.append("</div>")
    return _page(title, "\n".join(parts), charts)


# -- the page ------------------------------------------------------------------------


def _page(title: str, body: str, charts: dict[str, Any]) -> str:
    # "<" cannot end the script element that holds the data
    data = json.dumps({"panels": charts}, allow_nan=False, separators=(",", ":"))
    parts = {
        "TITLE": escape(title),
        "STYLE": _read("page.css"),
        "BODY": body,
        "DATA": data.replace("<", "\\u003c"),
        "SCRIPT": _read("page.js"),
    }
    page = _read("page.html")
    # split once, so that no part's text is taken for a place
    pieces = page.split("@@")
    return "".join(
        parts[piece] if number % 2 else piece for number, piece in enumerate(pieces)
    )


def _read(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")


def _chart(result: Result, frame: tuple[float, float]) -> dict[str, Any]:
    return {
        "optimum": result.optimum,
        "limits": list(frame),
        "curves": [
            {
                "algorithm": curve.algorithm.value,
                "title": curve.title,
                "colour": COLOURS[curve.algorithm],
                "dashes": _dashes(curve.algorithm),
                "unstable": curve.unstable(result.optimum) is not None,
                "mean": [_json_number(v) for v in curve.best.mean],
                "std": [_json_number(v) for v in curve.best.std],
            }
            for curve in result.curves
        ],
    }


def _json_number(value: float) -> float | None:
    return float(f"{value:.9g}") if math.isfinite(value) else None


def _nav(results: Iterable[Result]) -> str:
    """One legend for all panels; its buttons hide curves."""
    titles: dict[Algorithm, str] = {}
    for result in results:
        for curve in result.curves:
            titles.setdefault(curve.algorithm, curve.title)
    buttons = [
        f'<button data-algorithm="{name.value}" aria-pressed="true">'
        '<svg aria-hidden="true"><line x1="0" x2="26" y1="4" y2="4" '
        f'stroke-width="2.5" stroke="{COLOURS[name]}" '
        f'stroke-dasharray="{_dashes(name)}"/></svg>'
        f"{escape(title)}</button>"
        for name, title in titles.items()
    ]
    return (
        f'<nav>{"".join(buttons)}<button class="scale">show G − G*, log</button></nav>'
    )


def _dashes(algorithm: Algorithm) -> str:
    """In pixels, of lines twice as wide as on paper."""
    return " ".join(f"{2 * length:g}" for length in DASHES[algorithm])


def _figure(name: str, caption: str = "") -> str:
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return (
        f'<figure id="{escape(name)}" data-panel="{escape(name)}">'
        f'<svg role="img" aria-label="{escape(name)}"></svg>{below}</figure>'
    )


def _table(
    head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]], kind: str = ""
) -> str:
    """Rows of (class, cells); the cells are HTML."""
    body = "".join(
        f'<tr class="{row}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for row, cells in rows
    )
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _list(items: Iterable[str]) -> str:
    inner = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<ul>{inner}</ul>" if inner else ""


# -- words ---------------------------------------------------------------------------


def _facts(study: Study, settings: Settings, results: Sequence[Result]) -> str:
    panels = study.panels
    facts = [
        settings.words,
        f"{_several(p.runs for p in panels)} runs of "
        f"{_several(p.epochs for p in panels)} epochs",
        f"{_several(len(p.learning_rates) for p in panels)} learning rates",
        f"delta {_several(f'{p.delta:g}' for p in panels)}, replacing one private row",
        f"clip norm {_several(f'{p.clip_norm:g}' for p in panels)}",
        f"seed {settings.seed}, {settings.precision}",
        f"wall time of all runs, one core each, {seconds(results):.0f} s",
        f"dpbraid {study.version}",
    ]
    return (
        f"<p>{escape('; '.join(facts))}.</p>"
        f'<p class="soft">{escape(_WARNING)}</p>'
        "<noscript><p>The curves need JavaScript; the same panels are pictures in the "
        "folder figures.</p></noscript>"
    )


def _several(values: Iterable[object]) -> str:
    return " or ".join(dict.fromkeys(str(value) for value in values))


def _heading(result: Result) -> str:
    return f"{panel_title(result)} ({result.panel.figure})"


def _reading() -> str:
    return (
        '<p class="soft">Lines are means over the runs of G(x; D) after each epoch, '
        "bands one standard deviation; the dotted line is G*, the optimum without "
        "privacy. Each curve is at the learning rate with the lowest mean last "
        "iterate. What leaves a frame is cut. Move over a panel for numbers, drag to "
        "zoom, press a name above to hide it.</p>"
    )


_MARKS = {
    Verdict.HOLDS: '<span class="good">✓ holds</span>',
    Verdict.TIE: "≈ a tie",
    Verdict.FAILS: '<span class="bad">✗ does not hold</span>',
}


def _claim_counts(results: Sequence[Result]) -> str:
    counts: dict[str, Counter[Verdict]] = {}
    where: dict[tuple[str, Verdict], list[str]] = {}
    for result in results:
        for claim in judge.claims(result):
            counts.setdefault(claim.statement, Counter())[claim.verdict] += 1
            key = (claim.statement, claim.verdict)
            where.setdefault(key, []).append(panel_title(result))
    rows = [
        (
            "",
            [
                escape(statement),
                *(str(count[verdict]) for verdict in Verdict),
                escape("; ".join(where.get((statement, Verdict.FAILS), []))),
            ],
        )
        for statement, count in counts.items()
    ]
    return _table(
        ["claim", "holds", "ties", "does not hold", "where it does not"], rows, "words"
    )


# Of every table: what costs no privacy.
_FREE_POINTS = ("zero vector", "public solution")


def _free_points(result: Result) -> list[tuple[str, float]]:
    """Their names, and G there."""
    values = (result.reference.zero_value, result.reference.public_value)
    return list(zip(_FREE_POINTS, values, strict=True))


def _overview(results: Sequence[Result]) -> str:
    names = list(dict.fromkeys(c.algorithm for r in results for c in r.curves))
    titles = {c.algorithm: c.title for r in reversed(results) for c in r.curves}
    rows = []
    for result in results:
        lowest = result.best.best.final
        cells = [f'<a href="#{escape(result.panel.id)}">{escape(_heading(result))}</a>']
        cells.append(_number(result.optimum))
        cells += [_number(value) for _, value in _free_points(result)]
        for name in names:
            curve = result.curve(name)
            if curve is None:
                cells.append("")
                continue
            text = (
                f"{_number(curve.best.final)} ({curve.best.final - result.optimum:.3g})"
            )
            marks = "*" * (curve.unstable(result.optimum) is not None)
            marks += "†" * curve.best.guarantee_void
            strong = curve.best.final == lowest
            cells.append((f"<b>{text}</b>" if strong else text) + marks)
        rows.append(("", cells))
    return (
        _table(
            ["panel", "G*", *_FREE_POINTS, *(titles[n] for n in names)],
            rows,
        )
        + '<p class="soft">Mean last iterate, in brackets the excess over G*; the '
        "lowest in bold. * unstable, † guarantee void: see the panel.</p>"
    )


# -- a panel -------------------------------------------------------------------------


def _cards(results: Sequence[Result]) -> str:
    cards = []
    for result in results:
        judged = "".join(
            f"<li>{_MARKS[c.verdict]}: {escape(c.statement)} "
            f'<span class="soft">({escape(c.numbers)})</span></li>'
            for c in judge.claims(result)
        )
        cards.append(
            '<section class="panel">'
            f"<h3>{escape(_heading(result))}</h3>"
            f"{_figure(result.panel.id)}"
            f"{_curve_table(result)}"
            f"<ul>{judged}</ul>{_list(judge.remarks(result))}"
            f'<p class="soft">{escape(_task_line(result))}</p>'
            "</section>"
        )
    return f'<div class="panels">{"".join(cards)}</div>'


def _task_line(result: Result) -> str:
    task, panel, best = result.task, result.panel, result.reference.optimum
    return (
        f"{task.description}. n = {task.n}, d = {task.dimension}, "
        f"{len(task.public)} public rows, p = {panel.private_fraction:g}, order "
        f"{panel.order.kind}; gap of G* at most {best.gap:.1g}, its KKT residual "
        f"{best.residual:.1g}; wall time of the runs, one core each, "
        f"{seconds([result]):.1f} s."
    )


def _curve_table(result: Result) -> str:
    best = result.best
    rows = [
        ("best" if curve is best else "", _curve_cells(result, curve))
        for curve in result.curves
    ]
    for name, value in (*_free_points(result), ("optimum G*", result.optimum)):
        excess = f"{value - result.optimum:.4g}"
        rows.append(("point", [name, _number(value), excess, *([""] * 5)]))
    head = [
        "algorithm",
        "final G ± std",
        "excess",
        "best rate",
        "best rate ≤ 2/L, final G",
        "noise std",
        "accountant's",
        "guarantee",
    ]
    return _table(head, rows)


def _curve_cells(result: Result, curve: Curve) -> list[str]:
    best, valid = curve.best, curve.best_valid
    key = f'<i class="key" style="background:{COLOURS[curve.algorithm]}"></i>'
    mark = "*" if curve.unstable(result.optimum) is not None else ""
    exact, guaranteed = _guaranteed(result, best)
    return [
        key + escape(curve.title) + mark,
        f"{_number(best.final)} ± {best.final_std:.2g}",
        f"{best.final - result.optimum:.4g}",
        f"{best.learning_rate:g}",
        "none"
        if valid is None
        else f"{valid.learning_rate:g}<br>{_number(valid.final)}",
        f"{best.cell.noise_std:.6g}" if curve.private else "0",
        exact,
        guaranteed,
    ]


def _guaranteed(result: Result, rate: Rate) -> tuple[str, str]:
    """The noise that the accountant asks for, and what the run's noise guarantees."""
    found = guarantee(result, rate)
    noise = "refused" if found.noise_std is None else f"{found.noise_std:.6g}"
    if found.holds:
        return noise, escape(found.words)
    words = "guarantee void" if found.words == "void" else found.words
    return noise, f'<b class="bad">{escape(words)}</b>'


def _number(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else "diverged"


# -- the second report ---------------------------------------------------------------


def _gains(results: Sequence[Result], others: Sequence[Result]) -> str:
    rows = []
    for left, right in zip(results, others, strict=True):
        before = _lowest_private(c for c in left.curves if c.algorithm in PAPER)
        after = _lowest_private(right.curves)
        if before is None or after is None:
            continue
        excesses = (
            before.best.final - left.optimum,
            after.best.final - right.optimum,
        )
        rows.append(
            (
                "",
                [
                    f'<a href="#{escape(left.panel.id)}">{escape(_heading(left))}</a>',
                    *(f"{value - left.optimum:.4g}" for _, value in _free_points(left)),
                    f"{excesses[0]:.4g}, {escape(before.title)}",
                    f"{excesses[1]:.4g}, {escape(after.title)}",
                    _ratio(*excesses),
                ],
            )
        )
    return _table(
        ["panel", *_FREE_POINTS, "as in the paper", "epoch end, best", "times less"],
        rows,
    )


def _lowest_private(curves: Iterable[Curve]) -> Curve | None:
    private = [curve for curve in curves if curve.private]
    return min(private, key=lambda curve: curve.best.final, default=None)


def _ratio(before: float, after: float) -> str:
    return f"{before / after:.2f}" if after > 0 and math.isfinite(before) else ""


def _beside_table(left: Result, right: Result) -> str:
    rows = []
    for curve in left.curves:
        other = right.curve(curve.algorithm)
        key = f'<i class="key" style="background:{COLOURS[curve.algorithm]}"></i>'
        cells = [key + escape(curve.title), *_half(left, curve)]
        if other is None:
            rows.append(("", [*cells, "no rate is accepted", "", "", "", ""]))
            continue
        before, after = (
            curve.best.final - left.optimum,
            other.best.final - right.optimum,
        )
        cells += [*_half(right, other), _ratio(before, after) if curve.private else ""]
        rows.append(("best" if other is right.best else "", cells))
    for name, value in _free_points(left):
        excess = f"{value - left.optimum:.4g}"
        rows.append(("point", [name, excess, "", "", "", excess, "", "", "", ""]))
    half = ["excess ± std", "rate", "noise std", "guarantee"]
    return _table(["algorithm", *half, *half, "times less"], rows)


def _half(result: Result, curve: Curve) -> list[str]:
    best = curve.best
    mark = "*" if curve.unstable(result.optimum) is not None else ""
    return [
        f"{best.final - result.optimum:.4g} ± {best.final_std:.2g}{mark}",
        f"{best.learning_rate:g}",
        f"{best.cell.noise_std:.5g}" if curve.private else "0",
        _guaranteed(result, best)[1],
    ]


# -- the choices ---------------------------------------------------------------------


def _choices(study: Study) -> str:
    rows = [
        (
            "",
            [
                escape(f"{options.kind}.{option.name}"),
                escape(str(getattr(options, option.name))),
                escape(str(option.default)),
                escape(option.why),
            ],
        )
        for options in study.options
        for option in options.describe()
    ]
    table = _table(["option", "here", "default", "why"], rows, "words")
    return (
        "<details><summary>What the paper leaves open about its data, and what was "
        f"chosen here</summary>{table}</details>"
    )
