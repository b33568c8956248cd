"""Pictures of the theory: a bound against epochs, excess risk against n or epsilon.

Each function returns a matplotlib Figure that belongs to nobody: save it or show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from dpbraid import _validate
from dpbraid._validate import InvalidParameterError
from dpbraid.mechanism import Mechanism, Placement
from dpbraid.theory.advise import Facts, best_candidate, possible_schedules
from dpbraid.theory.bounds import TERMS, bound_by_epoch
from dpbraid.theory.constants import Constants

LABELS = {
    "initialisation": "initialisation",
    "optimisation": "optimisation uncertainty",
    "nonvanishing": "non-vanishing dissimilarity",
    "vanishing": "vanishing dissimilarity",
    "noise": "noise",
}
AXES = {"n": "private rows n", "epsilon": "epsilon"}
# Okabe and Ito's colours, told apart with any colour vision
COLOURS = ("#0072B2", "#E69F00", "#D55E00", "#CC79A7", "#009E73", "#000000")
SCHEDULE_COLOURS = {
    "dp": "#0072B2",
    "interleaved": "#D55E00",
    "priv_pub": "#E69F00",
    "pub_priv": "#CC79A7",
    "alternating": "#8A5A2B",
    "public_only": "#009E73",
}


def bound_figure(constants: Constants, mechanism: Mechanism) -> Figure:
    """The iterated bound after each epoch and its terms, on logarithmic axes."""
    bounds = bound_by_epoch(constants, mechanism)
    epochs = np.arange(1, len(bounds) + 1)
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.add_subplot()
    totals = np.array([bound.total for bound in bounds])
    axes.loglog(epochs, totals, color="black", linewidth=2, label="bound (their sum)")
    finite = totals[np.isfinite(totals) & (totals > 0)]
    # terms far below the bound are of no interest
    floor = finite.min() * 1e-3 if len(finite) else 0.0
    for term, colour in zip(TERMS, COLOURS, strict=False):
        values = np.array([getattr(bound, term) for bound in bounds])
        if np.any((values > 0) & np.isfinite(values)):
            label = LABELS[term] + (" (below)" if values.max() < floor else "")
            axes.loglog(epochs, values, color=colour, label=label)
    if len(finite):
        axes.set_ylim(floor, finite.max() * 2)
    state = "proved" if bounds[-1].is_theorem else "NOT proved: conditions fail"
    axes.set_title(
        f"Bound on the excess risk ({state})\nfrom {constants.source}", fontsize=10
    )
    axes.set_xlabel("epochs run")
    axes.set_ylabel("E G(x) - G(x*), at most")
    axes.set_xlim(1, max(len(bounds), 2))
    _round_ticks(axes.xaxis)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    _plain(axes)
    return figure


@dataclass(frozen=True)
class Curve:
    """Least proved excess risk of one schedule and placement against n or epsilon."""

    schedule: str
    placement: Placement
    values: tuple[float, ...]
    risks: tuple[float, ...]


def excess_risk_curves(
    known: Facts,
    against: str,
    values: Sequence[float],
    *,
    placements: Sequence[Placement | str] = tuple(Placement),
    max_epochs: int = 256,
) -> tuple[Curve, ...]:
    """The bound at its best K and learning rate as n ("n") or epsilon varies.

    Public rows, where there are any, grow with n; where nothing is known about their
    gap, schedules that need them are left out. Public facts only.
    """
    if against not in AXES:
        raise InvalidParameterError(
            f"against must be one of 'n', 'epsilon', got {against!r}"
        )
    where = [_validate.choice(Placement, placements=p) for p in placements]
    curves = []
    relied_on: tuple[str, ...] = ("dp",)
    if known.public_gap is not None:
        relied_on = possible_schedules(known, max_epochs)
    for schedule in relied_on:
        for placement in where if schedule != "public_only" else where[:1]:
            risks = []
            for value in values:
                at = _vary(known, against, value)
                best = best_candidate(at, schedule, placement, max_epochs)
                risks.append(best.bound.total)
            curves.append(
                Curve(schedule, placement, tuple(map(float, values)), tuple(risks))
            )
    return tuple(curves)


def _vary(known: Facts, against: str, value: float) -> Facts:
    if against == "epsilon":
        return replace(known, setting=replace(known.setting, epsilon=float(value)))
    n = int(value)
    share = known.public_rows / known.setting.n
    return replace(
        known,
        setting=replace(known.setting, n=n),
        public_rows=int(np.ceil(share * n)),
    )


def excess_risk_figure(
    curves: Sequence[Curve], against: str, *, trivial: float | None = None
) -> Figure:
    """Curves of `excess_risk_curves`: solid at the epoch end, dashed at every step.

    trivial: what the start point itself guarantees, radius times Lipschitz constant;
    above this line the theory promises nothing.
    """
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for curve in curves:
        at_end = curve.placement is Placement.EPOCH_END
        label = curve.schedule.replace("_", "-")
        if curve.schedule != "public_only":
            label += ", epoch end" if at_end else ", every step"
        axes.loglog(
            curve.values,
            curve.risks,
            color=SCHEDULE_COLOURS[curve.schedule],
            linestyle="-" if at_end or curve.schedule == "public_only" else "--",
            marker="o" if at_end else "s",
            markersize=4,
            label=label,
        )
    if trivial is not None:
        axes.axhline(
            trivial, color="black", linewidth=1, linestyle=":", label="start point"
        )
    axes.set_xlabel(AXES[against])
    axes.set_ylabel("proved bound on the excess risk\nat the best K and learning rate")
    axes.set_xticks(
        curves[0].values, labels=[f"{value:g}" for value in curves[0].values]
    )
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    _round_ticks(axes.yaxis)
    _plain(axes)
    return figure


def _round_ticks(axis: Axis) -> None:
    """1, 2, 5, 10, .. as plain numbers."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
