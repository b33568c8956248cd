"""scikit-learn's own checks, on the oldest and the newest supported version."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from dpbraid.estimators import (
    PrivateElasticNet,
    PrivateHuber,
    PrivateLasso,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMean,
    PrivateRidge,
)

# Noise next to nothing, and a fixed seed: the checks are about the interface. The
# bounds are the public facts of their tables; 60 epochs are enough and fast.
COMMON: dict[str, Any] = {
    "epsilon": 1e8,
    "row_norm": 10.0,
    "epochs": 60,
    "random_state": 0,
}
LABELS: dict[str, Any] = {**COMMON, "label_bound": 10.0}
ESTIMATORS = [
    PrivateMean(**COMMON),
    PrivateRidge(**LABELS),
    PrivateLasso(alpha=0.01, **LABELS),
    PrivateElasticNet(alpha=0.01, **LABELS),
    PrivateHuber(**LABELS),
    PrivateLogisticRegression(**COMMON, classes="from_y"),
    PrivateLinearSVC(**COMMON, classes="from_y"),
]
EXPECTED_FAILURES: dict[str, str] = {}


@parametrize_with_checks(
    ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED_FAILURES
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)
