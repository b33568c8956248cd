"""Without noise to speak of, each estimator finds scikit-learn's solution.

The same objective with the same alpha or C: the defaults are used as they are, and the
gap to the non-private solution falls as epsilon grows. Each gap is printed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import optimize
from sklearn import linear_model
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from dpbraid.estimators import (
    PrivateElasticNet,
    PrivateHuber,
    PrivateLasso,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMean,
    PrivateRidge,
)

N, D = 400, 5
rng = np.random.default_rng(7)
X = rng.normal(size=(N, D))
TRUTH = np.array([1.0, -0.7, 0.5, 0.0, 0.0])
SCORES = X @ TRUTH + 0.4
y_real = SCORES + 0.3 * rng.normal(size=N)
y_class = np.where(SCORES + rng.logistic(size=N) > 0, "yes", "no")
R = float(np.linalg.norm(X, axis=1).max())
Y = float(np.abs(y_real).max())
SIGNS = np.where(y_class == "yes", 1.0, -1.0)


def _smooth_hinge(width: float, C: float) -> np.ndarray:
    def goal(w: np.ndarray) -> tuple[float, np.ndarray]:
        short = np.maximum(1 - SIGNS * (X @ w[:D] + w[D]), 0.0)
        inner = np.minimum(short, width)
        slopes = -SIGNS * inner / width
        value = C * np.sum(inner * (short - 0.5 * inner) / width) + 0.5 * w[:D] @ w[:D]
        gradient = C * np.append(X.T @ slopes, slopes.sum())
        gradient[:D] += w[:D]
        return float(value), gradient

    found = optimize.minimize(
        goal,
        np.zeros(D + 1),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10},
    )
    return np.asarray(found.x)


def _huber(transition: float, alpha: float) -> np.ndarray:
    def goal(w: np.ndarray) -> tuple[float, np.ndarray]:
        r = X @ w[:D] + w[D] - y_real
        inside = np.abs(r) <= transition
        h = np.where(inside, r**2, 2 * transition * np.abs(r) - transition**2)
        slope = 2 * np.clip(r, -transition, transition)
        gradient = np.append(X.T @ slope, slope.sum())
        gradient[:D] += 2 * alpha * w[:D]
        return float(h.sum() + alpha * w[:D] @ w[:D]), gradient

    found = optimize.minimize(goal, np.zeros(D + 1), jac=True, tol=1e-12)
    return np.asarray(found.x)


def _sklearn(model: Any, y: Any) -> np.ndarray:
    fitted = model.fit(X, y)
    return np.append(np.ravel(fitted.coef_), fitted.intercept_)


def _logistic(penalty: str, C: float, ratio: float) -> np.ndarray:
    """scikit-learn's, asked in the way that every supported version understands."""
    tight: dict[str, Any] = {"tol": 1e-10, "max_iter": 100_000, "C": C}
    if penalty == "l2":
        model = linear_model.LogisticRegression(**tight)
    else:
        # l1_ratio = 1 is l1; before 1.8 the word elasticnet is needed beside it
        words = {"solver": "saga", "l1_ratio": 1.0 if penalty == "l1" else ratio}
        model = linear_model.LogisticRegression(**tight, **words, random_state=0)
        if getattr(model, "penalty", None) == "l2":
            model.set_params(penalty="elasticnet")
    return _sklearn(model, y_class)


REAL = {"row_norm": R, "label_bound": Y}
CLASS = {"row_norm": R, "classes": ["no", "yes"]}
CASES: dict[str, tuple[Callable[..., Any], Any, Callable[[], np.ndarray], float]] = {
    "mean": (
        lambda **k: PrivateMean(row_norm=R, **k),
        None,
        lambda: X.mean(axis=0),
        1e-5,
    ),
    "ridge": (
        lambda **k: PrivateRidge(alpha=30.0, **REAL, **k),
        y_real,
        lambda: _sklearn(linear_model.Ridge(alpha=30.0), y_real),
        3e-4,
    ),
    "lasso": (
        lambda **k: PrivateLasso(alpha=0.1, **REAL, **k),
        y_real,
        lambda: _sklearn(linear_model.Lasso(alpha=0.1, tol=1e-12), y_real),
        3e-4,
    ),
    "elastic net": (
        lambda **k: PrivateElasticNet(alpha=0.2, l1_ratio=0.3, **REAL, **k),
        y_real,
        lambda: _sklearn(
            linear_model.ElasticNet(alpha=0.2, l1_ratio=0.3, tol=1e-12), y_real
        ),
        3e-4,
    ),
    "huber": (
        lambda **k: PrivateHuber(transition=0.4, alpha=5.0, **REAL, **k),
        y_real,
        lambda: _huber(0.4, 5.0),
        3e-4,
    ),
    "logistic l2": (
        lambda **k: PrivateLogisticRegression(C=0.05, **CLASS, **k),
        y_class,
        lambda: _logistic("l2", 0.05, 0.0),
        3e-4,
    ),
    "logistic l1": (
        lambda **k: PrivateLogisticRegression(penalty="l1", C=0.1, **CLASS, **k),
        y_class,
        lambda: _logistic("l1", 0.1, 1.0),
        3e-4,
    ),
    "logistic elastic net": (
        lambda **k: PrivateLogisticRegression(
            penalty="elasticnet", l1_ratio=0.5, C=0.1, **CLASS, **k
        ),
        y_class,
        lambda: _logistic("elasticnet", 0.1, 0.5),
        3e-4,
    ),
    "svc": (
        lambda **k: PrivateLinearSVC(C=0.05, width=0.5, **CLASS, **k),
        y_class,
        lambda: _smooth_hinge(0.5, 0.05),
        3e-4,
    ),
}


def parameters(model: Any) -> np.ndarray:
    if isinstance(model, PrivateMean):
        return model.mean_
    return np.append(np.ravel(model.coef_), model.intercept_)


@pytest.mark.parametrize("case", CASES)
def test_converges_to_the_non_private_solution(case: str) -> None:
    """A fixed seed: the noise at the largest epsilon is far below the tolerance."""
    make, y, solution, tolerance = CASES[case]
    exact = solution()
    gaps = []
    for epsilon in (1.0, 1e4, 1e9):
        model = make(epsilon=epsilon, random_state=0).fit(X, y)
        gaps.append(float(np.linalg.norm(parameters(model) - exact)))
        print(f"{case}: epsilon {epsilon:g}, |x - x*| = {gaps[-1]:.2e}")
    assert gaps[-1] <= tolerance * (1 + np.linalg.norm(exact))
    # what is left is noise, which falls as mu does, about 300 times from 1e4 to 1e9
    assert gaps[2] < gaps[1] / 30


def test_converges_where_columns_are_nearly_dependent() -> None:
    """Two columns of the diabetes data have correlation 0.9."""
    found = load_diabetes()
    table = StandardScaler().fit_transform(found.data)
    target = (found.target - found.target.mean()) / 100
    exact = linear_model.Ridge(alpha=1.0).fit(table, target).coef_
    model = PrivateRidge(
        epsilon=1e10,  # at 1e8 a third of the gap is still noise
        row_norm=float(np.linalg.norm(table, axis=1).max()),
        label_bound=float(np.abs(target).max()),
        random_state=0,
    )
    gap = float(np.linalg.norm(model.fit(table, target).coef_ - exact))
    print(f"diabetes: |x - x*| = {gap:.2e}, |x*| = {np.linalg.norm(exact):.2e}")
    assert gap <= 1e-2 * np.linalg.norm(exact)
