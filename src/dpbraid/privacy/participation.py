"""Secret participation over epochs with fresh permutations (PRIVACY.md 5, D3 and D5).

A row takes part in an epoch with probability p = n_d/n, independently over epochs.

**D5.** The hull cost C_m of m epochs at unit spacing has the law of the sum over the
cycles of a uniform permutation of m of N^2/l, N ~ Bin(l, p), l the cycle's length:
``f_m = (1/m) sum_l h_l * f_{m-l}`` with h_l the law of Bin(l, p)^2/l.

**D3.** Noise on every step, T steps an epoch, K >= 2 equal private epochs: the path is
forced through the corner before the use in epoch K - 1, uses before it are put at the
last private step, and

    mu^2 <= (s^2/sig^2) (C_{K-2}/T + g),  D1 = T - n_d + j,  D2 = T - j + 1,

with j uniform over the slots, g = 1/D1 + 1/D2 if D1 >= D2 else 4/(D1 + D2) where the
row is in both last epochs, 1/D2 where only in the last, 1/(2T - n_d + 1) where only in
the one before, else 0.

**D3'.** One noise w after the last private step: mu^2 = (s/w)^2 C_K.

Costs are rounded up to a grid; each rounding is towards more loss.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpbraid.privacy.positions import bins
from dpbraid.privacy.profile import MixtureCurve

Array = NDArray[np.float64]

# Above this number of epochs D3 is not offered: its law would take too long.
MOST_EPOCHS = 2000
# Epochs whose law is computed as one; more are split into blocks with the corners
# between them forced, which adds their costs.
_BLOCK = 128
_LARGEST_PRODUCT = 4_000_000
_LARGEST_MIXTURE = 40_000
# Sums of at most 1e9 positive terms, each rounded.
_ROUNDING = 1 + 1e-12


def every_step(
    epochs: int,
    rows: int,
    n: int,
    batch_size: int,
    private_steps: int,
    steps: int,
    ratio: float,
) -> MixtureCurve:
    """D3 for `epochs` >= 2 equal private epochs; ratio = s/sig of one step."""
    costs, weights = _every_step(epochs, rows, n, batch_size, private_steps, steps)
    return MixtureCurve(np.sqrt(costs) * (ratio * (1 + 1e-13)), weights)


def epoch_end(epochs: int, rows: int, n: int, ratio: float) -> MixtureCurve:
    """D3' for `epochs` equal private epochs; ratio = s/w."""
    costs, weights = hull_cost_law(epochs, rows / n)
    return MixtureCurve(np.sqrt(costs) * (ratio * (1 + 1e-13)), weights * _ROUNDING)


def hull_cost_law(epochs: int, participation: float) -> tuple[Array, Array]:
    """Law of C_m: its positive values, rounded up to a grid, and their probabilities.

    Exact, up to rounding of floats, for m <= 8, where all values are on the grid.
    """
    cells = _cells(epochs)
    if epochs <= _BLOCK:
        law = _block_law(epochs, participation, cells)
    else:
        blocks = -(-epochs // _BLOCK)
        law = np.ones(1)
        for i in range(blocks):
            size = epochs * (i + 1) // blocks - epochs * i // blocks
            law = np.convolve(law, _block_law(size, participation, cells))
    values = np.flatnonzero(law)
    values = values[values > 0]
    return values / cells, law[values]


def _cells(epochs: int) -> int:
    """Grid cells per unit of cost."""
    if epochs <= 8:
        return math.lcm(*range(1, 9))
    if epochs <= 64:
        return 256
    return 64 if epochs <= _BLOCK else 32


@lru_cache(maxsize=16)
def _block_law(epochs: int, participation: float, cells: int) -> Array:
    p = participation
    laws = [np.ones(1)]
    cycles = [
        [
            (
                -(-count * count * cells // length),
                math.comb(length, count) * p**count * (1 - p) ** (length - count),
            )
            for count in range(length + 1)
        ]
        for length in range(1, epochs + 1)
    ]
    for m in range(1, epochs + 1):
        law = np.zeros(m * cells + 1)
        for length in range(1, m + 1):
            rest = laws[m - length]
            for cost, probability in cycles[length - 1]:
                if probability > 0:
                    law[cost : cost + len(rest)] += probability * rest
        laws.append(law / m)
    result: Array = laws[epochs]
    result.setflags(write=False)
    return result


@lru_cache(maxsize=16)
def _every_step(
    epochs: int, rows: int, n: int, batch_size: int, private_steps: int, steps: int
) -> tuple[Array, Array]:
    """Values of C_{K-2}/T + g and their probabilities, binned upwards."""
    p = rows / n
    both: list[tuple[float, float]] = []
    last: list[tuple[float, float]] = []
    for step, slots in bins(1, rows, batch_size, steps):
        d1, d2 = steps - private_steps + step, steps - step + 1
        share = slots / rows
        both.append((1 / d1 + 1 / d2 if d1 >= d2 else 4 / (d1 + d2), p * p * share))
        last.append((1 / d2, p * (1 - p) * share))
    before = (1 / (2 * steps - private_steps + 1), p * (1 - p))
    tail = np.array([*both, *last, before, (0.0, (1 - p) ** 2)])
    tail = tail[tail[:, 1] > 0]
    values, weights = hull_cost_law(epochs - 2, p)
    zero = max(1 - float(np.sum(weights)), (1 - p) ** (epochs - 2)) * (1 + 1e-12)
    values = np.concatenate(([0.0], values)) / steps
    weights = np.concatenate(([zero], weights))
    most = max(_LARGEST_PRODUCT // len(values), 256)
    g, g_weights = _merged(tail[:, 0], tail[:, 1], float(p * p * epochs / steps), most)
    costs = (values[:, None] + g[None, :]).ravel()
    probabilities = (weights[:, None] * g_weights[None, :]).ravel()
    return _merged(costs, probabilities * _ROUNDING, 0.0, _LARGEST_MIXTURE)


def _merged(
    values: Array, weights: Array, offset: float, most: int
) -> tuple[Array, Array]:
    """The law with at most about `most` atoms, values rounded up.

    Bins are equal in log(offset + value). A value of 0 keeps its own atom, or is left
    out where offset is 0: mu = 0 costs nothing.
    """
    positive = values > 0
    zero = float(np.sum(weights[~positive]))
    values, weights = values[positive], weights[positive]
    if len(values) > most:
        logs = np.log(values + offset)
        low = float(np.min(logs))
        width = (float(np.max(logs)) - low) / most
        index = np.ceil((logs - low) / width).astype(np.int64)
        sums: Array = np.bincount(index, weights).astype(np.float64)
        kept = np.flatnonzero(sums)
        # the upper end of a bin stands for all of it
        values = np.exp(low + kept * width) * (1 + 1e-12) - offset
        weights = sums[kept]
    if zero > 0 and offset > 0:
        values = np.concatenate(([0.0], values))
        weights = np.concatenate(([zero], weights))
    return values, weights
