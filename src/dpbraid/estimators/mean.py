"""PrivateMean: the mean of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpbraid._validate import InvalidParameterError
from dpbraid.estimators.base import (
    Charge,
    PrivateEstimator,
    Progress,
)
from dpbraid.losses import Loss, Mean
from dpbraid.penalties import Ball, Penalty
from dpbraid.rows import Rows

Array = NDArray[np.float64]


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateMean(PrivateEstimator):
    """Mean of the rows, each scaled down to `row_norm` first.

    Minimises 1/(2n) sum_i |x - x_i|^2 on the ball of radius row_norm. With public rows
    the run starts at their mean and clips at their distances from it. The parameters
    are those of `PrivateLogisticRegression`; the result is `mean_`.
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        X_public: Any = None,
        y_public: Any = None,
        charge: Charge | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit on private rows (n, d); labels are ignored. Else as in the regressors."""
        self._check_parameters()
        prepared = self._prepare(X, X_public)
        prepared = prepared.only(prepared.whole)
        private = Rows.bounded(prepared.X, row_norm=prepared.row_norm)
        public = None
        if prepared.X_public is not None:
            public = [Rows.bounded(prepared.X_public, row_norm=prepared.row_norm)]
        self._accept(self._run([private], public, prepared, (), charge, progress), None)
        return self

    def _accept(self, x: Array, classes: NDArray[Any] | None) -> None:
        if classes is not None or len(x) != 1:
            raise InvalidParameterError("a mean has one row of coefficients")
        self.mean_: Array = x[0].copy()

    def _released(self) -> Array:
        return self.mean_[None, :]

    def _loss(self) -> Loss:
        return Mean()

    def _penalty(self, n: int, row_norm: float) -> Penalty:
        return Ball(row_norm)
