"""Pictures of the theory: a bound against epochs, excess risk against n or epsilon.

Each function returns a matplotlib Figure that belongs to nobody: save it or show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
# Okabe and Ito's colours, told apart with any colour vision
COLOURS = ("#0072B2", "#E69F00", "#D55E00", "#CC79A7", "#009E73", "#000000")
SCHEDULE_COLOURS = {
    "dp": "#0072B2",
    "interleaved": "#D55E00",
    "priv_pub": "#009E73",
    "pub_priv": "#CC79A7",
    "alternating": "#E69F00",
    "public_only": "#7F7F7F",
}


def bound_figure(constants: Constants, mechanism: Mechanism) -> Figure:
    """The iterated bound after each epoch, its terms stacked, with the total above."""
    bounds = bound_by_epoch(constants, mechanism)
    epochs = np.arange(1, len(bounds) + 1)
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    below = np.zeros(len(bounds))
    for term, colour in zip(TERMS, COLOURS, strict=False):
        values = np.array([getattr(bound, term) for bound in bounds])
        if not np.any(values > 0) or not np.all(np.isfinite(values)):
            continue
        axes.fill_between(
            epochs, below, below + values, color=colour, alpha=0.8, label=LABELS[term]
        )
        below = below + values
    axes.plot(epochs, below, color="black", linewidth=1.2, label="bound")
    state = "proved" if bounds[-1].is_theorem else "NOT proved: conditions fail"
    axes.set_title(f"Excess risk bound ({state})\nfrom {constants.source}", fontsize=10)
    axes.set_xlabel("epochs run")
    axes.set_ylabel("E G(x) - G(x*)")
    axes.set_xlim(1, max(len(bounds), 2))
    axes.set_ylim(bottom=0)
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

    Public rows, where there are any, grow with n. Public facts only.
    """
    if against not in ("n", "epsilon"):
        raise InvalidParameterError(
            f"against must be one of 'n', 'epsilon', got {against!r}"
        )
    where = [_validate.choice(Placement, placements=p) for p in placements]
    curves = []
    for schedule in possible_schedules(known):
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


def excess_risk_figure(curves: Sequence[Curve], against: str) -> Figure:
    """Curves of `excess_risk_curves`: solid at the epoch end, dashed at every step."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
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
            linestyle="-" if at_end else "--",
            marker=".",
            label=label,
        )
    axes.set_xlabel(against)
    axes.set_ylabel("proved excess risk at the best K")
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    _plain(axes)
    return figure


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
