"""Algorithm 1 of the paper as printed: one step a line, NumPy, float64.

This engine is the truth that the fast one is tested against. It is slow, and its noise
comes from whatever generator it is handed, so what it returns is not for release.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpbraid.engine import inputs
from dpbraid.mechanism import Epoch, Mechanism, Placement
from dpbraid.rows import Rows

Array = NDArray[np.float64]


def run(
    mechanism: Mechanism,
    private: Rows,
    public: Rows | None = None,
    *,
    order_rng: np.random.Generator,
    noise_rng: np.random.Generator,
    start: Array | None = None,
) -> Array:
    """The last iterate x_1^(K+1), shape (d,), and nothing else.

    order_rng draws the permutations; noise_rng the start point, where it is random,
    and then the noise, d normals a noisy step in the order of the steps.
    """
    *_, last = iterates_not_private(
        mechanism,
        private,
        public,
        order_rng=order_rng,
        noise_rng=noise_rng,
        start=start,
    )
    return last


def iterates_not_private(
    mechanism: Mechanism,
    private: Rows,
    public: Rows | None = None,
    *,
    order_rng: np.random.Generator,
    noise_rng: np.random.Generator,
    start: Array | None = None,
) -> Iterator[Array]:
    """x_1^(1), .., x_1^(K+1), for research only: all but the last are NOT PRIVATE."""
    inputs.check(mechanism, private, public)
    inputs.check_generators(order_rng=order_rng, noise_rng=noise_rng)
    x = mechanism.start.point(private.dimension, noise_rng, start)
    yield x
    walk = mechanism.walk(0 if public is None else len(public), order_rng)
    for epoch, private_rows, public_rows in walk:  # lines 2-5
        steps = mechanism.private_steps(epoch)
        for i, batch in enumerate(_batches(private_rows, mechanism.batch_size)):
            gradient = _mean_gradient(mechanism, x, private, batch)
            rho = _noise(epoch, i == steps - 1, noise_rng, x)
            x = x - epoch.learning_rate * (gradient + rho)  # line 7
        for batch in _batches(public_rows, mechanism.batch_size):
            assert public is not None
            gradient = _mean_gradient(mechanism, x, public, batch)
            rho = _noise(epoch, False, noise_rng, x)
            x = x - epoch.learning_rate * (gradient + rho)  # line 10
        x = mechanism.penalty.prox(x, mechanism.prox_step(epoch))  # line 12
        yield x


def _batches(rows: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    for first in range(0, len(rows), size):
        yield rows[first : first + size]


def _mean_gradient(
    mechanism: Mechanism, x: Array, table: Rows, batch: NDArray[np.int64]
) -> Array:
    """Sum of the clipped gradients over the fixed divisor b, also for a short batch."""
    y = None if table.y is None else table.y[batch]
    gradients = mechanism.loss.gradients(x, table.X[batch], y, mechanism.clip_norm)
    mean: Array = gradients.sum(axis=0) / mechanism.batch_size
    return mean


def _noise(
    epoch: Epoch, last_private_step: bool, rng: np.random.Generator, x: Array
) -> Array:
    """rho ~ N(0, sigma^2 I) on the noisy steps of the epoch, 0 on the others."""
    if epoch.placement is Placement.EPOCH_END and not last_private_step:
        return np.zeros_like(x)
    if epoch.noise_std == 0:
        return np.zeros_like(x)
    return epoch.noise_std * rng.standard_normal(len(x))
