"""Convex losses f(x; row), with the constants that privacy and convergence rest on.

A loss says, for one row (a, y) or q and an iterate x of shape (d,):

- its value and its gradient;
- its smoothness constant L from a public bound R on the row norm: the largest L with
  ``|grad f(x) - grad f(z)| <= L |x - z|`` for *every* row that obeys the bound;
- its natural Lipschitz constant, where it has one;
- whether a *clipped* gradient step stays nonexpansive for learning rates up to 2/L.
  Clipping destroys this in general (PRIVACY.md 7.2), so a loss has to claim it, with
  a proof.

Margin losses have f(x; a, y) = phi(<x, a>, y), so their gradient is the scalar
phi'(<x, a>, y), the *slope*, times the row. Clipping at C is clipping the slope at
C/|a|. The fast engine needs nothing but the slope function, which is therefore a plain
function of numbers or arrays that Numba can compile as it stands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbraid import _validate
from dpbraid._variant import Variant

Array = NDArray[np.float64]


class Labels(StrEnum):
    """What a loss expects in y."""

    NONE = "none"
    BINARY = "binary"  # -1 or +1
    REAL = "real"


class Loss(Variant, ABC):
    """A convex, smooth loss of one row."""

    labels: ClassVar[Labels]
    clipped_steps_nonexpansive: ClassVar[bool]
    proof: ClassVar[str]

    @abstractmethod
    def value(self, x: Array, X: Array, y: Array | None) -> Array:
        """Losses of all rows at x: shape (n,) for X of shape (n, d)."""

    @abstractmethod
    def gradients(
        self, x: Array, X: Array, y: Array | None, clip_norm: float | None
    ) -> Array:
        """Gradients of all rows at x, each scaled down to clip_norm: shape (n, d)."""

    @abstractmethod
    def smoothness(self, row_norm: float) -> float:
        """L for every row with |a| <= row_norm."""

    @abstractmethod
    def lipschitz(self, row_norm: float) -> float | None:
        """G with |grad f| <= G for every such row and every x; None if none exists."""

    def sensitivity(self, row_norm: float) -> float | None:
        """Largest |grad f(x; row) - grad f(x; row')| over x; None if unbounded."""
        lipschitz = self.lipschitz(row_norm)
        return None if lipschitz is None else 2 * lipschitz

    def step_contraction(self, learning_rate: float) -> float:
        """Lipschitz factor of x - learning_rate * grad f(x), unclipped, at rate <= 2/L.

        Baillon-Haddad: 1 for a convex loss; less only for a strongly convex one.
        """
        return 1.0


@dataclass(frozen=True)
class Mean(Loss):
    """Mean estimation, f(x; q) = 1/2 |x - q|^2 (paper, Tasks, 1)."""

    kind = "mean"
    labels = Labels.NONE
    clipped_steps_nonexpansive = True
    proof = (
        "clip(x - q) is the gradient of a Huber function of x - q, hence firmly "
        "nonexpansive; the step is nonexpansive for learning rates <= 2 "
        "(PRIVACY.md 7.2, Mean)"
    )

    def value(self, x: Array, X: Array, y: Array | None) -> Array:  # noqa: D102
        values: Array = 0.5 * np.sum((x - X) ** 2, axis=1)
        return values

    def gradients(  # noqa: D102
        self, x: Array, X: Array, y: Array | None, clip_norm: float | None
    ) -> Array:
        G = x - X
        if clip_norm is None:
            return G
        norms = np.linalg.norm(G, axis=1, keepdims=True)
        clipped: Array = G * (clip_norm / np.maximum(norms, clip_norm))
        return clipped

    def smoothness(self, row_norm: float) -> float:  # noqa: D102
        return 1.0

    def lipschitz(self, row_norm: float) -> float | None:  # noqa: D102
        return None

    def sensitivity(self, row_norm: float) -> float | None:
        """|(x - q) - (x - q')| = |q - q'| <= 2 R, whatever x is."""
        return 2 * row_norm

    def step_contraction(self, learning_rate: float) -> float:
        """(1 - eta) x + eta q contracts by |1 - eta|."""
        return abs(1 - learning_rate)


class MarginLoss(Loss):
    """f(x; a, y) = phi(<x, a>, y) with phi convex and phi' `curvature`-Lipschitz."""

    curvature: float
    slope_bound: float | None
    # phi'(margin, label, parameter), of numbers or arrays
    slope_function: ClassVar[staticmethod[[Any, Any, float], Any]]
    clipped_steps_nonexpansive = True
    proof = (
        "the clipped slope clip(phi', -C/|a|, C/|a|) is nondecreasing and keeps the "
        "Lipschitz constant of phi', so the step is nonexpansive for learning rates "
        "<= 2/(curvature R^2) (PRIVACY.md 7.2, GLM)"
    )

    @property
    def parameter(self) -> float:
        """The one number that the slope function takes besides margin and label."""
        return 0.0

    @abstractmethod
    def margin_value(self, margin: Array, y: Array) -> Array:
        """phi(margin, y), elementwise."""

    def slope(self, margin: Array, y: Array) -> Array:
        """phi'(margin, y), elementwise."""
        with np.errstate(over="ignore"):  # slopes that vanish: 1 / (1 + e^800)
            slopes: Array = type(self).slope_function(margin, y, self.parameter)
        return slopes

    def value(self, x: Array, X: Array, y: Array | None) -> Array:  # noqa: D102
        return self.margin_value(X @ x, _labels(y))

    def gradients(  # noqa: D102
        self, x: Array, X: Array, y: Array | None, clip_norm: float | None
    ) -> Array:
        slopes = self.slope(X @ x, _labels(y))
        if clip_norm is not None:
            limits = slope_limits(X, clip_norm)
            slopes = np.clip(slopes, -limits, limits)
        gradients: Array = slopes[:, None] * X
        return gradients

    def smoothness(self, row_norm: float) -> float:
        """Curvature * R^2, attained by a row of norm R."""
        return self.curvature * row_norm * row_norm

    def lipschitz(self, row_norm: float) -> float | None:  # noqa: D102
        return None if self.slope_bound is None else self.slope_bound * row_norm


def slope_limits(X: Array, clip_norm: float) -> Array:
    """C/|a| for each row: clipping the gradient is clipping the slope here."""
    norms = np.linalg.norm(X, axis=1)
    limits: Array = np.divide(
        clip_norm, norms, out=np.full_like(norms, np.inf), where=norms > 0
    )
    return limits


def _labels(y: Array | None) -> Array:
    if y is None:
        raise _validate.InvalidParameterError("y is missing: this loss needs labels")
    return y


def _squared_slope(margin: Any, y: Any, _: float) -> Any:
    return 2.0 * (margin - y)


def _logistic_slope(margin: Any, y: Any, _: float) -> Any:
    return -y / (1.0 + np.exp(y * margin))


def _huber_slope(margin: Any, y: Any, transition: float) -> Any:
    return np.minimum(np.maximum(margin - y, -transition), transition)


def _smoothed_hinge_slope(margin: Any, y: Any, width: float) -> Any:
    return -y * np.minimum(np.maximum((1.0 - y * margin) / width, 0.0), 1.0)


@dataclass(frozen=True)
class Squared(MarginLoss):
    """Least squares, f = (<x, a> - y)^2: phi'' = 2 (paper, Tasks, 2)."""

    kind = "squared"
    labels = Labels.REAL
    curvature = 2.0
    slope_bound = None
    slope_function = staticmethod(_squared_slope)

    def margin_value(self, margin: Array, y: Array) -> Array:  # noqa: D102
        return (margin - y) ** 2


@dataclass(frozen=True)
class Logistic(MarginLoss):
    """Logistic regression, f = log(1 + exp(-y <x, a>)), y in {-1, +1}: phi'' <= 1/4.

    The paper prints ``-y log h - (1 - y) log h`` (Tasks, 3), which is neither convex
    in the right way nor a loss for labels -1/+1; this is what it means.
    """

    kind = "logistic"
    labels = Labels.BINARY
    curvature = 0.25
    slope_bound = 1.0
    slope_function = staticmethod(_logistic_slope)

    def margin_value(self, margin: Array, y: Array) -> Array:  # noqa: D102
        return np.logaddexp(0.0, -y * margin)


@dataclass(frozen=True)
class Huber(MarginLoss):
    """Huber regression: r^2/2 for |r| <= t, t (|r| - t/2) beyond, r = <x, a> - y."""

    transition: float = 1.0
    kind = "huber"
    labels = Labels.REAL
    curvature = 1.0
    slope_function = staticmethod(_huber_slope)

    def __post_init__(self) -> None:
        _validate.positive(transition=self.transition)
        _validate.plain(self)

    @property
    def slope_bound(self) -> float:  # type: ignore[override]
        """|phi'| <= transition."""
        return self.transition

    @property
    def parameter(self) -> float:  # noqa: D102
        return self.transition

    def margin_value(self, margin: Array, y: Array) -> Array:  # noqa: D102
        r = np.abs(margin - y)
        inner = np.minimum(r, self.transition)
        return inner * (r - 0.5 * inner)


@dataclass(frozen=True)
class SmoothedHinge(MarginLoss):
    """Hinge max(0, 1 - y m) with its corner rounded over `width`: phi'' <= 1/width."""

    width: float = 1.0
    kind = "smoothed_hinge"
    labels = Labels.BINARY
    slope_bound = 1.0
    slope_function = staticmethod(_smoothed_hinge_slope)

    def __post_init__(self) -> None:
        _validate.positive(width=self.width)
        _validate.plain(self)

    @property
    def curvature(self) -> float:  # type: ignore[override]
        """phi'' <= 1 / width."""
        return 1.0 / self.width

    @property
    def parameter(self) -> float:  # noqa: D102
        return self.width

    def margin_value(self, margin: Array, y: Array) -> Array:  # noqa: D102
        shortfall = np.maximum(1.0 - y * margin, 0.0)
        inner = np.minimum(shortfall, self.width)
        return inner * (shortfall - 0.5 * inner) / self.width
