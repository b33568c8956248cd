"""PublicTransform: scaling, centring, PCA from public rows alone.

Statistics of private rows are not private, so a transformer is fitted on the public
rows and applied to both tables. It must map each row by itself: one private row then
stays one private row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)

from dpbraid._validate import InvalidParameterError
from dpbraid._variant import Variant

Array = NDArray[np.float64]


class PublicTransform(BaseEstimator):  # type: ignore[misc]
    """A scikit-learn transformer that an estimator fits on its public rows.

    transformer: any that maps each row by itself. The estimator fits a copy, checks on
    the public rows that the order and the company of a row make no difference, and
    names it in the certificate.
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fitted(self, X_public: Array) -> FittedTransform:
        """The transform that the public rows give."""
        transformer = clone(self.transformer).fit(X_public)
        try:
            steps = _steps(transformer)
        except _NotDeclarableError:
            steps = None
        found = FittedTransform(transformer, steps, X_public.shape[1])
        found.check(X_public)
        return found


class FittedTransform:
    """What a fitted transformer does to a row; numbers where it can be stated so.

    steps: the transform as a tuple of `Step`s, which files can hold; None for
    transformers that cannot be stated in numbers. Where there are steps they are what
    runs, in memory as after loading.
    """

    def __init__(
        self, transformer: Any, steps: tuple[Step, ...] | None, n_features_in: int
    ) -> None:
        self.transformer = transformer
        self.steps = steps
        self.n_features_in = n_features_in
        self.n_features_out = self.transform(np.zeros((1, n_features_in))).shape[1]

    def transform(self, X: Array) -> Array:
        """(n, n_features_in) -> (n, n_features_out), each row by itself."""
        if self.steps is not None:
            for step in self.steps:
                X = step.apply(X)
            return X
        Z = self.transformer.transform(X)
        dense: Array = np.asarray(
            Z.toarray() if sparse.issparse(Z) else Z, dtype=np.float64
        )
        return dense

    def check(self, X_public: Array) -> None:
        """Refuse a transform that mixes rows, as far as public rows show it."""
        Z = self.transform(X_public)
        if Z.shape != (len(X_public), self.n_features_out) or not np.isfinite(Z).all():
            raise InvalidParameterError(
                "public_transform must give one finite row for each public row"
            )
        some = np.unique(np.linspace(0, len(X_public) - 1, 5).astype(int))[::-1]
        alone = np.concatenate([self.transform(X_public[i : i + 1]) for i in some])
        scale = 1e-9 * (1 + np.abs(Z).max())
        together = self.transform(X_public[some])
        if np.abs(alone - Z[some]).max() > scale or (
            np.abs(together - Z[some]).max() > scale
        ):
            raise InvalidParameterError(
                "public_transform must map each row by itself, but the result for a "
                "public row depends on the other rows; one private row would then "
                "change many"
            )

    def __repr__(self) -> str:
        return f"<FittedTransform: {self.description}>"

    @property
    def description(self) -> str:
        """What the certificate says of it."""
        if self.transformer is None:
            kinds = ", ".join(step.kind for step in self.steps or ())
            return f"steps {kinds}"
        return " ".join(repr(self.transformer).split())

    @property
    def row_by_row(self) -> bool:
        """Whether every step is known to map each row by itself."""
        return self.steps is not None


# -- transforms in numbers -------------------------------------------------------------


class Step(Variant, ABC):
    """One row-by-row map that is written in a file as numbers."""

    @abstractmethod
    def apply(self, X: Array) -> Array:
        """Each row by itself, as a new array."""

    @abstractmethod
    def columns(self, dimension: int) -> int | None:
        """Columns that come out for `dimension` that go in; None where they misfit."""


def _numbers(**fields: Any) -> dict[str, tuple[float, ...]]:
    found = {}
    for name, value in fields.items():
        if not isinstance(value, list | tuple) or not value:
            raise InvalidParameterError(f"{name} must be a list of numbers")
        array = _finite(name, value)
        if array.ndim != 1:
            raise InvalidParameterError(f"{name} must be a list of numbers")
        found[name] = tuple(array.tolist())
    lengths = {len(value) for value in found.values()}
    if len(lengths) != 1:
        raise InvalidParameterError(f"{', '.join(found)} must have one length")
    return found


def _finite(name: str, value: Any) -> Array:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array([np.nan])
    if not np.isfinite(array).all():
        raise InvalidParameterError(f"{name} must hold finite numbers")
    return array


@dataclass(frozen=True)
class Affine(Step):
    """(x - shift) * scale, column by column."""

    shift: tuple[float, ...]
    scale: tuple[float, ...]
    kind = "affine"

    def __post_init__(self) -> None:
        for name, value in _numbers(shift=self.shift, scale=self.scale).items():
            object.__setattr__(self, name, value)

    def apply(self, X: Array) -> Array:  # noqa: D102
        moved: Array = (X - np.array(self.shift)) * np.array(self.scale)
        return moved

    def columns(self, dimension: int) -> int | None:  # noqa: D102
        return dimension if len(self.shift) == dimension else None


@dataclass(frozen=True)
class Clip(Step):
    """Each number cut to [low, high]."""

    low: float
    high: float
    kind = "clip"

    def __post_init__(self) -> None:
        _finite("low, high", [self.low, self.high])

    def apply(self, X: Array) -> Array:  # noqa: D102
        return np.clip(X, self.low, self.high)

    def columns(self, dimension: int) -> int | None:  # noqa: D102
        return dimension


@dataclass(frozen=True)
class Linear(Step):
    """X @ matrix; matrix: rows of numbers, (columns in, columns out)."""

    matrix: tuple[tuple[float, ...], ...]
    kind = "linear"

    def __post_init__(self) -> None:
        matrix = _finite("matrix", self.matrix)
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise InvalidParameterError("matrix must be a table of numbers")
        rows = tuple(tuple(row) for row in matrix.tolist())
        object.__setattr__(self, "matrix", rows)

    def apply(self, X: Array) -> Array:  # noqa: D102
        product: Array = X @ np.array(self.matrix)
        return product

    def columns(self, dimension: int) -> int | None:  # noqa: D102
        return len(self.matrix[0]) if len(self.matrix) == dimension else None


@dataclass(frozen=True)
class UnitRows(Step):
    """Each row over its norm, "l1", "l2" or "max"; a row of zeros stays."""

    norm: str
    kind = "unit_rows"

    def __post_init__(self) -> None:
        if self.norm not in ("l1", "l2", "max"):
            raise InvalidParameterError(
                f"norm must be 'l1', 'l2' or 'max', got {self.norm!r}"
            )

    def apply(self, X: Array) -> Array:  # noqa: D102
        size = np.abs(X).max(axis=1, keepdims=True)
        # nothing overflows from here
        scaled: Array = X / np.where(size > 0, size, 1.0)
        order = {"l1": 1, "l2": 2, "max": np.inf}[self.norm]
        norms = np.linalg.norm(scaled, ord=order, axis=1, keepdims=True)
        unit: Array = scaled / np.where(norms > 0, norms, 1.0)
        return unit

    def columns(self, dimension: int) -> int | None:  # noqa: D102
        return dimension


class _NotDeclarableError(Exception):
    """The transformer cannot be stated in numbers."""


def _steps(transformer: Any) -> tuple[Step, ...]:
    """The steps that do what a fitted transformer does (public attributes alone)."""
    if isinstance(transformer, Pipeline):
        inner = [step for _, step in transformer.steps]
        return tuple(s for t in inner if t != "passthrough" for s in _steps(t))
    convert = _CONVERSIONS.get(type(transformer))
    if convert is None:
        raise _NotDeclarableError
    return convert(transformer)


def _affine(transformer: Any, center: Any, scale: Any) -> tuple[Step, ...]:
    d = transformer.n_features_in_
    shift = np.zeros(d) if center is None else center
    factor = np.ones(d) if scale is None else 1 / np.asarray(scale)
    return (Affine(tuple(shift), tuple(factor)),)


def _min_max(t: MinMaxScaler) -> tuple[Step, ...]:
    low, high = t.feature_range
    low_at = np.asarray(t.data_min_) - low / t.scale_
    scaled = Affine(tuple(low_at), tuple(t.scale_))
    return (scaled, Clip(float(low), float(high))) if t.clip else (scaled,)


def _max_abs(t: MaxAbsScaler) -> tuple[Step, ...]:
    scaled = _affine(t, None, t.scale_)
    # scikit-learn 1.8 and later can clip
    return (*scaled, Clip(-1.0, 1.0)) if getattr(t, "clip", False) else scaled


def _pca(t: PCA) -> tuple[Step, ...]:
    components = np.array(t.components_)
    if t.whiten:
        components = components / np.sqrt(t.explained_variance_)[:, None]
    center = Affine(tuple(t.mean_), (1.0,) * len(t.mean_))
    return (center, Linear(tuple(tuple(row) for row in components.T)))


_CONVERSIONS: dict[type, Callable[[Any], tuple[Step, ...]]] = {
    StandardScaler: lambda t: _affine(
        t, t.mean_ if t.with_mean else None, t.scale_ if t.with_std else None
    ),
    RobustScaler: lambda t: _affine(
        t, t.center_ if t.with_centering else None, t.scale_ if t.with_scaling else None
    ),
    MaxAbsScaler: _max_abs,
    MinMaxScaler: _min_max,
    Normalizer: lambda t: (UnitRows(t.norm),),
    PCA: _pca,
}

SAVABLE = tuple(cls.__name__ for cls in _CONVERSIONS)
