"""Columns and what the kernels are told of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dpbraid as db
from dpbraid.engine.once import run
from dpbraid.losses import Labels, Loss


class LogCosh(Loss):
    """A loss that is neither a margin loss nor the mean: sum log cosh(x - q)."""

    labels = Labels.NONE
    clipped_steps_nonexpansive = False

    def value(self, x: Any, X: Any, y: Any) -> Any:
        return np.log(np.cosh(x - X)).sum(axis=1)

    def gradients(self, x: Any, X: Any, y: Any, clip_norm: float | None) -> Any:
        return np.tanh(x - X)

    def smoothness(self, row_norm: float) -> float:
        return 1.0

    def lipschitz(self, row_norm: float) -> float | None:
        return None


LogCosh.kind = "log_cosh"  # set here, it stays out of the register of losses


def test_a_loss_without_compiled_steps_is_refused() -> None:
    """The kernels would run the mean instead."""
    mechanism = db.dp(3, 1, loss=LogCosh(), learning_rate=0.1)
    rows = db.Rows.bounded(np.eye(3))
    with pytest.raises(db.InvalidParameterError, match="compiled steps for these"):
        run(mechanism, rows, seed=0)
