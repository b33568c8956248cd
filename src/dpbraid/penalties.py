"""Convex penalties psi(x), applied by their proximal step once at each epoch end.

``prox(x, step) = argmin_z  step * psi(z) + |z - x|^2 / 2`` with step = eta * n in the
paper (Algorithm 1, line 11). x has shape (d,), or (d, columns) with one step a column.

Every prox here is nonexpansive because psi is convex, and contracts by 1/(1 + step m)
where psi is m-strongly convex (PRIVACY.md 4.1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbraid import _validate
from dpbraid._variant import Variant

Array = NDArray[np.float64]
Step = float | Array


class Penalty(Variant, ABC):
    """A convex penalty with a cheap proximal step."""

    strong_convexity: float = 0.0

    @abstractmethod
    def value(self, x: Array) -> float:
        """psi(x); infinity outside of a constraint set (to 1e-9 of its size)."""

    @abstractmethod
    def prox(self, x: Array, step: Step) -> Array:
        """The proximal step, as a new array."""

    def contraction(self, step: float) -> float:
        """Lipschitz factor of the proximal step (PRIVACY.md 4.1)."""
        return 1.0 / (1.0 + step * self.strong_convexity)

    @property
    def diameter(self) -> float | None:
        """Diameter of the set that every prox lands in, where it has one."""
        return None


@dataclass(frozen=True)
class NoPenalty(Penalty):
    """psi = 0."""

    kind = "none"

    def value(self, x: Array) -> float:  # noqa: D102
        return 0.0

    def prox(self, x: Array, step: Step) -> Array:  # noqa: D102
        return x.copy()


@dataclass(frozen=True)
class Ridge(Penalty):
    """psi = weight/2 |x|^2."""

    weight: float
    kind = "ridge"

    def __post_init__(self) -> None:
        _validate.positive(weight=self.weight)
        _validate.plain(self)

    @property
    def strong_convexity(self) -> float:  # type: ignore[override]
        """The weight itself."""
        return self.weight

    def value(self, x: Array) -> float:  # noqa: D102
        return 0.5 * self.weight * float(x @ x)

    def prox(self, x: Array, step: Step) -> Array:  # noqa: D102
        return x / (1.0 + step * self.weight)


@dataclass(frozen=True)
class Lasso(Penalty):
    """psi = weight |x|_1; its prox is soft thresholding."""

    weight: float
    kind = "lasso"

    def __post_init__(self) -> None:
        _validate.positive(weight=self.weight)
        _validate.plain(self)

    def value(self, x: Array) -> float:  # noqa: D102
        return self.weight * float(np.sum(np.abs(x)))

    def prox(self, x: Array, step: Step) -> Array:  # noqa: D102
        return _soft_threshold(x, step * self.weight)


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """psi = l1 |x|_1 + l2/2 |x|^2."""

    l1: float
    l2: float
    kind = "elastic_net"

    def __post_init__(self) -> None:
        _validate.positive(l1=self.l1, l2=self.l2)
        _validate.plain(self)

    @property
    def strong_convexity(self) -> float:  # type: ignore[override]
        """The weight of the squared part."""
        return self.l2

    def value(self, x: Array) -> float:  # noqa: D102
        return self.l1 * float(np.sum(np.abs(x))) + 0.5 * self.l2 * float(x @ x)

    def prox(self, x: Array, step: Step) -> Array:  # noqa: D102
        return _soft_threshold(x, step * self.l1) / (1.0 + step * self.l2)


@dataclass(frozen=True)
class Ball(Penalty):
    """psi = 0 on the Euclidean ball |x| <= radius, infinity outside; a projection."""

    radius: float
    kind = "ball"

    def __post_init__(self) -> None:
        _validate.positive(radius=self.radius)
        _validate.plain(self)

    @property
    def diameter(self) -> float:  # noqa: D102
        return 2 * self.radius

    def value(self, x: Array) -> float:  # noqa: D102
        inside = np.linalg.norm(x) <= self.radius * (1 + 1e-9)
        return 0.0 if inside else float("inf")

    def prox(self, x: Array, step: Step) -> Array:  # noqa: D102
        norm = np.linalg.norm(x, axis=0)
        projected: Array = x * (self.radius / np.maximum(norm, self.radius))
        return projected


@dataclass(frozen=True)
class Box(Penalty):
    """psi = 0 where lower <= x_i <= upper for all i, infinity outside; a projection."""

    lower: float
    upper: float
    kind = "box"

    def __post_init__(self) -> None:
        _validate.finite(lower=self.lower, upper=self.upper)
        _validate.plain(self)
        if self.lower >= self.upper:
            raise _validate.InvalidParameterError(
                f"lower must be below upper, got lower={self.lower!r}, "
                f"upper={self.upper!r}"
            )

    def value(self, x: Array) -> float:  # noqa: D102
        slack = 1e-9 * (self.upper - self.lower)
        inside = np.all((x >= self.lower - slack) & (x <= self.upper + slack))
        return 0.0 if inside else float("inf")

    def prox(self, x: Array, step: Step) -> Array:  # noqa: D102
        return np.clip(x, self.lower, self.upper)


@dataclass(frozen=True)
class FreeLast(Penalty):
    """A penalty on all coordinates but the last, which is left alone: an intercept.

    `penalty` may be given as the JSON object of a penalty.
    """

    penalty: Penalty
    kind = "free_last"

    def __post_init__(self) -> None:
        if not isinstance(self.penalty, Penalty):
            object.__setattr__(self, "penalty", Penalty.from_json(self.penalty))

    def value(self, x: Array) -> float:  # noqa: D102
        return self.penalty.value(x[:-1])

    def prox(self, x: Array, step: Step) -> Array:  # noqa: D102
        return np.concatenate([self.penalty.prox(x[:-1], step), x[-1:]])

    def to_json(self) -> dict[str, Any]:  # noqa: D102
        return {"kind": self.kind, "penalty": self.penalty.to_json()}


def _soft_threshold(x: Array, threshold: Step) -> Array:
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0.0)
