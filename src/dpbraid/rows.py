"""Rows: the one door by which data comes in.

A table is checked and bounded once, here; all code behind the door may rely on it.
The bounds are public facts that the caller knows without looking at private rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpbraid import _validate

Array = NDArray[np.float64]

# Rows are scaled a little below the bound, so that rounding cannot lift them over it.
_ROUNDING_MARGIN = 1 - 1e-12
# Numbers that are worked on at once: temporaries stay small beside the table.
_PIECE = 2**17


class InvalidRowsError(_validate.DpbraidError):
    """A table cannot be used; the message names no row and no value of it."""


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """A bounded table: X of shape (n, d), y of shape (n,) or None, both read-only.

    Make it with :meth:`bounded`. ``|X[i]| <= row_norm`` and ``|y[i]| <= label_bound``
    hold for every row where the bound is not None.
    """

    X: Array
    y: Array | None
    row_norm: float | None
    label_bound: float | None

    @classmethod
    def bounded(
        cls,
        X: Any,
        y: Any = None,
        *,
        row_norm: float | None = None,
        label_bound: float | None = None,
    ) -> Self:
        """Check a table and pull it into its bounds.

        X: (n, d) numbers in any form that scikit-learn accepts (arrays, pandas and
        polars frames). Rows over ``row_norm`` are scaled down to it, labels over
        ``label_bound`` in size are cut to it. A bound of None is no bound: analyses
        that need it will refuse. Each row is changed by itself, so one private row
        stays one private row.
        """
        for name, bound in (("row_norm", row_norm), ("label_bound", label_bound)):
            if bound is not None:
                _validate.positive(**{name: bound})
        X = _matrix(X)
        if row_norm is not None:
            _scale_down(X, row_norm * _ROUNDING_MARGIN)
        if y is not None:
            y = _vector(y, len(X))
            if label_bound is not None:
                y = np.clip(y, -label_bound, label_bound)
            y.setflags(write=False)
        X.setflags(write=False)
        return cls(
            X,
            y,
            None if row_norm is None else float(row_norm),
            None if label_bound is None else float(label_bound),
        )

    def __len__(self) -> int:
        return len(self.X)

    @property
    def dimension(self) -> int:
        """Number of columns d."""
        return int(self.X.shape[1])

    def __repr__(self) -> str:
        labels = "no labels" if self.y is None else "labels"
        return (
            f"<Rows: {len(self)} x {self.dimension}, {labels}, "
            f"row_norm={self.row_norm}, label_bound={self.label_bound}>"
        )


def _scale_down(X: Array, norm: float) -> None:
    """Scale rows over the norm down to it, in place and in small pieces."""
    step = max(1, _PIECE // X.shape[1])
    for first in range(0, len(X), step):
        piece = X[first : first + step]
        norms = np.linalg.norm(piece, axis=1, keepdims=True)
        over = norms > norm
        # divide first: norm / norms can be subnormal for huge rows
        scaled = piece / np.where(over, norms, 1.0) * norm
        np.copyto(piece, scaled, where=over)


def _matrix(X: Any) -> Array:
    try:
        matrix = np.array(X, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        matrix = None
    if matrix is None:
        raise InvalidRowsError("X must be a table of numbers")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidRowsError(
            "X must be a table of shape (n, d) with n >= 1 and d >= 1, got shape "
            f"{matrix.shape}"
        )
    # The largest |x| whose square still sums without overflow over d columns. A NaN
    # makes both comparisons false.
    if not (matrix.min() > -1e150 and matrix.max() < 1e150):
        raise InvalidRowsError("X must be finite (no NaN, no entry beyond 1e150)")
    return matrix


def _vector(y: Any, n: int) -> Array:
    try:
        vector = np.array(y, dtype=np.float64)
    except (TypeError, ValueError):
        vector = None
    if vector is None:
        raise InvalidRowsError("y must be a column of numbers")
    if vector.shape == (n, 1):
        vector = vector[:, 0].copy()
    if vector.shape != (n,):
        raise InvalidRowsError(
            f"y must have one label a row of X, shape ({n},), got shape {vector.shape}"
        )
    if not np.all(np.abs(vector) < 1e150):
        raise InvalidRowsError("y must be finite (no NaN, no entry beyond 1e150)")
    return vector
