"""Non-private runs on the Crime data against the closed-form ridge optimum."""

from __future__ import annotations

import numpy as np
import pytest

import dpbraid as db
from dpbraid.engine import literal
from dpbraid.engine.objective import objective
from dpbraid.paper import tasks
from dpbraid.paper.options import CrimeColumns, CrimeOptions


def test_the_gap_shrinks_at_the_rate_of_the_nonprivate_corollary(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Paper, Corollary "Convergence of Non-private Shuffled Gradient Methods":

    G - G* <= D^2/(eta n K) + 10 eta^2 n^2 sigma_any^2 (1 + log K) L for
    eta <= 1/(2n sqrt(10 L L*)), which falls as K^(-2/3) with the best eta.
    """
    task = tasks.load("crime", CrimeOptions(columns=CrimeColumns.PREDICTIVE))
    assert isinstance(task.penalty, db.Ridge)
    X, y, n = task.private.X, task.private.y, task.n
    assert y is not None
    # G = 1/n |Xx - y|^2 + weight/2 |x|^2
    hessian = 2 * X.T @ X / n + task.penalty.weight * np.eye(task.dimension)
    best = np.linalg.solve(hessian, 2 * X.T @ y / n)

    def gap(x: np.ndarray) -> float:
        at = objective(task.loss, task.penalty, x, task.private)
        return at - objective(task.loss, task.penalty, best, task.private)

    smoothness = 2 * np.sum(X**2, axis=1)
    L, L_max = float(smoothness.mean()), float(smoothness.max())
    distance2 = float(best @ best)
    slopes = 2 * (X @ best - y)
    sigma_any2 = float(np.mean(slopes**2 * np.sum(X**2, axis=1)))

    gaps = {}
    for K in (10, 100, 1000):
        log = 1 + np.log(K)
        eta = min(
            1 / (2 * n * np.sqrt(10 * L * L_max * log)),
            (distance2 / (10 * n**3 * L * sigma_any2 * K * log)) ** (1 / 3),
        )
        x = literal.run(
            db.nonprivate(
                n, K, loss=task.loss, penalty=task.penalty, learning_rate=eta
            ),
            task.private,
            order_rng=np.random.default_rng(0),
            noise_rng=np.random.default_rng(0),
        )
        gaps[K] = gap(x)
        bound = distance2 / (eta * n * K) + 10 * eta**2 * n**2 * sigma_any2 * log * L
        assert 0 < gaps[K] <= bound
        with capsys.disabled():
            print(f"\n  K = {K:4}: gap {gaps[K]:.5f}, bound {bound:.4f}", end="")
    overall, late = (np.log(gaps[K] / gaps[1000]) / np.log(1000 / K) for K in (10, 100))
    with capsys.disabled():
        print(f"\n  gap ~ K^-{overall:.2f} from K = 10, K^-{late:.2f} from K = 100")
    assert overall >= 2 / 3
    assert late >= 2 / 3
    assert gaps[1000] < 0.02 * gap(np.zeros(task.dimension))
