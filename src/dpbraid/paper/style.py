"""What pictures and reports share: names, colours, dashes and the frame of a panel."""

from __future__ import annotations

import numpy as np

from dpbraid.paper.panels import Algorithm
from dpbraid.paper.results import Result

# Okabe and Ito's colours, told apart with any colour vision; Interleaved red, DP blue
# and Public Only green, as the paper has them.
COLOURS = {
    Algorithm.INTERLEAVED: "#D55E00",
    Algorithm.PRIV_PUB: "#E69F00",
    Algorithm.PUB_PRIV: "#CC79A7",
    Algorithm.DP: "#0072B2",
    Algorithm.PUBLIC_ONLY: "#009E73",
    Algorithm.INTERLEAVED_EPOCHS: "#8A5A2B",
    Algorithm.DP_GD: "#000000",
    Algorithm.DP_WARM: "#56B4E9",
    Algorithm.DP_GD_WARM: "#7F7F7F",
}

# Lengths on and off in points, so that the curves are told apart without colours.
DASHES: dict[Algorithm, tuple[float, ...]] = {
    Algorithm.INTERLEAVED: (),
    Algorithm.PRIV_PUB: (6.0, 2.0),
    Algorithm.PUB_PRIV: (6.0, 2.0, 1.5, 2.0),
    Algorithm.DP: (3.0, 1.5),
    Algorithm.PUBLIC_ONLY: (1.5, 1.5),
    Algorithm.INTERLEAVED_EPOCHS: (9.0, 2.0, 1.5, 2.0, 1.5, 2.0),
    Algorithm.DP_GD: (10.0, 3.0),
    Algorithm.DP_WARM: (3.0, 1.5, 1.0, 1.5),
    Algorithm.DP_GD_WARM: (10.0, 3.0, 1.5, 3.0),
}


def panel_title(result: Result) -> str:
    """Task and epsilon."""
    return f"{result.task.title}, ε = {result.panel.epsilon:g}"


def limits(result: Result) -> tuple[float, float]:
    """The frame's lowest and highest G: all ends and starts with their bands.

    What a run does on its way may leave the frame: an oscillating curve would squeeze
    all others.
    """
    means = [c.best.mean for c in result.curves]
    ends = [c.best.final + s * c.best.final_std for c in result.curves for s in (-1, 1)]
    starts = [float(mean[0]) for mean in means]
    inside = [v for v in (*ends, *starts, result.optimum) if np.isfinite(v)]
    low, high = min(inside), max(inside)
    # one tenth of the way a curve goes beyond its start is still shown
    top = max((float(np.max(m[np.isfinite(m)])) for m in means), default=high)
    high = min(top, high + 0.1 * (high - low))
    room = 0.04 * (high - low) or 1e-6
    return max(low, result.optimum) - room, high + room
