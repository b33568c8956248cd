"""Measured excess risk for the tests: exact where steps are affine, else replicates.

With the squared or mean loss and a ridge (or no) penalty every step is affine, so mean
and covariance of the iterate follow a recursion and E G(x) - G(x*) has no sampling
error at all. Other penalties run many replicates of Algorithm 1 side by side.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import dpbraid as db
from dpbraid.engine.objective import objective

Array = NDArray[np.float64]


def hessians(loss: db.Mean | db.Squared, X: Array) -> Array:
    """The Hessian of each row's loss, shape (n, d, d)."""
    n, d = X.shape
    if isinstance(loss, db.Mean):
        return np.broadcast_to(np.eye(d), (n, d, d))
    return 2 * X[:, :, None] * X[:, None, :]


def noisy_steps(mechanism: db.Mechanism, epoch: db.Epoch) -> Array:
    """Noise std of each step of an epoch."""
    steps = np.zeros(epoch.rows)
    if epoch.placement is db.Placement.EPOCH_END:
        if epoch.private_rows:
            steps[epoch.private_rows - 1] = epoch.noise_std
    else:
        steps[:] = epoch.noise_std
    return steps


def epoch_moments(
    mechanism: db.Mechanism,
    epoch: db.Epoch,
    private: db.Rows,
    public: db.Rows | None,
    mine: NDArray[np.int64],
    theirs: NDArray[np.int64],
    mean: Array,
    covariance: Array,
) -> tuple[Array, Array]:
    """Mean and covariance of the iterate after an epoch over the rows of that order.

    Exact where every step is affine, or without noise.
    """
    loss, penalty, d = mechanism.loss, mechanism.penalty, private.dimension
    assert isinstance(loss, db.Mean | db.Squared)
    rows = [(private, i) for i in mine] + [(public, j) for j in theirs]
    eta = epoch.learning_rate
    for (table, i), std in zip(rows, noisy_steps(mechanism, epoch), strict=True):
        assert table is not None
        y = None if table.y is None else table.y[i : i + 1]
        H = hessians(loss, table.X[i : i + 1])[0]
        J = np.eye(d) - eta * H
        mean = mean - eta * loss.gradients(mean, table.X[i : i + 1], y, None)[0]
        covariance = J @ covariance @ J.T + (eta * std) ** 2 * np.eye(d)
    step = mechanism.prox_step(epoch)
    if not isinstance(penalty, db.Ridge | db.NoPenalty):
        assert not covariance.any()
    shrink = penalty.contraction(step)
    return penalty.prox(mean, step), shrink**2 * covariance


def exact_excess(
    mechanism: db.Mechanism,
    private: db.Rows,
    public: db.Rows | None,
    minimiser: Array,
    order_rng: np.random.Generator,
) -> Array:
    """E G(x^(s+1)) - G(x*) over the noise, given the orders, for s = 1..K; no error."""
    d = private.dimension
    loss = mechanism.loss
    assert isinstance(loss, db.Mean | db.Squared)
    Q = hessians(loss, private.X).mean(axis=0)
    Q = Q + mechanism.penalty.strong_convexity * np.eye(d)
    mean, covariance = np.zeros(d), np.zeros((d, d))
    values = []
    walk = mechanism.walk(0 if public is None else len(public), order_rng)
    for epoch, mine, theirs in walk:
        mean, covariance = epoch_moments(
            mechanism, epoch, private, public, mine, theirs, mean, covariance
        )
        gap = mean - minimiser
        values.append(0.5 * (gap @ Q @ gap + np.trace(Q @ covariance)))
    return np.array(values)


def replicated_excess(
    mechanism: db.Mechanism,
    private: db.Rows,
    public: db.Rows | None,
    minimum: float,
    replicates: int,
    order_rng: np.random.Generator,
    noise_rng: np.random.Generator,
) -> tuple[float, float]:
    """Mean of G(x_1^(K+1)) - G(x*) over replicates, and its standard error."""
    d = private.dimension
    x = np.zeros((replicates, d))
    walk = mechanism.walk(0 if public is None else len(public), order_rng)
    for epoch, mine, theirs in walk:
        rows = [(private, i) for i in mine] + [(public, j) for j in theirs]
        eta = epoch.learning_rate
        for (table, i), std in zip(rows, noisy_steps(mechanism, epoch), strict=True):
            assert table is not None
            gradient = _gradient(mechanism.loss, table, int(i))
            noise = std * noise_rng.standard_normal((replicates, d)) if std else 0.0
            x = x - eta * (gradient(x) + noise)
        x = mechanism.penalty.prox(x.T, mechanism.prox_step(epoch)).T
    values = np.array(
        [objective(mechanism.loss, mechanism.penalty, row, private) for row in x]
    )
    excess = values - minimum
    return float(excess.mean()), float(excess.std(ddof=1) / np.sqrt(replicates))


def _gradient(
    loss: db.Mean | db.Squared, table: db.Rows, i: int
) -> Callable[[Array], Array]:
    row = table.X[i]
    if isinstance(loss, db.Mean):
        return lambda x: x - row
    assert table.y is not None
    label = table.y[i]
    return lambda x: loss.slope(x @ row, label)[:, None] * row
