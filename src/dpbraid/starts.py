"""Start points: where the first epoch begins. Never a function of private rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbraid import _validate
from dpbraid._variant import Variant

Array = NDArray[np.float64]


class Start(Variant, ABC):
    """A rule for the start point x_1^(1)."""

    @abstractmethod
    def point(
        self, dimension: int, rng: np.random.Generator, given: Array | None
    ) -> Array:
        """The start point, shape (dimension,); `given` only where the rule asks."""

    @abstractmethod
    def norm_bound(self, dimension: int) -> float:
        """Bound on |x_1^(1)| from public facts."""


@dataclass(frozen=True)
class Zeros(Start):
    """x_1^(1) = 0."""

    kind = "zeros"

    def point(  # noqa: D102
        self, dimension: int, rng: np.random.Generator, given: Array | None
    ) -> Array:
        _refuse(given, self.kind)
        return np.zeros(dimension)

    def norm_bound(self, dimension: int) -> float:  # noqa: D102
        return 0.0


@dataclass(frozen=True)
class Normal(Start):
    """x_1^(1) ~ N(0, std^2 I), each coordinate cut at 20 std (never seen)."""

    std: float
    kind = "normal"

    def __post_init__(self) -> None:
        _validate.positive(std=self.std)
        _validate.plain(self)

    def point(  # noqa: D102
        self, dimension: int, rng: np.random.Generator, given: Array | None
    ) -> Array:
        _refuse(given, self.kind)
        drawn: Array = self.std * np.clip(rng.standard_normal(dimension), -20, 20)
        return drawn

    def norm_bound(self, dimension: int) -> float:  # noqa: D102
        return 20 * self.std * math.sqrt(dimension)


@dataclass(frozen=True)
class Given(Start):
    """A point of norm <= `norm` that the caller hands to the engine.

    The caller declares that it was made without private rows, for example from public
    ones; the certificate prints the declaration.
    """

    norm: float
    kind = "given"

    def __post_init__(self) -> None:
        _validate.positive(norm=self.norm)
        _validate.plain(self)

    def point(  # noqa: D102
        self, dimension: int, rng: np.random.Generator, given: Array | None
    ) -> Array:
        if given is None:
            raise _validate.InvalidParameterError(
                "start is missing: this mechanism starts at a given point"
            )
        try:
            point = np.array(given, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise _validate.InvalidParameterError(
                f"start must be a finite array of shape ({dimension},), got "
                f"{_validate.shown(given)}"
            ) from None
        if point.shape != (dimension,) or not np.all(np.isfinite(point)):
            raise _validate.InvalidParameterError(
                f"start must be a finite array of shape ({dimension},), got shape "
                f"{point.shape}"
            )
        if np.linalg.norm(point) > self.norm:
            raise _validate.InvalidParameterError(
                f"start must have norm <= {self.norm!r} (the mechanism's bound), "
                f"got {float(np.linalg.norm(point))!r}"
            )
        return point

    def norm_bound(self, dimension: int) -> float:  # noqa: D102
        return self.norm


def _refuse(given: Array | None, kind: str) -> None:
    if given is not None:
        raise _validate.InvalidParameterError(
            f"start must be left out: this mechanism starts at {kind!r}"
        )
