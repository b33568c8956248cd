"""The objective G(x; D) = 1/n sum_i f(x; d_i) + psi(x) (paper, eq. main_problem)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbraid.engine import costs
from dpbraid.losses import Loss, MarginLoss, Mean
from dpbraid.penalties import Penalty
from dpbraid.rows import Rows

Array = NDArray[np.float64]


def objective(loss: Loss, penalty: Penalty, x: Array, rows: Rows) -> float:
    """G(x; rows). A value computed from private rows is itself not private."""
    return float(np.mean(loss.value(x, rows.X, rows.y))) + penalty.value(x)


def objectives(
    loss: Loss, penalty: Penalty, X: NDArray[np.floating], rows: Rows, table: Any
) -> Array:
    """G(x_c; rows) of every column x_c of X (d, columns): one matrix product.

    table: rows.X in the precision of X. A column with infinite or undefined entries
    has an infinite objective. Where a penalty is a constraint, a column in single
    precision is judged at the nearest point of the set.
    """
    wide = X.astype(np.float64)
    finite = np.all(np.isfinite(wide), axis=0)
    values = np.full(X.shape[1], np.inf)
    with np.errstate(all="ignore"):
        losses = _mean_losses(loss, X, wide, rows, table)
        for c in np.flatnonzero(finite & np.isfinite(losses)):
            x = wide[:, c]
            value = penalty.value(x)
            if np.isinf(value) and X.dtype == np.float32:
                value = penalty.value(penalty.prox(x, 1.0))
            values[c] = losses[c] + value
    return values


def _pieces(n: int, d: int, numbers: int) -> Iterator[slice]:
    """The rows in pieces of at most costs.EVALUATED numbers, and of about 10 ms."""
    piece = max(1, min(costs.EVALUATED, 10 * costs.PIECE // d) // numbers)
    for first in range(0, n, piece):
        yield slice(first, first + piece)


def _mean_losses(
    loss: Loss, X: NDArray[np.floating], wide: Array, rows: Rows, table: Any
) -> Array:
    n = len(rows)
    if isinstance(loss, MarginLoss):
        assert rows.y is not None
        total = np.zeros(X.shape[1])
        for part in _pieces(n, rows.dimension, X.shape[1]):
            margins = (table[part] @ X).astype(np.float64)
            total += loss.margin_value(margins, rows.y[part, None]).sum(axis=0)
        mean: Array = total / n
        return mean
    if isinstance(loss, Mean):
        # 1/n sum |x - q|^2 = |x - qbar|^2 + 1/n sum |q - qbar|^2
        center = rows.X.mean(axis=0)
        spread = 0.0
        for part in _pieces(n, rows.dimension, rows.dimension):
            spread += float(np.sum((rows.X[part] - center) ** 2)) / n
        distances: Array = np.sum((wide - center[:, None]) ** 2, axis=0)
        return 0.5 * (distances + spread)
    return np.array(
        [float(np.mean(loss.value(x, rows.X, rows.y))) for x in wide.T.copy()]
    )
