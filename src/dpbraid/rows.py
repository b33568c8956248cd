"""Rows: the one door by which data comes in.

A table is checked and bounded once, here; all code behind the door may rely on it.
The bounds are public facts that the caller knows without looking at private rows.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpbraid import _validate

Array = NDArray[np.float64]

# Rows are scaled a little below the bound, so that rounding cannot lift them over it.
_ROUNDING_MARGIN = 1 - 1e-12
# Bounds for which this is enough: squares of what matters neither vanish nor overflow.
_LEAST_NORM, _MOST_NORM = 1e-100, 1e150
# Kinds of NumPy that hold real numbers, or objects and texts that may be read as some.
# NumPy would also make numbers of dates, durations and complex numbers.
_KINDS = frozenset("biufOSU")
# Numbers that are worked on at once: temporaries stay small beside the table.
_PIECE = 2**17


class InvalidRowsError(_validate.DpbraidError):
    """A table cannot be used; the message names no row and no value of it."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Rows:
    """A bounded table: X of shape (n, d), y of shape (n,) or None, both read-only.

    X: (n, d) numbers in any dense form that scikit-learn accepts (arrays, pandas and
    polars frames). Rows over ``row_norm`` are scaled down to it, labels over
    ``label_bound`` in size are cut to it, so ``|X[i]| <= row_norm`` and
    ``|y[i]| <= label_bound`` hold for every row. A bound of None is no bound: analyses
    that need it will refuse. Each row is changed by itself, so one private row stays
    one private row.
    """

    X: Array
    y: Array | None
    row_norm: float | None
    label_bound: float | None

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        row_norm: float | None = None,
        label_bound: float | None = None,
    ) -> None:
        if row_norm is not None:
            _validate.in_range(_LEAST_NORM, _MOST_NORM, row_norm=row_norm)
            row_norm = float(row_norm)
        if label_bound is not None:
            _validate.positive(label_bound=label_bound)
            label_bound = float(label_bound)
        X = _matrix(X)
        if row_norm is not None:
            _scale_down(X, row_norm * _ROUNDING_MARGIN)
        X.setflags(write=False)
        y = None if y is None else _labels(y, len(X), label_bound)
        checked = {"X": X, "y": y, "row_norm": row_norm, "label_bound": label_bound}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def bounded(
        cls,
        X: Any,
        y: Any = None,
        *,
        row_norm: float | None = None,
        label_bound: float | None = None,
    ) -> Self:
        """Check a table and pull it into its bounds: what ``Rows(...)`` does."""
        return cls(X, y, row_norm=row_norm, label_bound=label_bound)

    def with_labels(self, y: Any) -> Self:
        """The same rows, not copied, under other labels, without a bound on them."""
        rows = copy.copy(self)
        object.__setattr__(rows, "y", _labels(y, len(self), None))
        object.__setattr__(rows, "label_bound", None)
        return rows

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
    matrix = _numbers(X)
    if matrix is None:
        raise InvalidRowsError(f"X must be a table of numbers{_hint(X)}")
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


def _labels(y: Any, n: int, bound: float | None) -> Array:
    vector = _numbers(y)
    if vector is None:
        raise InvalidRowsError(f"y must be a column of numbers{_hint(y)}")
    if vector.shape == (n, 1):
        vector = vector[:, 0].copy()
    if vector.shape != (n,):
        raise InvalidRowsError(
            f"y must have one label a row of X, shape ({n},), got shape {vector.shape}"
        )
    if not np.all(np.abs(vector) < 1e150):
        raise InvalidRowsError("y must be finite (no NaN, no entry beyond 1e150)")
    if bound is not None:
        np.clip(vector, -bound, bound, out=vector)
    vector.setflags(write=False)
    return vector


def _numbers(table: Any) -> Array | None:
    """A float64 copy; None where the table does not hold real numbers.

    A masked entry is a missing one. Whatever a foreign table raises on its way may
    quote its values, so it ends here.
    """
    try:
        if isinstance(table, np.ma.MaskedArray):
            table = np.ma.filled(table.astype(np.float64), np.nan)
        array = np.asarray(table)
        kinds = {array.dtype.kind}
        if kinds == {"O"}:
            kinds |= {v.dtype.kind for v in array.flat if isinstance(v, np.generic)}
        if not kinds <= _KINDS:
            return None
        with np.errstate(all="ignore"):
            numbers = _on_cache_lines(array.shape)
            np.copyto(numbers, array, casting="unsafe")
            return numbers
    except MemoryError:
        raise
    except Exception:
        return None


def _on_cache_lines(shape: tuple[int, ...]) -> Array:
    """Room for float64 numbers from the start of a cache line on: loops like that."""
    count = math.prod(shape)
    room = np.empty(count + 8)
    first = -room.ctypes.data % 64 // 8
    return room[first : first + count].reshape(shape)


def _hint(table: Any) -> str:
    if hasattr(table, "toarray"):
        return ", not a sparse matrix; toarray() makes it dense"
    return ""
