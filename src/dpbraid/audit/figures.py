"""The picture of an audit: its trade-off curve, and the region of the claim."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpbraid._files import write_atomically
from dpbraid.audit.attack import Audit
from dpbraid.audit.bounds import claimed_power

Array = NDArray[np.float64]

_CLAIM, _SEEN, _BOUND = "#0072B2", "#000000", "#D55E00"


def trade_off_figure(audit: Audit) -> Figure:
    """False positives against false negatives of all threshold tests on the scores.

    Shaded: what the claim allows. Black: the rates that were seen, which no confidence
    is attached to. Orange: the one test at its confidence limits, and the Gaussian
    curve through that point; no mechanism of a smaller mu can reach the point.
    """
    found = audit.evidence
    figure = Figure(figsize=(5.2, 4.6), layout="constrained")
    axes = figure.add_subplot()
    rates = np.concatenate((np.geomspace(1e-4, 0.05, 25), np.linspace(0.05, 1, 40)[1:]))
    misses = [1 - claimed_power(audit.claim.curve, float(rate)) for rate in rates]
    axes.fill_between(
        [0.0, *rates],
        [1.0, *misses],
        1.0,
        color=_CLAIM,
        alpha=0.15,
        linewidth=0,
        label=f"claim ({audit.claim.analysis})",
    )
    axes.plot([0.0, *rates], [1.0, *misses], color=_CLAIM, linewidth=1.2)
    axes.plot([0, 1], [1, 0], color="0.6", linewidth=0.8, linestyle=":")
    false_positives, false_negatives = _seen(found.left, found.right)
    axes.step(
        false_positives,
        false_negatives,
        where="post",
        color=_SEEN,
        linewidth=0.9,
        label=f"{found.runs} runs a side, '{found.neighbours}'",
    )
    curve = 1 - ndtr(ndtri(rates) + found.mu)
    label = f"lower bound, mu >= {found.mu:.3g}"
    axes.plot(rates, curve, color=_BOUND, linewidth=1.2, linestyle="--", label=label)
    axes.plot([found.false_positives], [1 - found.power], "o", color=_BOUND)
    axes.set_xlabel("false positives")
    axes.set_ylabel("false negatives")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    verdict = "holds" if audit.holds else "REFUTED"
    axes.set_title(
        f"epsilon = {audit.claim.epsilon:.4g} at delta = {audit.claim.delta:g}: "
        f"{verdict}\nratio in mu {audit.ratio:.3f}, {100 * found.confidence:g} % sure",
        fontsize=10,
    )
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw(audit: Audit, out: Path) -> None:
    """The figure in a file (.png or .svg)."""
    buffer = BytesIO()
    trade_off_figure(audit).savefig(buffer, format=out.suffix[1:], dpi=150)
    write_atomically(out, buffer.getvalue())


def _seen(left: Array, right: Array) -> tuple[Array, Array]:
    """The rates of the tests "score >= t", for t from above all scores down."""
    thresholds = np.unique(np.concatenate((left, right)))[::-1]
    said = [np.searchsorted(np.sort(side), thresholds) for side in (left, right)]
    false_negatives = np.concatenate(([len(left)], said[0])) / len(left)
    false_positives = 1 - np.concatenate(([len(right)], said[1])) / len(right)
    return false_positives, false_negatives
