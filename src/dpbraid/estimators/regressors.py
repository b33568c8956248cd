"""PrivateRidge, PrivateLasso, PrivateElasticNet and PrivateHuber."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from dpbraid import _validate
from dpbraid._validate import InvalidParameterError
from dpbraid.estimators import tables
from dpbraid.estimators.base import (
    Charge,
    LinearPredictor,
    PrivateEstimator,
    Progress,
    mixture,
)
from dpbraid.estimators.tables import NonFinite
from dpbraid.losses import Huber, Loss, Squared
from dpbraid.penalties import Penalty, Ridge
from dpbraid.rows import Rows

Array = NDArray[np.float64]


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateRegressor(RegressorMixin, LinearPredictor, PrivateEstimator):  # type: ignore[misc]
    """Linear regression; `label_bound` is a public bound on |y|."""

    label_bound: float | None = None
    fit_intercept: bool = True

    def fit(
        self,
        X: Any,
        y: Any,
        X_public: Any = None,
        y_public: Any = None,
        charge: Charge | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit on private rows; see the class for what is guaranteed.

        X: (n, d); y: (n,). X_public, y_public: public rows, not protected; y_public is
        needed by schedules that use public rows. charge: called with the certificate
        after everything has been checked and before any noise is drawn; if it raises,
        nothing is released. progress: called with (steps done, all steps). Private
        labels beyond label_bound are cut to it.
        """
        self._check_parameters()
        prepared = self._prepare(X, X_public)
        n = len(prepared.X)
        targets, with_label = tables.private_targets(y, n, NonFinite(self.non_finite))
        known = None
        if prepared.X_public is not None and y_public is not None:
            known = tables.public_targets(y_public, len(prepared.X_public))
        bound, words = self._label_bound(known)
        whole = prepared.whole & with_label
        prepared = prepared.only(whole)
        labels = np.where(whole, np.clip(targets, -bound, bound), 0.0)
        private = self._rows(prepared.X, whole, labels, prepared.row_norm, bound)
        public: list[Rows] | None = None
        if prepared.X_public is not None and known is not None:
            public = [
                self._rows(
                    prepared.X_public,
                    np.ones(len(known)),
                    np.clip(known, -bound, bound),
                    prepared.row_norm,
                    bound,
                )
            ]
        x = self._run([private], public, prepared, (words,), charge, progress)
        self._accept(x, None)
        return self

    def _check_parameters(self) -> None:
        if self.label_bound is not None:
            _validate.positive(label_bound=self.label_bound)
        super()._check_parameters()

    def _label_bound(self, public: Array | None) -> tuple[float, str]:
        if self.label_bound is not None:
            return float(self.label_bound), "The label bound was given by the user."
        if public is None:
            raise InvalidParameterError(
                "the range of y is unknown: give label_bound, a bound on |y| that is "
                "known without the private rows (labels beyond it are cut to it), or "
                "public rows with labels"
            )
        largest = float(np.abs(public).max())
        if largest == 0:
            raise InvalidParameterError("y_public holds zeros alone: give label_bound")
        return largest, "The label bound is the largest of the public rows."

    def _accept(self, x: Array, classes: NDArray[Any] | None) -> None:
        """Take over released parameters, one row."""
        if classes is not None or len(x) != 1:
            raise InvalidParameterError("a regressor has one row of coefficients")
        d = x.shape[1] - int(self.fit_intercept)
        self.coef_: Array = x[0, :d].copy()
        self.intercept_: float = float(x[0, d]) if self.fit_intercept else 0.0

    def _released(self) -> Array:
        """The parameters that `_accept` took over."""
        intercept = [self.intercept_] if self.fit_intercept else []
        return np.concatenate([self.coef_, intercept])[None, :]

    def predict(self, X: Any) -> Array:
        """<x, coef> + intercept, shape (n,)."""
        return self._margins(X)

    def _loss(self) -> Loss:
        return Squared()


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateRidge(PrivateRegressor):
    """Minimises sum_i (y_i - m_i)^2 + alpha |coef|^2, as scikit-learn's Ridge."""

    alpha: float = 1.0

    def _penalty(self, n: int, row_norm: float) -> Penalty:
        _validate.positive(alpha=self.alpha)
        return Ridge(2 * self.alpha / n)


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateElasticNet(PrivateRegressor):
    """Minimises 1/(2n) sum_i (y_i - m_i)^2 + alpha r(coef), as scikit-learn's.

    r = l1_ratio |coef|_1 + (1 - l1_ratio)/2 |coef|^2.
    """

    alpha: float = 1.0
    l1_ratio: float = 0.5

    def _penalty(self, n: int, row_norm: float) -> Penalty:
        _validate.positive(alpha=self.alpha)
        return mixture("elasticnet", 2 * self.alpha, self.l1_ratio)


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateLasso(PrivateRegressor):
    """Minimises 1/(2n) sum_i (y_i - m_i)^2 + alpha |coef|_1, as scikit-learn's."""

    alpha: float = 1.0

    def _penalty(self, n: int, row_norm: float) -> Penalty:
        _validate.positive(alpha=self.alpha)
        return mixture("l1", 2 * self.alpha, 1.0)


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateHuber(PrivateRegressor):
    """Minimises sum_i h(y_i - m_i) + alpha |coef|^2.

    h(r) = r^2 for |r| <= transition and 2 transition |r| - transition^2 beyond: that
    of scikit-learn's HuberRegressor with its scale held at 1. Its gradient is bounded,
    so large residuals need no clipping.
    """

    transition: float = 1.35
    alpha: float = 0.0001

    def _loss(self) -> Loss:
        return Huber(self.transition)

    def _penalty(self, n: int, row_norm: float) -> Penalty:
        _validate.positive(alpha=self.alpha)
        return Ridge(self.alpha / n)
