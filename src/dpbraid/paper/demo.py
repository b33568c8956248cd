"""The first run: ridge regression on the Crime data with and without noise.

Research on data that are public by now: it shows objective values on private rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpbraid.engine.objective import objective
from dpbraid.engine.trace import trace_not_private
from dpbraid.mechanism import Mechanism, dp, interleaved, nonprivate
from dpbraid.paper import tasks
from dpbraid.paper.options import CrimeColumns, CrimeOptions

Array = NDArray[np.float64]

EPOCHS = 50
CLIP_NORM = 1.0
NOISE_STD = 0.3


@dataclass(frozen=True, eq=False)
class Curve:
    """Excess objective G(x; D) - G* after each epoch, shape (K + 1,)."""

    name: str
    remark: str
    excess: Array


def run(seed: int = 0) -> list[Curve]:
    """Three runs: without noise, private rows only, private and public rows."""
    task = tasks.load("crime", CrimeOptions(columns=CrimeColumns.PREDICTIVE))
    n, d = task.n, task.dimension
    X, y = task.private.X, task.private.y
    assert y is not None
    ridge = task.penalty.strong_convexity
    hessian = 2 * X.T @ X / n + ridge * np.eye(d)
    optimum = np.linalg.solve(hessian, 2 * X.T @ y / n).astype(np.float64)
    best = objective(task.loss, task.penalty, optimum, task.private)

    def curve(name: str, remark: str, mechanism: Mechanism) -> Curve:
        trace = trace_not_private(
            mechanism,
            task.private,
            task.public,
            order_rng=np.random.default_rng([seed, 1]),
            noise_rng=np.random.default_rng([seed, 2]),
        )
        return Curve(name, remark, trace.objectives - best)

    rate = 0.002
    return [
        curve(
            "without noise",
            "not private",
            nonprivate(
                n, EPOCHS, learning_rate=rate, loss=task.loss, penalty=task.penalty
            ),
        ),
        curve(
            "noisy, private rows",
            f"noise {NOISE_STD:g} at every step, clip {CLIP_NORM:g}",
            dp(
                n,
                EPOCHS,
                learning_rate=rate,
                noise_std=NOISE_STD,
                clip_norm=CLIP_NORM,
                loss=task.loss,
                penalty=task.penalty,
            ),
        ),
        curve(
            "noisy, interleaved",
            "half of the rows public",
            interleaved(
                n,
                EPOCHS,
                private_fraction=0.5,
                learning_rate=rate,
                noise_std=NOISE_STD,
                clip_norm=CLIP_NORM,
                loss=task.loss,
                penalty=task.penalty,
            ),
        ),
    ]


def draw(curves: list[Curve], out: Path) -> None:
    """The curves in one picture (.png or .svg)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axes = figure.add_subplot()
    for curve, style in zip(curves, ("-", "--", "-."), strict=True):
        axes.semilogy(curve.excess, style, label=curve.name)
    axes.set_xlabel("epoch")
    axes.set_ylabel("excess objective  G(x; D) - G*")
    axes.set_title("Crime, ridge regression")
    axes.legend()
    figure.savefig(out, dpi=150)
