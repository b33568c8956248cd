"""The objective G(x; D) = 1/n sum_i f(x; d_i) + psi(x) (paper, eq. main_problem)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpbraid.losses import Loss
from dpbraid.penalties import Penalty
from dpbraid.rows import Rows

Array = NDArray[np.float64]


def objective(loss: Loss, penalty: Penalty, x: Array, rows: Rows) -> float:
    """G(x; rows). A value computed from private rows is itself not private."""
    return float(np.mean(loss.value(x, rows.X, rows.y))) + penalty.value(x)
